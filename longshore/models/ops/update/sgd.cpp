#include "longshore/models/ops/update/sgd.h"

#include "longshore/models/ops/kernels/simd.h"
#include "longshore/models/ops/update/rule_loop.h"
#include "longshore/models/ops/update/update_aten.h"

namespace longshore::models {
namespace {

LONGSHORE_SIMD void sgd_range(const UpdateRange& range, const UpdateScalars& scalars) {
  update_range<SgdElement>(range, scalars);
}

at::Tensor sgd_composed(const ComposedUpdate& u, std::vector<at::Tensor>& states) {
  const auto [momentum, nesterov, unused] = u.numbers;
  at::Tensor gradient = u.weight * u.weight_decay;
  gradient.add_(u.gradient);
  states[0] = states[0] * momentum;
  states[0].add_(gradient);
  at::Tensor step = nesterov != 0 ? gradient.add_(states[0] * momentum) : states[0];
  return u.weight - step * u.learning_rate;
}

const UpdateRule rule{.name = "sgd",
                      .numbers = {"momentum", "nesterov"},
                      .states = {{"momentum", "momentum_scale"}},
                      .scalars = {},
                      .trace = trace_update<sgd_op>};

}  // namespace

const Op sgd_op = update_op<SgdElement, sgd_range>("sgd", update_composed<sgd_composed>);

Optimizer sgd(const Sgd& h) { return {&rule, {h.momentum, h.nesterov ? 1. : 0.}, h.weight_decay}; }

}  // namespace longshore::models
