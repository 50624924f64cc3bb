// What the layers of a model can do with their values: every assignment that is worth a thought,
// and what the named policies assign.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/model.h"
#include "offload/assignments.h"

namespace longshore::trainer {

// What a named policy does to the layers that follow it, and to the last one: the backward pass
// reads the last layer's values at once, so what the policy offloads stays on the device there.
struct NamedPolicy {
  std::string name;
  offload::Assignment layers, last_layer;
};

// For one size of micro-batches.
struct LayerChoices {
  // The first `count_for_all` are for all layers. Each of the rest keeps what one of those
  // offloads: they are for the last layers, whose values the backward pass reads at once.
  std::vector<offload::Assignment> assignments;
  size_t count_for_all = 0;
  offload::Assignment full;        // of the policy `full`
  std::vector<NamedPolicy> named;  // those that suit the model; none where fates are fixed
  int layers = 0;
  int64_t micro_batches = 0;  // of a step

  // Bytes on the device, the most that a layer can keep there.
  double most_kept_bytes() const;
};

// Labels in `fixed` have that fate in all assignments. Throws ConfigError where the model does not
// emit one of them, or it cannot have that fate.
std::shared_ptr<const LayerChoices> layer_choices(const models::Model& model,
                                                  const std::map<std::string, offload::Fate>& fixed,
                                                  int64_t micro_batches,
                                                  const offload::Hardware& hardware);

}  // namespace longshore::trainer
