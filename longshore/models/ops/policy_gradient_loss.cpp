#include "longshore/models/ops/policy_gradient_loss.h"

#include <ATen/ops/minimum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <any>
#include <cmath>
#include <string>
#include <vector>

#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/print.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/segment_sums.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "longshore/models/ops/loss_vjp.h"

namespace longshore::models {
namespace {

const PolicyGradientOptions& options_of(const std::any& attrs) {
  return std::any_cast<const PolicyGradientOptions&>(attrs);
}

// --- records

// Of the loss, or of a gradient behind dloss.
void expect_operands(const std::any& attrs, std::span<const Type> in, const char* op) {
  const PolicyGradientOptions& options = options_of(attrs);
  expect(options.clip_low >= 0 && options.clip_high >= 0 && options.kl_weight >= 0, op,
         "a bound or weight is negative");
  const Type& losses = in[0];
  expect(losses.shape.rank() == 2 && losses.dtype == reduction_dtype(losses.dtype), op,
         "token losses are not f32 or f64 [B,T]");
  const Type integers{losses.shape, Dtype::int32};
  expect(in[1] == integers && in[2] == integers, op, "targets or segments are not i32 [B,T]");
  for (size_t i = 3; i < in.size(); ++i)
    expect(in[i] == losses, op, "advantages or log-probabilities are of another type than losses");
  expect((in.size() > 5) == (options.kl_weight > 0), op,
         "a reference is there without a weight, or the other way round");
}

Types infer(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 5, 6, "policy_gradient_loss");
  expect_operands(attrs, in, "policy_gradient_loss");
  return {scalar_loss(in[0].dtype)};
}

Types infer_grad(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 6, 7, "policy_gradient_loss_grad");
  expect_operands(attrs, in.subspan(1), "policy_gradient_loss_grad");
  expect(in[0] == scalar_loss(in[1].dtype), "policy_gradient_loss_grad",
         "dloss is not a scalar of the loss's type");
  return {in[1]};
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  constexpr double kFlopsOfToken = 32;
  return {.flops = kFlopsOfToken * static_cast<double>(in[1].shape.count()),
          .bytes = operand_bytes(in, out)};
}

std::string print(const std::any& attrs) {
  const PolicyGradientOptions& o = options_of(attrs);
  auto unit = [](PolicyUnit one) { return one == PolicyUnit::token ? "tokens" : "sequences"; };
  std::string text = std::string("ratios of ") + unit(o.ratio_of) + ", mean over " +
                     unit(o.mean_over) + ", " + print_number("clip_low", o.clip_low) + ", " +
                     print_number("clip_high", o.clip_high);
  if (o.kl_weight > 0) text += ", " + print_number("kl_weight", o.kl_weight);
  return text;
}

// --- CPU

// What is given of a micro-batch; of a gradient it follows dloss.
struct Operands {
  const float* losses;
  const int32_t *targets, *segments;
  const float *advantages, *old, *reference = nullptr;
  int64_t rows, length;

  explicit Operands(std::span<const Ref> in)
      : losses(in[0].as<float>()),
        targets(in[1].as<int32_t>()),
        segments(in[2].as<int32_t>()),
        advantages(in[3].as<float>()),
        old(in[4].as<float>()),
        rows(in[0].type.shape[0]),
        length(in[0].type.shape[1]) {
    if (in.size() > 5) reference = in[5].as<float>();
  }

  double log_ratio(int64_t at) const {
    return std::isnan(old[at]) ? 0 : -static_cast<double>(losses[at]) - old[at];
  }
};

// The loss of a token, and its derivatives by the log of the ratio and by the token's
// log-probability where that is in the divergence.
struct PolicyTerm {
  double loss = 0, by_log_ratio = 0, by_log_prob = 0;
};

PolicyTerm policy_term(const PolicyGradientOptions& o, const Operands& in, int64_t at,
                       double ratio) {
  const double advantage = in.advantages[at];
  const double free = ratio * advantage,
               clipped = std::clamp(ratio, 1 - o.clip_low, 1 + o.clip_high) * advantage;
  PolicyTerm term{.loss = -std::min(free, clipped), .by_log_ratio = free <= clipped ? -free : 0};
  if (in.reference) {
    const double k = static_cast<double>(in.reference[at]) + in.losses[at];
    term.loss += o.kl_weight * (std::expm1(k) - k);
    term.by_log_prob = -o.kl_weight * std::expm1(k);
  }
  return term;
}

class Sequences {
 public:
  Sequences(const PolicyGradientOptions& options, std::span<const Ref> in) : o_(options), in_(in) {}

  // Calls f(positions of its tokens, the weight of each, the mean of their log ratios) for each.
  template <class F>
  void for_each(F f) const {
    std::vector<int64_t> tokens;
    for (int64_t row = 0; row < in_.rows * in_.length; row += in_.length)
      for (int64_t begin = row, end = begin; begin < row + in_.length; begin = end) {
        tokens.clear();
        for (; end < row + in_.length && in_.segments[end] == in_.segments[begin]; ++end)
          if (in_.segments[end] > 0 && in_.targets[end] != kIgnoredTarget) tokens.push_back(end);
        if (tokens.empty()) continue;
        const auto count = static_cast<double>(tokens.size());
        double common = 0;
        for (const int64_t at : tokens) common += in_.log_ratio(at) / count;
        f(tokens, o_.mean_over == PolicyUnit::sequence ? 1 / count : 1, common);
      }
  }

  PolicyTerm term(int64_t at, double common) const {
    const double log_ratio = o_.ratio_of == PolicyUnit::token ? in_.log_ratio(at) : common;
    return policy_term(o_, in_, at, std::exp(log_ratio));
  }

