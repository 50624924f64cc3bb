#include "longshore/models/ops/distillation_loss.h"

#include <ATen/ops/amax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/where.h>

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/random_inputs.h"

namespace longshore::models {
namespace {

at::Tensor outcomes(const at::Tensor& log_probs, double temperature) {
  const at::Tensor rest = (1 - log_probs.exp().sum(-1, true)).clamp_min(1e-6);
  return at::log_softmax(at::cat({log_probs, rest.log()}, -1) / temperature, -1);
}

at::Tensor plain_loss(const Tensors& in, const DistillationOptions& o) {
  const at::Tensor p = outcomes(-in.at("losses"), o.temperature),
                   q = outcomes(in.at("teacher"), o.temperature);
  const at::Tensor divergence = o.direction == KlDirection::forward ? (q.exp() * (q - p)).sum(-1)
                                                                    : (p.exp() * (p - q)).sum(-1);
  const at::Tensor is_there = in.at("tokens")
                                  .select(-1, 0)
                                  .ne(kIgnoredTarget)
                                  .logical_and(in.at("targets").ne(kIgnoredTarget));
  return (divergence * is_there).sum() * o.temperature * o.temperature;
}

// Log-probabilities of K tokens beside another that is as likely as the first of them; or where
// `is_whole` beside none, and of somewhat too much, as rounding may have it.
at::Tensor log_probs_of(const at::Tensor& logits, bool is_whole) {
  if (is_whole) return at::log_softmax(logits, -1) + 0.01;
  return at::log_softmax(at::cat({logits, logits.amax(-1, true)}, -1), -1)
      .narrow(-1, 0, logits.size(-1));
}

OpCase loss_case(int64_t b, int64_t t, int64_t k, bool is_whole,
                 const DistillationOptions& options) {
  return {.name = named("distillation_loss", b, t, k, is_whole, static_cast<int>(options.direction),
                        options.temperature),
          .trace =
              [=](Dtype dtype) {
                Trace trace("distillation_loss");
                const Type type{{b, t, k}, dtype == Dtype::bfloat16 ? Dtype::float32 : dtype};
                trace.output(distillation_loss({.losses = trace.input("losses", type),
                                                .teacher_log_probs = trace.batch("teacher", type),
                                                .tokens = trace.batch("tokens", ints({b, t, k})),
                                                .targets = trace.batch("targets", ints({b, t}))},
                                               options),
                             OutputRole::loss);
                return trace.finish();
              },
          .integers = {{"tokens", random_integers({b, t, k}, 9, 3).sub_(1)},
                       {"targets", random_integers({b, t}, 5, 4).sub_(1)}},
          .plain = [=](const Tensors& in) { return std::vector{plain_loss(in, options)}; },
          .adjust =
              [=](Tensors& in) {
                for (const char* name : {"losses", "teacher"}) {
                  at::Tensor values = in.at(name);
                  values.copy_(log_probs_of(values, is_whole));
                }
                in.at("losses").neg_();
              }};
}

std::vector<OpCase> cases(int64_t b, int64_t t, int64_t k) {
  using Kl = KlDirection;
  return {loss_case(b, t, k, false, {.direction = Kl::forward}),
          loss_case(b, t, k, false, {.direction = Kl::forward, .temperature = 2}),
          loss_case(b, t, k, false, {.direction = Kl::reverse}),
          loss_case(b, t, k, false, {.direction = Kl::reverse, .temperature = 0.7}),
          loss_case(b, t, k, true, {.direction = Kl::forward})};
}

std::vector<OpCase> small() { return cases(2, 5, 4); }
std::vector<OpCase> large() { return cases(2, 300, 64); }

constexpr OpTraits kOps[] = {
    {.op = &distillation_loss_op, .tolerance = {2e-6, 2e-6}},
    {.op = &distillation_loss_grad_op, .tolerance = {2e-6, 2e-6}},
};

}  // namespace

extern constinit const OpRecord distillation_loss_record{kOps, small, large};

}  // namespace longshore::models
