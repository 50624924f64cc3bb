#include "longshore/models/ops/policy_gradient_loss.h"

#include <ATen/ops/minimum.h>
#include <ATen/ops/where.h>

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/random_segments.h"

namespace longshore::models {
namespace {

// By a mask of each sequence.
at::Tensor plain_loss(const Tensors& in, const PolicyGradientOptions& o) {
  const at::Tensor losses = in.at("losses"), advantages = in.at("advantages"), old = in.at("old");
  const at::Tensor counted = in.at("targets").ne(kIgnoredTarget);
  const at::Tensor log_ratios =
      at::where(old.isnan(), losses - losses.detach(), losses + old).neg();
  at::Tensor sum = losses.sum() * 0;
  for (int64_t segment = 1; segment <= losses.size(1); ++segment) {
    const at::Tensor mask = in.at("segments").eq(segment).logical_and(counted);
    const at::Tensor lengths = mask.sum(1, true).clamp_min(1);
    auto add_up = [&](const at::Tensor& x) { return at::where(mask, x, 0).sum(1, true); };
    at::Tensor log_ratio = at::where(mask, log_ratios, 0);
    if (o.ratio_of == PolicyUnit::sequence) log_ratio = add_up(log_ratio) / lengths;
    const at::Tensor r = log_ratio.exp();
    at::Tensor loss =
        -at::minimum(r * advantages, r.clamp(1 - o.clip_low, 1 + o.clip_high) * advantages);
    if (o.kl_weight > 0) {
      const at::Tensor k = in.at("reference") + losses;
      loss = loss + o.kl_weight * (k.exp() - k - 1);
    }
    const at::Tensor of_rows = add_up(loss);
    sum = sum + (o.mean_over == PolicyUnit::sequence ? of_rows / lengths : of_rows).sum();
  }
  return sum;
}

OpCase loss_case(int64_t b, int64_t t, int64_t longest, const PolicyGradientOptions& options) {
  return {.name = named("policy_gradient_loss", b, t, longest, static_cast<int>(options.ratio_of),
                        static_cast<int>(options.mean_over)),
          .trace =
              [=](Dtype dtype) {
                Trace trace("policy_gradient_loss");
                const Type type{{b, t}, dtype == Dtype::bfloat16 ? Dtype::float32 : dtype};
                PolicyGradientInputs in{.losses = trace.input("losses", type),
                                        .targets = trace.batch("targets", ints({b, t})),
                                        .segments = trace.batch("segments", ints({b, t})),
                                        .advantages = trace.batch("advantages", type),
                                        .old_log_probs = trace.batch("old", type),
                                        .reference_log_probs = {}};
                if (options.kl_weight > 0) in.reference_log_probs = trace.batch("reference", type);
                trace.output(policy_gradient_loss(in, options), OutputRole::loss);
                return trace.finish();
              },
          .integers = {{"targets", some_targets(b, t)}, {"segments", some_segments(b, t, longest)}},
          .plain = [=](const Tensors& in) { return std::vector{plain_loss(in, options)}; },
          // Some tokens have been drawn by the policy itself, and no ratio is at a bound.
          .adjust =
              [](Tensors& in) {
                at::Tensor losses = in.at("losses").abs_();
                at::Tensor old = in.at("old").mul_(0.3).sub_(losses);
                old.masked_fill_(in.at("advantages").gt(1), NAN);
                if (in.contains("reference")) in.at("reference").mul_(0.5).sub_(losses);
              }};
}

std::vector<OpCase> cases(int64_t b, int64_t t, int64_t longest) {
  constexpr auto kToken = PolicyUnit::token, kSequence = PolicyUnit::sequence;
  return {
      loss_case(b, t, longest, {.kl_weight = 0.04}),
      loss_case(b, t, longest,
                {.ratio_of = kToken, .mean_over = kToken, .clip_low = 0.2, .clip_high = 0.28}),
      loss_case(b, t, longest,
                {.ratio_of = kSequence, .clip_low = 0.03, .clip_high = 0.04, .kl_weight = 0.1}),
      loss_case(b, t, longest, {.ratio_of = kSequence, .mean_over = kToken}),
  };
}

std::vector<OpCase> small() { return cases(2, 11, 4); }
std::vector<OpCase> large() { return cases(3, 700, 40); }

constexpr OpTraits kOps[] = {
    {.op = &policy_gradient_loss_op, .tolerance = {2e-6, 2e-6}},
    {.op = &policy_gradient_loss_grad_op, .tolerance = {2e-6, 2e-6}},
};

}  // namespace

extern constinit const OpRecord policy_gradient_loss_record{kOps, small, large};

}  // namespace longshore::models
