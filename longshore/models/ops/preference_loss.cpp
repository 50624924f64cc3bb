#include "longshore/models/ops/preference_loss.h"

#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "longshore/base/error.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/print.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/loss_vjp.h"

namespace longshore::models {
namespace {

const PreferenceLossOptions& options_of(const std::any& attrs) {
  return std::any_cast<const PreferenceLossOptions&>(attrs);
}

const char* name_of(PreferenceLoss kind) {
  static constexpr const char* kNames[] = {"sigmoid", "robust",     "hinge",
                                           "squared", "odds_ratio", "kto"};
  return kNames[static_cast<size_t>(kind)];
}

// --- records

void expect_places(const Type& type, const char* op) {
  expect(type.shape.rank() == 2 && type.dtype == reduction_dtype(type.dtype), op,
         "log-probabilities are not f32 or f64 [B,T]");
}

// Of the loss, or of a gradient behind dloss.
void expect_operands(const std::any& attrs, std::span<const Type> in, const char* op) {
  const PreferenceLossOptions& options = options_of(attrs);
  expect(options.label_smoothing >= 0 && options.label_smoothing < 0.5 && options.beta > 0, op,
         "beta is not positive, or label_smoothing not in [0, 0.5)");
  expect_places(in[0], op);
  for (size_t i = 1; i < in.size() && i < 3; ++i)
    expect(in[i] == in[0], op, "counts or a reference are of another type than log-probabilities");
  if (in.size() > 3)
    expect(in[3] == Type{{in[0].shape[0]}, in[0].dtype} && options.kind == PreferenceLoss::kto, op,
           "kl is not [B], or not of kto");
}

Types infer(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 2, 4, "preference_loss");
  expect_operands(attrs, in, "preference_loss");
  return {scalar_loss(in[0].dtype)};
}

Types infer_grad(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 3, 5, "preference_loss_grad");
  expect_operands(attrs, in.subspan(1), "preference_loss_grad");
  expect(in[0] == scalar_loss(in[1].dtype), "preference_loss_grad",
         "dloss is not a scalar of the loss's type");
  return {in[1]};
}

Types infer_chosen(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 1, 1, "chosen_loss");
  expect_places(in[0], "chosen_loss");
  return {scalar_loss(in[0].dtype)};
}

Types infer_chosen_grad(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 2, "chosen_loss_grad");
  expect_places(in[1], "chosen_loss_grad");
  expect(in[0] == scalar_loss(in[1].dtype), "chosen_loss_grad",
         "dloss is not a scalar of the loss's type");
  return {in[1]};
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  constexpr double kFlopsOfPlace = 32;
  return {.flops = kFlopsOfPlace * static_cast<double>(in[in.size() > 1 ? 1 : 0].shape.count()),
          .bytes = operand_bytes(in, out)};
}

std::string print(const std::any& attrs) {
  const PreferenceLossOptions &o = options_of(attrs), usual;
  std::string text = name_of(o.kind) + (", " + print_number("beta", o.beta));
  auto add = [&](const char* name, double value, double otherwise) {
    if (value != otherwise) text += ", " + print_number(name, value);
  };
  add("label_smoothing", o.label_smoothing, usual.label_smoothing);
  add("margin", o.margin, usual.margin);
  add("chosen_weight", o.chosen_weight, usual.chosen_weight);
  add("rejected_weight", o.rejected_weight, usual.rejected_weight);
  return text + (o.normalizes_length ? ", mean of tokens" : "");
}

// --- CPU

// The loss of a pair, and its derivatives by the log-probabilities of both answers.
struct PreferenceTerm {
  double loss = 0, dchosen = 0, drejected = 0;
};

double log_sigmoid(double x) {
  return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x));
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A function of one number and its derivative.
struct Slope {
  double value = 0, slope = 0;
};

Slope preference_slope(const PreferenceLossOptions& o, double d) {
  const double z = o.beta * d - o.margin, e = o.label_smoothing;
  switch (o.kind) {
    case PreferenceLoss::sigmoid:
      return {-(1 - e) * log_sigmoid(z) - e * log_sigmoid(-z),
              o.beta * (-(1 - e) * sigmoid(-z) + e * sigmoid(z))};
    case PreferenceLoss::robust:
      return {(-(1 - e) * log_sigmoid(z) + e * log_sigmoid(-z)) / (1 - 2 * e),
              -o.beta * ((1 - e) * sigmoid(-z) + e * sigmoid(z)) / (1 - 2 * e)};
    case PreferenceLoss::hinge:
      return {z < 1 ? 1 - z : 0, z < 1 ? -o.beta : 0};
    case PreferenceLoss::squared: {
      const double off = d - 1 / (2 * o.beta);
      return {off * off, 2 * off};
    }
    case PreferenceLoss::odds_ratio:
    case PreferenceLoss::kto:
      break;
  }
  return {};
}

