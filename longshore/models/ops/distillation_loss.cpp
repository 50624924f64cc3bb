#include "longshore/models/ops/distillation_loss.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/print.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "longshore/models/ops/loss_vjp.h"

namespace longshore::models {
namespace {

// The least that any other token counts as, and the least logarithm of a given one: no product of a
// chance of 0 and an infinite logarithm.
constexpr double kLeastRest = 1e-6, kLeastLogProb = -1e4;

const DistillationOptions& options_of(const std::any& attrs) {
  return std::any_cast<const DistillationOptions&>(attrs);
}

// --- records

// Of the loss, or of a gradient behind dloss.
void expect_operands(const std::any& attrs, std::span<const Type> in, const char* op) {
  expect(options_of(attrs).temperature > 0, op, "the temperature is not positive");
  const Type& losses = in[0];
  expect(losses.shape.rank() == 3 && losses.dtype == reduction_dtype(losses.dtype), op,
         "losses are not f32 or f64 [B,T,K]");
  expect(losses.shape.back() <= kMaxTargets, op, "more tokens than have losses");
  expect(in[1] == losses && in[2] == Type{losses.shape, Dtype::int32}, op,
         "log-probabilities or tokens do not fit the losses");
  const Type targets{{losses.shape[0], losses.shape[1]}, Dtype::int32};
  expect(in[3] == targets, op, "targets are not i32 [B,T]");
}

Types infer(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 4, 4, "distillation_loss");
  expect_operands(attrs, in, "distillation_loss");
  return {scalar_loss(in[0].dtype)};
}

Types infer_grad(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 5, 5, "distillation_loss_grad");
  expect_operands(attrs, in.subspan(1), "distillation_loss_grad");
  expect(in[0] == scalar_loss(in[1].dtype), "distillation_loss_grad",
         "dloss is not a scalar of the loss's type");
  return {in[1]};
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  constexpr double kFlopsOfToken = 32;
  return {.flops = kFlopsOfToken * static_cast<double>(in[1].shape.count()),
          .bytes = operand_bytes(in, out)};
}

std::string print(const std::any& attrs) {
  const DistillationOptions& o = options_of(attrs);
  std::string text = o.direction == KlDirection::forward ? "forward" : "reverse";
  if (o.temperature != 1) text += ", " + print_number("temperature", o.temperature);
  return text;
}

// --- CPU

// What is given of a micro-batch; of a gradient it follows dloss.
struct Operands {
  const float *losses, *teacher;
  const int32_t *tokens, *targets;
  int64_t positions, k;

  explicit Operands(std::span<const Ref> in)
      : losses(in[0].as<float>()),
        teacher(in[1].as<float>()),
        tokens(in[2].as<int32_t>()),
        targets(in[3].as<int32_t>()),
        positions(in[0].type.shape.rows()),
        k(in[0].type.shape.back()) {}

  bool is_there(int64_t position) const {
    return targets[position] != kIgnoredTarget && tokens[position * k] != kIgnoredTarget;
  }
};

// A distribution over K tokens and any other, at a temperature.
class Outcomes {
 public:
  explicit Outcomes(int64_t k) : log_probs_(static_cast<size_t>(k + 1)) {}

  // `log_prob(i)` is that of the i-th token at a temperature of 1.
  template <class LogProb>
  void set(LogProb log_prob, double temperature) {
    const size_t k = log_probs_.size() - 1;
    double sum = 0;
    for (size_t i = 0; i < k; ++i) {
      log_probs_[i] = std::max(log_prob(i), kLeastLogProb);
      sum += std::exp(log_probs_[i]);
    }
    rest_ = 1 - sum;
    log_probs_[k] = std::log(std::max(rest_, kLeastRest));
    double largest = log_probs_[0] / temperature, of_all = 0;
    for (double& one : log_probs_) largest = std::max(largest, one /= temperature);
    for (const double one : log_probs_) of_all += std::exp(one - largest);
    for (double& one : log_probs_) one -= largest + std::log(of_all);
  }

