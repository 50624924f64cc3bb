#include "longshore/trainer/planner/auto/auto_layer_choices.h"

#include <algorithm>

#include "longshore/base/error.h"

namespace longshore::trainer {
namespace {

using offload::Assignment;
using offload::Hardware;
using offload::Policy;

std::vector<NamedPolicy> named_policies(const models::Stage& stage, const Hardware& hardware) {
  std::vector<NamedPolicy> named;
  for (const offload::PolicyInfo& info : offload::policies()) try {
      if (info.name == offload::kCustom) continue;
      const Policy policy = offload::make_policy(info.name, {}, stage.programs);
      named.push_back({info.name, assign(stage, policy, hardware),
                       assign(stage, policy.kept_on_device(), hardware)});
    } catch (const ConfigError&) {
      // The policy does not suit the model.
    }
  return named;
}

}  // namespace

double LayerChoices::most_kept_bytes() const {
  return std::ranges::max(assignments, {}, &Assignment::kept_bytes).kept_bytes;
}

std::shared_ptr<const LayerChoices> layer_choices(
    const models::Model& model, const std::map<std::string, offload::Action>& fixed,
    int64_t micro_batches, const Hardware& hardware) {
  const models::Stage& stage = main_stage(model);
  offload::make_policy(offload::kCustom, fixed,
                       stage.programs);  // throws if they do not suit the model
  auto choices = std::make_shared<LayerChoices>(LayerChoices{
      .assignments = offload::assignments(stage, fixed, hardware),
      .full = assign(stage, offload::make_policy(offload::kFull, {}, stage.programs), hardware),
      .layers = static_cast<int>(stage.layers.size()),
      .micro_batches = micro_batches});
  choices->count_for_all = choices->assignments.size();
  for (size_t i = 0; i < choices->count_for_all; ++i)
    if (const Policy& policy = choices->assignments[i].policy; policy.offloads())
      choices->assignments.push_back(assign(stage, policy.kept_on_device(), hardware));
  if (fixed.empty()) choices->named = named_policies(stage, hardware);
  return choices;
}

}  // namespace longshore::trainer
