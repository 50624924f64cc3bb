#include "longshore/models/ops/preference_loss.h"

#include <ATen/ops/log1p.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <array>

#include "longshore/models/ir/trace.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/random_inputs.h"

namespace longshore::models {
namespace {

constexpr auto kKto = PreferenceLoss::kto;

at::Tensor log_odds(const at::Tensor& log_prob) { return log_prob - at::log1p(-log_prob.exp()); }

at::Tensor of_pairs(const at::Tensor& chosen, const at::Tensor& rejected,
                    const PreferenceLossOptions& o) {
  const at::Tensor d = chosen - rejected, z = o.beta * d - o.margin;
  const double e = o.label_smoothing;
  switch (o.kind) {
    case PreferenceLoss::sigmoid:
      return -(1 - e) * at::log_sigmoid(z) - e * at::log_sigmoid(-z);
    case PreferenceLoss::robust:
      return (-(1 - e) * at::log_sigmoid(z) + e * at::log_sigmoid(-z)) / (1 - 2 * e);
    case PreferenceLoss::hinge:
      return (1 - z).clamp_min(0);
    case PreferenceLoss::squared:
      return (d - 1 / (2 * o.beta)).square();
    case PreferenceLoss::odds_ratio:
      return -o.beta * at::log_sigmoid(log_odds(chosen) - log_odds(rejected));
    case kKto:
      break;
  }
  return at::zeros_like(d);
}

at::Tensor plain_loss(const Tensors& in, const PreferenceLossOptions& o, bool has_reference) {
  const at::Tensor counts = in.at("counts");
  at::Tensor measure = in.at("log_probs");
  if (has_reference) measure = measure - in.at("reference");
  if (o.normalizes_length) measure = measure / counts.clamp_min(1);
  measure = at::where(counts.gt(0), measure, -1);  // or the odds of what is not there are infinite
  const int64_t even = measure.size(1) / 2 * 2;
  auto side = [&](const at::Tensor& x, int64_t first) { return x.slice(1, first, even, 2); };
  const at::Tensor chosen = side(measure, 0), rejected = side(measure, 1);
  const at::Tensor has_chosen = side(counts, 0).gt(0), has_rejected = side(counts, 1).gt(0);
  if (o.kind == kKto) {
    const at::Tensor kl = in.at("kl").unsqueeze(1);
    return (o.chosen_weight * (1 - at::sigmoid(o.beta * (chosen - kl))) * has_chosen).sum() +
           (o.rejected_weight * (1 - at::sigmoid(o.beta * (kl - rejected))) * has_rejected).sum();
  }
  return (of_pairs(chosen, rejected, o) * has_chosen.logical_and(has_rejected)).sum();
}

// Some answers are not there.
OpCase loss_case(int64_t b, int64_t t, const PreferenceLossOptions& options, bool has_reference) {
  return {.name = named("preference_loss", b, t, static_cast<int>(options.kind)),
          .trace =
              [=](Dtype dtype) {
                Trace trace("preference_loss");
                const Type type{{b, t}, dtype == Dtype::bfloat16 ? Dtype::float32 : dtype};
                PreferenceLossInputs in{.log_probs = trace.input("log_probs", type),
                                        .counts = trace.batch("counts", type),
                                        .reference = {},
                                        .kl = {}};
                if (has_reference) in.reference = trace.batch("reference", type);
                if (options.kind == kKto) in.kl = trace.batch("kl", {{b}, type.dtype});
                trace.output(preference_loss(in, options), OutputRole::loss);
                trace.output(chosen_loss(in.log_probs), OutputRole::auxiliary_loss);
                return trace.finish();
              },
          .integers = {},
          .plain =
              [=](const Tensors& in) {
                const at::Tensor log_probs = in.at("log_probs");
                return std::vector{plain_loss(in, options, has_reference),
                                   -log_probs.slice(1, 0, t / 2 * 2, 2).sum()};
              },
          .adjust =
              [](Tensors& in) {
                at::Tensor counts = in.at("counts").abs_().mul_(5).floor_();
                in.at("log_probs").abs_().add_(0.3).mul_(-3).mul_(counts.gt(0));
                if (in.contains("reference")) in.at("reference").abs_().mul_(-3);
              }};
}

std::vector<OpCase> cases(int64_t b, int64_t t) {
  using Kind = PreferenceLoss;
  return {
      loss_case(b, t, {.kind = Kind::sigmoid, .beta = 0.3, .label_smoothing = 0.1}, true),
      loss_case(b, t, {.kind = Kind::robust, .beta = 0.3, .label_smoothing = 0.1}, true),
      loss_case(b, t, {.kind = Kind::hinge, .beta = 0.3}, true),
      loss_case(b, t, {.kind = Kind::squared, .beta = 0.3, .normalizes_length = true}, true),
      loss_case(b, t, {.kind = Kind::sigmoid, .beta = 2, .margin = 0.5, .normalizes_length = true},
                false),
      loss_case(b, t, {.kind = Kind::odds_ratio, .beta = 0.1, .normalizes_length = true}, false),
      loss_case(b, t,
                {.kind = Kind::kto, .beta = 0.1, .chosen_weight = 1.2, .rejected_weight = 0.7},
                true),
  };
}

std::vector<OpCase> small() { return cases(2, 7); }
std::vector<OpCase> large() { return cases(3, 600); }

constexpr OpTraits kOps[] = {
    {.op = &preference_loss_op, .tolerance = {1e-6, 1e-6}},
    {.op = &preference_loss_grad_op, .tolerance = {2e-6, 2e-6}},
    {.op = &chosen_loss_op, .tolerance = {1e-6, 1e-6}},
    {.op = &chosen_loss_grad_op, .tolerance = {1e-6, 1e-6}},
};

}  // namespace

extern constinit const OpRecord preference_loss_record{kOps, small, large};

}  // namespace longshore::models