// The odds of what is certain are infinite: no log-probability counts as more than minus this.
constexpr double kCertain = 1e-9;

// The log of the odds of what has that log-probability.
Slope log_odds(double log_prob) {
  const double a = std::min(log_prob, -kCertain);
  const double rest = -std::expm1(a);
  return {a - std::log(rest), 1 / rest};
}

// What is given of a micro-batch; of a gradient it follows dloss.
struct Operands {
  const float *log_probs, *counts, *reference = nullptr, *kl = nullptr;
  int64_t rows, places;

  explicit Operands(std::span<const Ref> in)
      : log_probs(in[0].as<float>()),
        counts(in[1].as<float>()),
        rows(in[0].type.shape[0]),
        places(in[0].type.shape[1]) {
    if (in.size() > 2) reference = in[2].as<float>();
    if (in.size() > 3) kl = in[3].as<float>();
  }
};

// The terms of a micro-batch's pairs.
class Terms {
 public:
  Terms(const PreferenceLossOptions& options, std::span<const Ref> in) : o_(options), in_(in) {}

  // Calls f(the place of its chosen answer, term) for each pair.
  template <class F>
  void for_each(F f) const {
    for (int64_t row = 0; row < in_.rows; ++row)
      for (int64_t place = 0; place + 1 < in_.places; place += 2) {
        const int64_t chosen = row * in_.places + place;
        f(chosen, term(chosen, in_.kl ? static_cast<double>(in_.kl[row]) : 0));
      }
  }

 private:
  bool is_there(int64_t place) const { return in_.counts[place] > 0; }

  double measure(int64_t place) const {
    const double reference = in_.reference ? static_cast<double>(in_.reference[place]) : 0;
    const double more = in_.log_probs[place] - reference;
    return o_.normalizes_length ? more / in_.counts[place] : more;
  }

  // Of one answer, for (1) or against it (-1).
  Slope kto(int64_t place, double sign, double weight, double kl) const {
    if (!is_there(place)) return {};
    const double s = sigmoid(sign * o_.beta * (measure(place) - kl));
    return {weight * (1 - s), -weight * sign * o_.beta * s * (1 - s)};
  }

  PreferenceTerm of_pair(double chosen, double rejected) const {
    if (o_.kind != PreferenceLoss::odds_ratio) {
      const Slope of_both = preference_slope(o_, chosen - rejected);
      return {of_both.value, of_both.slope, -of_both.slope};
    }
    const Slope of_chosen = log_odds(chosen), of_rejected = log_odds(rejected);
    const double ratio = of_chosen.value - of_rejected.value;
    const double slope = -o_.beta * sigmoid(-ratio);
    return {-o_.beta * log_sigmoid(ratio), slope * of_chosen.slope, -slope * of_rejected.slope};
  }

  PreferenceTerm term(int64_t chosen, double kl) const {
    const int64_t rejected = chosen + 1;
    PreferenceTerm t;
    if (o_.kind == PreferenceLoss::kto) {
      const Slope better = kto(chosen, 1, o_.chosen_weight, kl),
                  worse = kto(rejected, -1, o_.rejected_weight, kl);
      t = {better.value + worse.value, better.slope, worse.slope};
    } else if (is_there(chosen) && is_there(rejected)) {
      t = of_pair(measure(chosen), measure(rejected));
    }
    if (!o_.normalizes_length) return t;
    t.dchosen /= std::max(in_.counts[chosen], 1.f);
    t.drejected /= std::max(in_.counts[rejected], 1.f);
    return t;
  }

  const PreferenceLossOptions& o_;
  Operands in_;
};

void run_cpu(const KernelCall& call) {
  double sum = 0;
  Terms(options_of(call.attrs), call.in).for_each([&](int64_t, const PreferenceTerm& term) {
    sum += term.loss;
  });
  *call.out[0].as<float>() = static_cast<float>(sum);
}

