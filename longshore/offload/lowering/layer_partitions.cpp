#include "longshore/offload/lowering/layer_partitions.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/nearest.h"
#include "longshore/base/text.h"

namespace longshore::offload {
namespace {

using models::Program;
using models::Source;
using models::ValueId;

Policy policy_of(const models::Stage& stage, int layer, const StagePolicies& policies) {
  if (!stage.is_scan()) return keep_all();
  const StagePolicy& policy = policies.of(stage.name);
  const int offloading = policy.offload_layers.value_or(static_cast<int>(stage.layers.size()) - 1);
  if (layer < offloading) return policy.first;
  return policy.others ? *policy.others : policy.first.kept_on_device();
}

void check_stage(const models::Model& model, const models::Stage& stage,
                 const StagePolicies& policies) {
  if (!stage.is_scan()) return;
  if (&stage == &model.stages.back())
    throw InternalError(model.name + ": the last stage scans; it must run once");
  const int offloading = policies.of(stage.name).offload_layers.value_or(0);
  if (offloading < 0 || offloading > std::ssize(stage.layers))
    throw KeyError("offload_layers", "found " + std::to_string(offloading) + ", expected 0 to " +
                                         std::to_string(stage.layers.size()) + ", the layers of " +
                                         stage.name);
}

// A label that no layer has would leave its value to be recomputed in silence.
void check_labels(const std::vector<std::string>& labels, const Policy& policy) {
  for (const auto& [label, action] : policy.actions)
    if (std::ranges::find(labels, label) == labels.end())
      throw ConfigError(policy.name + ": found the label " + label + ", expected one of " +
                        join(labels) + nearest_help(nearest(label, labels)));
}

void check_policies(const models::Model& model, const StagePolicies& policies) {
  auto check = [&](const StagePolicy& policy, const std::string& what) {
    auto follows = [&](const models::Stage& stage) {
      return stage.is_scan() && &policies.of(stage.name) == &policy;
    };
    if (std::ranges::none_of(model.stages, follows)) {
      if (!what.empty()) throw InternalError(model.name + ": found no scan named " + what);
      return;
    }
    const std::vector<std::string> labels = models::labels(model, follows);
    check_labels(labels, policy.first);
    if (policy.others) check_labels(labels, *policy.others);
  };
  check(policies.all, "");
  for (const auto& [stage, policy] : policies.by_stage) check(policy, stage);
}

// A kind of layer with its backward program.
struct Differentiated {
  const Program* program;
  models::BackwardProgram backward;
  std::shared_ptr<const Partition> partition;
};

void add_labels(const Partition& partition, std::vector<std::string>& labels) {
  for (const Residual& residual : partition.residuals) {
    const std::string& label = partition.forward[residual.value].label;
    if (!label.empty() && std::find(labels.begin(), labels.end(), label) == labels.end())
      labels.push_back(label);
  }
}

// Somebody asked for these labels by name, so some layer must honour each.
void check_offloads(const Policy& policy, const std::vector<Differentiated>& kinds) {
  std::vector<std::string> read, readable;
  for (const Differentiated& kind : kinds) {
    add_labels(*kind.partition, read);
    add_labels(offload::partition(*kind.program, kind.backward, keep_all()), readable);
  }
  for (const auto& [label, action] : policy.actions)
    if (action == Action::offload && std::find(read.begin(), read.end(), label) == read.end())
      throw KeyError(label,
                     "offload cannot be honoured: with these actions the backward pass does "
                     "not read " +
                         label + ". It can read " + join(readable));
}

// The distinct partitions of a stage and the layers that each serves, in the order of layers.
std::vector<LayerPlan> plans_of(const models::Stage& stage,
                                const std::vector<std::shared_ptr<const Partition>>& by_layer) {
  std::vector<LayerPlan> plans;
  for (int layer = 0; layer < std::ssize(by_layer); ++layer) {
    auto plan = std::ranges::find(plans, by_layer[layer], &LayerPlan::partition);
    if (plan == plans.end())
      plan = plans.insert(plans.end(), {.stage = stage.name,
                                        .is_scan = stage.is_scan(),
                                        .first = layer,
                                        .partition = by_layer[layer]});
    plan->last = layer;
    ++plan->count;
  }
  return plans;
}

class Partitioner {
 public:
  Partitioner(const models::Model& model, const StagePolicies& policies, InitialGradients initial)
      : model_(model), policies_(policies), initial_(initial) {}

