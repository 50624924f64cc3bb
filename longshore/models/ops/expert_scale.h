// scale_by_expert(weights, experts, scale) -> each weight of an expert times the scale of that
// expert: Gemma 4's per_expert_scale.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// (weights [..,k] in float32, or float64 where scale is, experts i32 [..,k], scale [E] of a float
// dtype) -> weights * scale[experts]. Experts are below E: who makes them sees to that.
extern const Op scale_by_expert_op;
// (dout [..,k], weights [..,k], experts [, sum]) -> dscale [E] [+ sum]: for each expert the sum of
// dout * weights where it is, in an order that depends on their number alone, whatever the threads.
extern const Op scale_by_expert_grad_op;

// Throws InternalError where weights, experts and scale do not fit.
Var scale_by_expert(Var weights, Var experts, Var scale);

}  // namespace longshore::models