void run_grad_cpu(const KernelCall& call) {
  const double dloss = *call.in[0].as<float>();
  auto* const dlog_probs = call.out[0].as<float>();
  std::fill_n(dlog_probs, call.out[0].type.shape.count(), 0.f);
  Terms(options_of(call.attrs), call.in.subspan(1))
      .for_each([&](int64_t chosen, const PreferenceTerm& term) {
        dlog_probs[chosen] = static_cast<float>(dloss * term.dchosen);
        dlog_probs[chosen + 1] = static_cast<float>(dloss * term.drejected);
      });
}

void run_chosen_cpu(const KernelCall& call) {
  const int64_t rows = call.in[0].type.shape[0], places = call.in[0].type.shape[1];
  const auto* const log_probs = call.in[0].as<float>();
  double sum = 0;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t place = 0; place + 1 < places; place += 2) sum -= log_probs[row * places + place];
  *call.out[0].as<float>() = static_cast<float>(sum);
}

void run_chosen_grad_cpu(const KernelCall& call) {
  const int64_t rows = call.out[0].type.shape[0], places = call.out[0].type.shape[1];
  const float dloss = *call.in[0].as<float>();
  auto* const dlog_probs = call.out[0].as<float>();
  std::fill_n(dlog_probs, rows * places, 0.f);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t place = 0; place + 1 < places; place += 2)
      dlog_probs[row * places + place] = -dloss;
}

// --- composition, in float64

// What all pairs have of one side [B,P], of values for each place.
at::Tensor side(const at::Tensor& x, int64_t number) {
  return x.slice(1, number, x.size(1) / 2 * 2, 2);
}

// Of all pairs [B,P]: losses, and their derivatives by both answers' measures.
struct ComposedTerms {
  at::Tensor losses, dchosen, drejected;
};

ComposedTerms by_difference(const PreferenceLossOptions& o, const at::Tensor& d) {
  const at::Tensor z = d * o.beta - o.margin;
  const double e = o.label_smoothing;
  at::Tensor losses, slope;
  switch (o.kind) {
    case PreferenceLoss::sigmoid:
      losses = at::log_sigmoid(z) * (e - 1) - at::log_sigmoid(-z) * e;
      slope = (at::sigmoid(z) * e - at::sigmoid(-z) * (1 - e)) * o.beta;
      break;
    case PreferenceLoss::robust:
      losses = (at::log_sigmoid(-z) * e - at::log_sigmoid(z) * (1 - e)) / (1 - 2 * e);
      slope = (at::sigmoid(-z) * (1 - e) + at::sigmoid(z) * e) * (-o.beta / (1 - 2 * e));
      break;
    case PreferenceLoss::hinge:
      losses = (1 - z).clamp_min(0);
      slope = z.lt(1).to(z.scalar_type()) * -o.beta;
      break;
    case PreferenceLoss::squared:
      losses = (d - 1 / (2 * o.beta)).square();
      slope = (d - 1 / (2 * o.beta)) * 2;
      break;
    case PreferenceLoss::odds_ratio:
    case PreferenceLoss::kto:
      throw InternalError("preference_loss: not one of a difference");
  }
  return {losses, slope, -slope};
}

ComposedTerms by_odds(const PreferenceLossOptions& o, const at::Tensor& chosen,
                      const at::Tensor& rejected) {
  auto rest = [](const at::Tensor& log_prob) { return -log_prob.expm1(); };
  const at::Tensor a = chosen.clamp_max(-kCertain), b = rejected.clamp_max(-kCertain);
  const at::Tensor ratio = (a - rest(a).log()) - (b - rest(b).log());
  const at::Tensor slope = at::sigmoid(-ratio) * -o.beta;
  return {at::log_sigmoid(ratio) * -o.beta, slope / rest(a), -slope / rest(b)};
}

// Of one answer, for (1) or against it (-1): losses and their derivatives.
std::array<at::Tensor, 2> by_answer(const at::Tensor& measure, const at::Tensor& kl, double sign,
                                    double weight, double beta) {
  const at::Tensor s = at::sigmoid((measure - kl) * (sign * beta));
  return {(1 - s) * weight, s * (1 - s) * (-weight * sign * beta)};
}

