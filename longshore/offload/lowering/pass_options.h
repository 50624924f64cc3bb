// PassOptions tells a training pass which policy and micro-batch it has, and what to call as it
// goes.
#pragma once

#include <cstdint>
#include <functional>

#include "longshore/offload/lowering/parameter_layout.h"
#include "longshore/offload/plan/plan.h"
#include "longshore/offload/policy/stage_policies.h"

namespace longshore::offload {

// Which of a step's micro-batches a pass is of. Gradients and losses add up from the first to the
// last.
enum class MicroBatch : uint8_t { only, first, further, last };

constexpr bool begins_step(MicroBatch m) { return m == MicroBatch::only || m == MicroBatch::first; }
constexpr bool ends_step(MicroBatch m) { return m == MicroBatch::only || m == MicroBatch::last; }

struct PassOptions {
  StagePolicies policy;
  MicroBatch micro_batch = MicroBatch::only;

  // Called once per trained parameter, after the instruction that makes its gradient final on this
  // device.
  std::function<void(const ParameterLayout::Location&, const Scope&)> on_parameter_gradient;
  // Called once per bucket, when all its gradients are final, its weights are read no more and,
  // with several devices, its gradients are reduced.
  std::function<void(int bucket)> on_bucket_gradients;
  // Called after each node of a layer's pass, and before the layer's first node in the forward
  // pass; `done` is the share of that layer's FLOPs that lies before, from 0 to 1.
  std::function<void(int stage, int layer, double done)> on_forward_progress, on_backward_progress;
};

}  // namespace longshore::offload