 private:
  const PolicyGradientOptions& o_;
  Operands in_;
};

void run_cpu(const KernelCall& call) {
  double sum = 0;
  const Sequences sequences(options_of(call.attrs), call.in);
  sequences.for_each([&](const std::vector<int64_t>& tokens, double weight, double common) {
    for (const int64_t at : tokens) sum += weight * sequences.term(at, common).loss;
  });
  *call.out[0].as<float>() = static_cast<float>(sum);
}

void run_grad_cpu(const KernelCall& call) {
  const PolicyGradientOptions& options = options_of(call.attrs);
  const double dloss = *call.in[0].as<float>();
  auto* const dlosses = call.out[0].as<float>();
  std::fill_n(dlosses, call.out[0].type.shape.count(), 0.f);
  const Sequences sequences(options, call.in.subspan(1));
  sequences.for_each([&](const std::vector<int64_t>& tokens, double weight, double common) {
    double of_all = 0;
    if (options.ratio_of == PolicyUnit::sequence)
      for (const int64_t at : tokens)
        of_all += sequences.term(at, common).by_log_ratio / static_cast<double>(tokens.size());
    for (const int64_t at : tokens) {
      const PolicyTerm term = sequences.term(at, common);
      const double by_ratio = options.ratio_of == PolicyUnit::token ? term.by_log_ratio : of_all;
      dlosses[at] = static_cast<float>(-dloss * weight * (by_ratio + term.by_log_prob));
    }
  });
}

// --- composition, in float64

// Of each position: losses, and their derivatives by its log-probability.
struct ComposedTerms {
  at::Tensor losses, by_log_prob;
};

ComposedTerms composed_terms(const KernelCall& call, std::span<const Ref> in) {
  const PolicyGradientOptions& o = options_of(call.attrs);
  auto input = [&](size_t i) { return tensor(call, in[i]).to(at::kDouble); };
  const at::Tensor segments = tensor(call, in[2]), losses = input(0), advantages = input(3),
                   old = input(4);
  const at::Tensor counted = tensor(call, in[1]).ne(kIgnoredTarget).logical_and(segments.gt(0));
  const at::Tensor lengths = of_segments(segment_sums(counted, segments), segments).clamp_min(1);
  const at::Tensor none = at::zeros_like(losses);
  auto mean_of_sequence = [&](const at::Tensor& values) {
    return of_segments(segment_sums(values, segments), segments) / lengths;
  };
  at::Tensor log_ratio =
      at::where(counted.logical_and(old.isnan().logical_not()), -losses - old, none);
  if (o.ratio_of == PolicyUnit::sequence) log_ratio = mean_of_sequence(log_ratio);
  const at::Tensor ratio = log_ratio.exp();
  const at::Tensor free = ratio * advantages,
                   clipped = ratio.clamp(1 - o.clip_low, 1 + o.clip_high) * advantages;
  ComposedTerms terms{.losses = -at::minimum(free, clipped),
                      .by_log_prob = at::where(counted.logical_and(free.le(clipped)), -free, none)};
  if (o.ratio_of == PolicyUnit::sequence) terms.by_log_prob = mean_of_sequence(terms.by_log_prob);
  if (in.size() > 5) {
    const at::Tensor k = at::where(counted, input(5) + losses, none);
    terms.losses = terms.losses + (k.expm1() - k) * o.kl_weight;
    terms.by_log_prob = terms.by_log_prob - k.expm1() * o.kl_weight;
  }
  const at::Tensor weights = o.mean_over == PolicyUnit::sequence ? 1 / lengths : none + 1;
  return {at::where(counted, terms.losses * weights, none),
          at::where(counted, terms.by_log_prob * weights, none)};
}

void run_composed(const KernelCall& call) {
  tensor(call, call.out[0]).copy_(composed_terms(call, call.in).losses.sum());
}

void run_grad_composed(const KernelCall& call) {
  const at::Tensor dloss = tensor(call, call.in[0]).to(at::kDouble);
  tensor(call, call.out[0]).copy_(composed_terms(call, call.in.subspan(1)).by_log_prob * -dloss);
}

int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  constexpr int64_t kTensors = 48;  // of 8 bytes for each position
  const Type& positions = in[1];    // of the loss or of its gradient
  return kTensors * allocated_bytes(8 * (positions.shape.count() + positions.shape[0])) +
         kReductionBytes + (1 << 20);
}

}  // namespace

const Op policy_gradient_loss_op{.name = "policy_gradient_loss",
                                 .infer = infer,
                                 .vjp = loss_vjp<policy_gradient_loss_grad_op>,
                                 .cost = cost,
                                 .print = print,
                                 .cpu = {run_cpu},
                                 .cuda = {run_composed, workspace_composed},
                                 .reference = {run_composed}};

const Op policy_gradient_loss_grad_op{.name = "policy_gradient_loss_grad",
                                      .infer = infer_grad,
                                      .cost = cost,
                                      .print = print,
                                      .cpu = {run_grad_cpu},
                                      .cuda = {run_grad_composed, workspace_composed},
                                      .reference = {run_grad_composed}};

Var policy_gradient_loss(const PolicyGradientInputs& inputs, const PolicyGradientOptions& options) {
  std::vector<Var> in{inputs.losses, inputs.targets, inputs.segments, inputs.advantages,
                      inputs.old_log_probs};
  if (inputs.reference_log_probs) in.push_back(*inputs.reference_log_probs);
  return inputs.losses.trace->emit(policy_gradient_loss_op, options, in)[0];
}

}  // namespace longshore::models
