// The assignments of actions to the values of a model's layers that `auto` considers, and those of
// the named policies.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "longshore/models/ir/model.h"
#include "longshore/offload/policy/assignments.h"

namespace longshore::trainer {

// The assignments of a named policy to all layers but the last, and to the last one. There the
// values that the policy offloads stay on the device, since the backward pass reads them right
// away.
struct NamedPolicy {
  std::string name;
  offload::Assignment layers, last_layer;
};

// The choices for one size of micro-batches.
struct LayerChoices {
  // The first `count_for_all` assignments can be those of all layers. Each of the rest keeps what
  // one of those offloads. They are for the last layers, whose values the backward pass reads
  // first.
  std::vector<offload::Assignment> assignments;
  size_t count_for_all = 0;
  offload::Assignment full;        // the assignment of the policy `full`
  std::vector<NamedPolicy> named;  // those that suit the model; empty if actions are fixed
  int layers = 0;                  // of the model
  int64_t micro_batches = 0;       // in a step

  // The most bytes that a layer can keep on the device.
  double most_kept_bytes() const;
};

// Labels in `fixed` have that action in all assignments. Throws ConfigError if the model does not
// emit one of them, or if it cannot have its action.
std::shared_ptr<const LayerChoices> layer_choices(
    const models::Model& model, const std::map<std::string, offload::Action>& fixed,
    int64_t micro_batches, const offload::Hardware& hardware);

}  // namespace longshore::trainer