  const std::vector<double>& log_probs() const { return log_probs_; }
  double rest() const { return rest_; }  // at a temperature of 1

 private:
  std::vector<double> log_probs_;
  double rest_ = 0;
};

// The divergences of a micro-batch's positions.
class Divergences {
 public:
  Divergences(const DistillationOptions& options, std::span<const Ref> in)
      : o_(options), in_(in), model_(in_.k), teacher_(in_.k) {}

  // Calls f(position, divergence) for each that has one; until then model() and teacher() are its.
  template <class F>
  void for_each(F f) {
    for (int64_t position = 0; position < in_.positions; ++position) {
      if (!in_.is_there(position)) continue;
      const float *losses = in_.losses + position * in_.k, *given = in_.teacher + position * in_.k;
      model_.set([&](size_t i) { return -static_cast<double>(losses[i]); }, o_.temperature);
      teacher_.set([&](size_t i) { return static_cast<double>(given[i]); }, o_.temperature);
      const std::vector<double>&p = first().log_probs(), &q = second().log_probs();
      double sum = 0;
      for (size_t i = 0; i < p.size(); ++i) sum += std::exp(p[i]) * (p[i] - q[i]);
      f(position, sum);
    }
  }

  // The gradient of a divergence by the logarithm of the model's i-th outcome before it is divided
  // by the temperature.
  double by_outcome(size_t i, double divergence) const {
    const double p = model_.log_probs()[i], q = teacher_.log_probs()[i];
    const double slope = o_.direction == KlDirection::forward ? std::exp(p) - std::exp(q)
                                                              : std::exp(p) * (p - q - divergence);
    return slope / o_.temperature;
  }

  const Outcomes& model() const { return model_; }
  int64_t k() const { return in_.k; }
  const float* losses(int64_t position) const { return in_.losses + position * in_.k; }

 private:
  const Outcomes& first() const { return o_.direction == KlDirection::forward ? teacher_ : model_; }
  const Outcomes& second() const {
    return o_.direction == KlDirection::forward ? model_ : teacher_;
  }

  const DistillationOptions& o_;
  Operands in_;
  Outcomes model_, teacher_;
};

double square(double x) { return x * x; }

void run_cpu(const KernelCall& call) {
  const DistillationOptions& options = options_of(call.attrs);
  double sum = 0;
  Divergences(options, call.in).for_each([&](int64_t, double divergence) { sum += divergence; });
  *call.out[0].as<float>() = static_cast<float>(square(options.temperature) * sum);
}

void run_grad_cpu(const KernelCall& call) {
  const DistillationOptions& options = options_of(call.attrs);
  const double factor = *call.in[0].as<float>() * square(options.temperature);
  auto* const dlosses = call.out[0].as<float>();
  std::fill_n(dlosses, call.out[0].type.shape.count(), 0.f);
  Divergences all(options, call.in.subspan(1));
  const auto k = static_cast<size_t>(all.k());
  all.for_each([&](int64_t position, double divergence) {
    // Any other token has what these have not.
    const double rest = all.model().rest();
    const double by_rest = rest > kLeastRest ? all.by_outcome(k, divergence) / rest : 0;
    const float* const losses = all.losses(position);
    for (size_t i = 0; i < k; ++i)
      dlosses[static_cast<size_t>(position) * k + i] =
          static_cast<float>(factor * (by_rest * std::exp(-static_cast<double>(losses[i])) -
                                       all.by_outcome(i, divergence)));
  });
}

// --- composition, in float64

struct ComposedOutcomes {
  at::Tensor probs, rest, log_probs;  // [B,T,K], [B,T,1], and [B,T,K+1] at the temperature
};

