#include "longshore/models/ops/update/adamw.h"

#include "longshore/models/ops/kernels/simd.h"
#include "longshore/models/ops/update/rule_loop.h"
#include "longshore/models/ops/update/update_aten.h"

namespace longshore::models {
namespace {

LONGSHORE_SIMD void adamw_range(const UpdateRange& range, const UpdateScalars& scalars) {
  update_range<AdamWElement>(range, scalars);
}

at::Tensor adamw_composed(const ComposedUpdate& u, std::vector<at::Tensor>& states) {
  const auto [b1, b2, epsilon] = u.numbers;
  at::Tensor m = states[0] * b1;
  m.add_(u.gradient * (1 - b1));
  at::Tensor v = states[1] * b2;
  v.add_((u.gradient * u.gradient).mul_(1 - b2));
  at::Tensor step = m / u.scalars[0];
  step.div_((v / u.scalars[1]).sqrt_().add_(epsilon)).mul_(u.learning_rate);
  at::Tensor updated = u.weight * (u.learning_rate * u.weight_decay);
  updated.neg_().add_(u.weight).sub_(step);
  states = {m, v};
  return updated;
}

// Of the float32 factors that moments are averaged with.
double correction(const RuleNumbers& numbers, size_t which, int64_t step) {
  return 1 - std::pow(double{static_cast<float>(numbers[which])}, static_cast<double>(step));
}

const UpdateRule rule{
    .name = "adamw",
    .numbers = {"b1", "b2", "epsilon"},
    .states = {{"first_moment", "first_scale"}, {"second_moment", "second_scale"}},
    .scalars = {"correction_1", "correction_2"},
    .scalar = correction,
    .trace = trace_update<adamw_op>};

}  // namespace

const Op adamw_op = update_op<AdamWElement, adamw_range>("adamw", update_composed<adamw_composed>);

Optimizer adamw(const AdamW& h) { return {&rule, {h.b1, h.b2, h.epsilon}, h.weight_decay}; }

}  // namespace longshore::models
