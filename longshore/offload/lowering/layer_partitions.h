// The layers' programs and their backward programs, parted as the policies say: once for each kind
// of layer that follows the same policy and adds to the same gradients.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "longshore/models/ir/model.h"
#include "longshore/offload/policy/partition.h"
#include "longshore/offload/policy/stage_policies.h"

namespace longshore::offload {

// Layers that share their programs.
struct LayerPlan {
  std::string stage;
  bool is_scan = false;
  int first = 0, last = 0, count = 0;
  std::shared_ptr<const Partition> partition;
};

struct LayerPartitions {
  std::vector<std::vector<std::shared_ptr<const Partition>>> by_layer;  // of each stage
  std::vector<LayerPlan> plans;  // the distinct ones, in the order of stages and layers
};

// What the gradients of weights hold before a pass.
enum class InitialGradients { nothing, earlier_sums };

// A gradient is added to where it holds an earlier sum, or what a later layer made of it. Throws
// ConfigError where the policies do not fit the model, or a `custom` one offloads what no backward
// pass reads.
LayerPartitions partition_layers(const models::Model& model, const StagePolicies& policies,
                                 InitialGradients initial);

}  // namespace longshore::offload
