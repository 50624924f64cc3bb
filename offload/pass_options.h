// What a training pass is to do.
#pragma once

#include <functional>
#include <optional>

#include "offload/parameter_layout.h"
#include "offload/plan.h"
#include "offload/policy.h"

namespace longshore::offload {

// Whether gradients and losses already hold those of earlier micro-batches.
enum class MicroBatch { first, further };

struct PassOptions {
  Policy policy;  // of scanned stages; those that run once keep what their backward pass reads
  // How many layers of a scan, from the first, follow the policy; by default all but the last,
  // whose values are wanted at once.
  std::optional<int> offload_layers;
  // What the other layers follow; by default they keep on the device what the policy offloads.
  std::optional<Policy> others;
  MicroBatch micro_batch = MicroBatch::first;
  bool ends_step = true;  // it is the step's last micro-batch
  // Called behind the instruction that makes the gradient of a parameter final on this device, and
  // behind the layer that makes all those of a slab final and reads its weights last; where devices
  // have to sum them up, when that is done.
  std::function<void(const ParameterLayout::Location&, const Place&)> gradient_made;
  std::function<void(int slab)> gradients_made;
  // Called before each layer's forward pass and behind each node of its forward and its backward
  // pass; `done` is the share of this pass's FLOPs that lies before.
  std::function<void(int stage, int layer, double done)> forward_reached, backward_reached;
};

}  // namespace longshore::offload