ComposedTerms composed_terms(const KernelCall& call, std::span<const Ref> in) {
  const PreferenceLossOptions& o = options_of(call.attrs);
  auto input = [&](size_t i) { return tensor(call, in[i]).to(at::kDouble); };
  const at::Tensor counts = input(1), lengths = counts.clamp_min(1);
  at::Tensor measure = input(0);
  if (in.size() > 2) measure = measure - input(2);
  if (o.normalizes_length) measure = measure / lengths;
  const at::Tensor has_chosen = side(counts, 0).gt(0), has_rejected = side(counts, 1).gt(0);
  const at::Tensor chosen = side(measure, 0), rejected = side(measure, 1);
  ComposedTerms terms;
  if (o.kind == PreferenceLoss::kto) {
    const at::Tensor kl = in.size() > 3 ? input(3).unsqueeze(1) : at::zeros_like(chosen);
    const auto [better, dbetter] = by_answer(chosen, kl, 1, o.chosen_weight, o.beta);
    const auto [worse, dworse] = by_answer(rejected, kl, -1, o.rejected_weight, o.beta);
    terms = {better * has_chosen + worse * has_rejected, dbetter * has_chosen,
             dworse * has_rejected};
  } else {
    terms = o.kind == PreferenceLoss::odds_ratio ? by_odds(o, chosen, rejected)
                                                 : by_difference(o, chosen - rejected);
    const at::Tensor are_there = has_chosen.logical_and(has_rejected);
    terms = {terms.losses * are_there, terms.dchosen * are_there, terms.drejected * are_there};
  }
  if (o.normalizes_length) {
    terms.dchosen = terms.dchosen / side(lengths, 0);
    terms.drejected = terms.drejected / side(lengths, 1);
  }
  return terms;
}

void run_composed(const KernelCall& call) {
  tensor(call, call.out[0]).copy_(composed_terms(call, call.in).losses.sum());
}

void run_grad_composed(const KernelCall& call) {
  const ComposedTerms terms = composed_terms(call, call.in.subspan(1));
  const at::Tensor dloss = tensor(call, call.in[0]).to(at::kDouble);
  at::Tensor dlog_probs = tensor(call, call.out[0]).zero_();
  side(dlog_probs, 0).copy_(terms.dchosen * dloss);
  side(dlog_probs, 1).copy_(terms.drejected * dloss);
}

void run_chosen_composed(const KernelCall& call) {
  tensor(call, call.out[0]).copy_(side(tensor(call, call.in[0]), 0).sum(at::kDouble).neg_());
}

void run_chosen_grad_composed(const KernelCall& call) {
  side(tensor(call, call.out[0]).zero_(), 0).copy_(-tensor(call, call.in[0]));
}

int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  constexpr int64_t kTensors = 32;  // of 8 bytes for each place
  const Type& places = out[0].shape.rank() > 0 ? out[0] : in[0];
  return kTensors * allocated_bytes(8 * places.shape.count()) + kReductionBytes;
}

}  // namespace

const Op preference_loss_op{.name = "preference_loss",
                            .infer = infer,
                            .vjp = loss_vjp<preference_loss_grad_op>,
                            .cost = cost,
                            .print = print,
                            .cpu = {run_cpu},
                            .cuda = {run_composed, workspace_composed},
                            .reference = {run_composed}};

const Op preference_loss_grad_op{.name = "preference_loss_grad",
                                 .infer = infer_grad,
                                 .cost = cost,
                                 .print = print,
                                 .cpu = {run_grad_cpu},
                                 .cuda = {run_grad_composed, workspace_composed},
                                 .reference = {run_grad_composed}};

const Op chosen_loss_op{.name = "chosen_loss",
                        .infer = infer_chosen,
                        .vjp = loss_vjp<chosen_loss_grad_op>,
                        .cost = cost,
                        .cpu = {run_chosen_cpu},
                        .cuda = {run_chosen_composed, workspace_composed},
                        .reference = {run_chosen_composed}};

const Op chosen_loss_grad_op{.name = "chosen_loss_grad",
                             .infer = infer_chosen_grad,
                             .cost = cost,
                             .cpu = {run_chosen_grad_cpu},
                             .cuda = {run_chosen_grad_composed, workspace_composed},
                             .reference = {run_chosen_grad_composed}};

Var preference_loss(const PreferenceLossInputs& inputs, const PreferenceLossOptions& options) {
  std::vector<Var> in{inputs.log_probs, inputs.counts};
  if (inputs.reference) in.push_back(*inputs.reference);
  if (inputs.kl) in.push_back(*inputs.kl);
  return inputs.log_probs.trace->emit(preference_loss_op, options, in)[0];
}

Var chosen_loss(Var log_probs) { return log_probs.trace->emit(chosen_loss_op, {}, {log_probs})[0]; }

}  // namespace longshore::models
