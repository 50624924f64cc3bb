#include "longshore/models/ops/update/lion.h"

#include <ATen/ops/isnan.h>

#include "longshore/models/ops/kernels/simd.h"
#include "longshore/models/ops/update/rule_loop.h"
#include "longshore/models/ops/update/update_aten.h"

namespace longshore::models {
namespace {

LONGSHORE_SIMD void lion_range(const UpdateRange& range, const UpdateScalars& scalars) {
  update_range<LionElement>(range, scalars);
}

at::Tensor lion_composed(const ComposedUpdate& u, std::vector<at::Tensor>& states) {
  const auto [b1, b2, unused] = u.numbers;
  at::Tensor direction = states[0] * b1;
  direction.add_(u.gradient * (1 - b1));
  const at::Tensor nan = at::isnan(direction);
  direction.sign_().masked_fill_(nan, NAN);
  at::Tensor updated = u.weight * (u.learning_rate * u.weight_decay);
  updated.neg_().add_(u.weight).sub_(direction.mul_(u.learning_rate));
  states[0] = states[0] * b2;
  states[0].add_(u.gradient * (1 - b2));
  return updated;
}

const UpdateRule rule{.name = "lion",
                      .numbers = {"b1", "b2"},
                      .states = {{"momentum", "momentum_scale"}},
                      .scalars = {},
                      .trace = trace_update<lion_op>};

}  // namespace

const Op lion_op = update_op<LionElement, lion_range>("lion", update_composed<lion_composed>);

Optimizer lion(const Lion& h) { return {&rule, {h.b1, h.b2}, h.weight_decay}; }

}  // namespace longshore::models