  LayerPartitions operator()() {
    check_policies(model_, policies_);
    LayerPartitions result;
    result.by_layer.resize(model_.stages.size());
    // Backwards, as gradients are made.
    for (int stage = static_cast<int>(model_.stages.size()) - 1; stage >= 0; --stage) {
      const models::Stage& s = model_.stages[stage];
      check_stage(model_, s, policies_);
      result.by_layer[stage] = partition_stage(s);
      const std::vector<LayerPlan> plans = plans_of(s, result.by_layer[stage]);
      result.plans.insert(result.plans.begin(), plans.begin(), plans.end());
    }
    for (const auto& [policy, kinds] : asked_) check_offloads(*policy, kinds);
    return result;
  }

 private:
  std::vector<std::shared_ptr<const Partition>> partition_stage(const models::Stage& stage) {
    // Kind, weights added to, whether it is one of the first layers or like them.
    using Variant = std::tuple<int, std::vector<ValueId>, bool>;
    std::map<Variant, std::shared_ptr<const Partition>> partitions;
    std::vector<std::shared_ptr<const Partition>> by_layer(stage.layers.size());
    for (int layer = static_cast<int>(stage.layers.size()) - 1; layer >= 0; --layer) {
      const Program& program = stage.program(layer);
      const Policy policy = policy_of(stage, layer, policies_);
      const std::vector<ValueId> added_to = weights_added_to(stage, layer, program);
      std::shared_ptr<const Partition>& known =
          partitions[{stage.layers[layer], added_to, policy == policies_.of(stage.name).first}];
      if (!known) known = partition_layer(stage, program, policy, added_to);
      by_layer[layer] = known;
    }
    return by_layer;
  }

  // Those whose gradient holds something already.
  std::vector<ValueId> weights_added_to(const models::Stage& stage, int layer,
                                        const Program& program) {
    std::vector<ValueId> added_to;
    for (ValueId id : program.inputs_from(Source::weight)) {
      if (!program[id].needs_gradient) continue;
      const bool is_new = touched_.insert(weight_name(stage, layer, program[id])).second;
      if (!is_new || initial_ == InitialGradients::earlier_sums) added_to.push_back(id);
    }
    return added_to;
  }

  std::shared_ptr<const Partition> partition_layer(const models::Stage& stage,
                                                   const Program& program, const Policy& policy,
                                                   const std::vector<ValueId>& added_to) {
    models::BackwardProgram backward = models::backward(program, {.accumulate = added_to});
    const Schedule schedule =
        &stage == &model_.stages.back() ? Schedule::back_to_back : Schedule::apart;
    auto made =
        std::make_shared<const Partition>(offload::partition(program, backward, policy, schedule));
    if ((policy.name == kCustom || policy.name == kSaveAndOffload) && policy.offloads()) {
      const StagePolicy& asked = policies_.of(stage.name);
      asked_[policy == asked.first ? &asked.first : &*asked.others].push_back(
          {&program, std::move(backward), made});
    }
    return made;
  }

  const models::Model& model_;
  const StagePolicies& policies_;
  const InitialGradients initial_;
  std::set<std::string> touched_;                               // weights
  std::map<const Policy*, std::vector<Differentiated>> asked_;  // to honour the user's own policies
};

}  // namespace

LayerPartitions partition_layers(const models::Model& model, const StagePolicies& policies,
                                 InitialGradients initial) {
  return Partitioner(model, policies, initial)();
}

}  // namespace longshore::offload