ComposedOutcomes outcomes(const at::Tensor& given, double temperature) {
  const at::Tensor log_probs = given.clamp_min(kLeastLogProb);
  ComposedOutcomes all{.probs = log_probs.exp(), .rest = {}, .log_probs = {}};
  all.rest = 1 - all.probs.sum(-1, true);
  const at::Tensor with_rest = at::cat({log_probs, all.rest.clamp_min(kLeastRest).log()}, -1);
  all.log_probs = at::log_softmax(with_rest / temperature, -1);
  return all;
}

struct ComposedDivergences {
  ComposedOutcomes model;
  at::Tensor divergences, by_outcome;  // [B,T,1], [B,T,K+1]
};

ComposedDivergences divergences(const KernelCall& call, std::span<const Ref> in) {
  const DistillationOptions& o = options_of(call.attrs);
  const at::Tensor is_there =
      tensor(call, in[2])
          .narrow(-1, 0, 1)
          .ne(kIgnoredTarget)
          .logical_and(tensor(call, in[3]).ne(kIgnoredTarget).unsqueeze(-1));
  auto input = [&](size_t i) { return tensor(call, in[i]).to(at::kDouble); };
  ComposedDivergences all{
      .model = outcomes(-input(0), o.temperature), .divergences = {}, .by_outcome = {}};
  const at::Tensor p = all.model.log_probs, q = outcomes(input(1), o.temperature).log_probs;
  const bool is_forward = o.direction == KlDirection::forward;
  all.divergences = (is_forward ? q.exp() * (q - p) : p.exp() * (p - q)).sum(-1, true);
  all.by_outcome =
      (is_forward ? p.exp() - q.exp() : p.exp() * (p - q - all.divergences)) / o.temperature;
  const at::Tensor none = at::zeros_like(all.divergences);
  all.by_outcome = at::where(is_there, all.by_outcome, none);
  all.divergences = at::where(is_there, all.divergences, none);
  return all;
}

void run_composed(const KernelCall& call) {
  const double factor = square(options_of(call.attrs).temperature);
  tensor(call, call.out[0]).copy_(divergences(call, call.in).divergences.sum() * factor);
}

void run_grad_composed(const KernelCall& call) {
  const ComposedDivergences all = divergences(call, call.in.subspan(1));
  const int64_t k = all.model.probs.size(-1);
  const at::Tensor rest = all.model.rest;
  const at::Tensor by_rest =
      at::where(rest.gt(kLeastRest), all.by_outcome.narrow(-1, k, 1) / rest, at::zeros_like(rest));
  const double factor = square(options_of(call.attrs).temperature);
  const at::Tensor dloss = tensor(call, call.in[0]).to(at::kDouble) * factor;
  tensor(call, call.out[0])
      .copy_((by_rest * all.model.probs - all.by_outcome.narrow(-1, 0, k)) * dloss);
}

int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  constexpr int64_t kTensors = 26;  // of 8 bytes for each token, or for any other; none is reused
  const Shape& tokens = in[1].shape;
  return kTensors * allocated_bytes(8 * (tokens.count() + tokens.rows())) + kReductionBytes;
}

}  // namespace

const Op distillation_loss_op{.name = "distillation_loss",
                              .infer = infer,
                              .vjp = loss_vjp<distillation_loss_grad_op>,
                              .cost = cost,
                              .print = print,
                              .cpu = {run_cpu},
                              .cuda = {run_composed, workspace_composed},
                              .reference = {run_composed}};

const Op distillation_loss_grad_op{.name = "distillation_loss_grad",
                                   .infer = infer_grad,
                                   .cost = cost,
                                   .print = print,
                                   .cpu = {run_grad_cpu},
                                   .cuda = {run_grad_composed, workspace_composed},
                                   .reference = {run_grad_composed}};

Var distillation_loss(const DistillationInputs& inputs, const DistillationOptions& options) {
  return inputs.losses.trace->emit(
      distillation_loss_op, options,
      {inputs.losses, inputs.teacher_log_probs, inputs.tokens, inputs.targets})[0];
}

}  // namespace longshore::models
