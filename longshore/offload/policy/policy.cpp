#include "longshore/offload/policy/policy.h"

#include <algorithm>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"

namespace longshore::offload {
namespace {

// Labels that stand for the same values in different layers: a model emits one of the lists whole,
// or several, where it has layers of several kinds.
struct Group {
  Action action;
  std::vector<std::vector<std::string>> alternatives;
};

struct Row {
  PolicyInfo info;
  Action otherwise;
  std::vector<Group> groups;
};

const std::vector<std::vector<std::string>> kQkv{{"query_proj", "key_proj", "value_proj"},
                                                 {"qkv_proj"}};
const std::vector<std::vector<std::string>> kContext{{"context"}};
const std::vector<std::vector<std::string>> kOut{{"out_proj"}};
const std::vector<std::vector<std::string>> kMlpIn{
    {"mlpwi_0", "mlpwi_1"}, {"mlpwi"}, {"moe_mlpwi_0", "moe_mlpwi_1"}};
const std::vector<std::vector<std::string>> kMlpOut{{"mlpwo"}, {"moe_mlpwo"}};

const std::vector<Row>& table() {
  using enum Action;
  static const std::vector<Row> rows{
      {{kNone, "keep every value the backward pass reads; compute nothing again"}, keep, {}},
      {{kFull, "keep the layer's input only; compute the rest again"}, remat, {}},
      {{"minimal", "keep the results of all projections"},
       remat,
       {{keep, kQkv}, {keep, kOut}, {keep, kMlpIn}, {keep, kMlpOut}}},
      {{"minimal_with_context", "keep the results of all projections and of attention"},
       remat,
       {{keep, kQkv}, {keep, kContext}, {keep, kOut}, {keep, kMlpIn}, {keep, kMlpOut}}},
      {{"save_dot_with_context_except_mlp",
        "keep query, key, value, attention's result and its projection"},
       remat,
       {{keep, kQkv}, {keep, kContext}, {keep, kOut}}},
      {{"save_dot_except_mlpwi", "keep the results of all projections but the MLP's first"},
       remat,
       {{keep, kQkv}, {keep, kOut}, {keep, kMlpOut}}},
      {{"save_dot_except_mlp", "keep the results of all projections but the MLP's"},
       remat,
       {{keep, kQkv}, {keep, kOut}}},
      {{"save_qkv_proj", "keep the layer's input and query, key and value"}, remat, {{keep, kQkv}}},
      {{"save_out_proj", "keep the layer's input and the attention block's result"},
       remat,
       {{keep, kOut}}},
      {{"qkv_proj_offloaded", "keep the layer's input; query, key and value in host memory"},
       remat,
       {{offload, kQkv}}},
      {{"minimal_offloaded",
        "keep the layer's input; the results of all projections in host memory"},
       remat,
       {{offload, kQkv}, {offload, kOut}, {offload, kMlpIn}, {offload, kMlpOut}}},
      {{kCustom, "keep the layer's input; each label as its own key says"}, remat, {}},
  };
  return rows;
}

bool emits(std::span<const std::string> labels, const std::string& label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

[[noreturn]] void refuse_label(const std::string& key, const std::string& of_policy,
                               const std::string& label, std::span<const std::string> labels) {
  throw KeyError(key, of_policy + "the model emits no label '" + excerpt(label) + "'; it emits " +
                          join(labels) + nearest_help(nearest(label, labels)));
}

}  // namespace

const char* name(Action action) {
  return action == Action::keep ? "device" : action == Action::offload ? "offload" : "remat";
}

Action action_named(const std::string& text) {
  for (Action action : {Action::keep, Action::offload, Action::remat})
    if (text == name(action)) return action;
  throw ConfigError("found '" + excerpt(text) + "', expected an action: device, offload or remat");
}

bool Policy::offloads() const {
  return std::any_of(actions.begin(), actions.end(),
                     [](const auto& action) { return action.second == Action::offload; });
}

Policy Policy::kept_on_device() const {
  Policy kept = *this;
  for (auto& [label, action] : kept.actions)
    if (action == Action::offload) action = Action::keep;
  return kept;
}

Policy keep_all() { return {.name = kNone, .otherwise = Action::keep, .actions = {}}; }

Policy save_and_offload(std::span<const std::string> saved, std::span<const std::string> offloaded,
                        MemoryKind source, MemoryKind target) {
  if (source != MemoryKind::device || target != MemoryKind::pinned_host)
    throw ConfigError(std::string("save_and_offload: values can go from device to pinned_host, ") +
                      "not from " + name(source) + " to " + name(target));
  Policy policy{.name = kSaveAndOffload, .otherwise = Action::remat, .actions = {}};
  for (const std::string& label : saved) policy.actions[label] = Action::keep;
  for (const std::string& label : offloaded)
    if (!policy.actions.emplace(label, Action::offload).second)
      throw ConfigError("save_and_offload: " + label + " is to be saved and to be offloaded");
  return policy;
}

std::span<const PolicyInfo> policies() {
  static const std::vector<PolicyInfo> infos = [] {
    std::vector<PolicyInfo> infos;
    for (const Row& row : table()) {
      infos.push_back(row.info);
      infos.back().may_offload =
          row.info.name == kCustom ||
          std::ranges::find(row.groups, Action::offload, &Group::action) != row.groups.end();
    }
    return infos;
  }();
  return infos;
}

bool may_offload(const std::string& name) {
  const auto info = std::ranges::find(policies(), name, &PolicyInfo::name);
  return info == policies().end() ? name == kAuto : info->may_offload;
}

void require_policy_name(const std::string& name) {
  std::vector<std::string> names;
  for (const PolicyInfo& info : policies()) names.push_back(info.name);
  names.push_back(kAuto);
  if (std::ranges::find(names, name) == names.end())
    throw KeyError("remat_policy", "found '" + excerpt(name) + "', expected one of " + join(names) +
                                       nearest_help(nearest(name, names)));
}

LayerLabels::LayerLabels(const models::Program& layer) : LayerLabels(std::vector{layer}) {}

LayerLabels::LayerLabels(const std::vector<models::Program>& kinds) {
  for (const models::Program& kind : kinds)
    for (const std::string& label : kind.labels())
      if (!emits(all, label)) all.push_back(label);
  const std::vector<models::ValueId> inputs = kinds[0].inputs_from(models::Source::input);
  if (!inputs.empty()) carry = kinds[0][inputs[0]].label;
}

Policy make_policy(const std::string& name, const std::map<std::string, Action>& custom,
                   const LayerLabels& layers) {
  require_policy_name(name);
  auto row = std::find_if(table().begin(), table().end(),
                          [&](const Row& row) { return row.info.name == name; });
  if (row == table().end())
    throw KeyError("remat_policy", "found " + name + ", expected a policy that is chosen");
  if (name != kCustom && !custom.empty())
    throw KeyError(custom.begin()->first,
                   "is read only with remat_policy: custom, found remat_policy: " + name);

  const std::vector<std::string>& labels = layers.all;
  Policy policy{.name = name, .otherwise = row->otherwise, .actions = custom};
  if (auto unlabelled = policy.actions.extract(kUnlabelled)) {
    policy.otherwise = unlabelled.mapped();
    if (policy.otherwise == Action::offload)
      throw KeyError(kUnlabelled,
                     "found offload, expected device or remat: only values with a label can be "
                     "offloaded");
    for (const std::string& label : labels) policy.actions.emplace(label, Action::remat);
  }
  for (const auto& [label, action] : custom) {
    if (label == kUnlabelled) continue;
    if (!emits(labels, label)) refuse_label(label, "", label, labels);
    if (action == Action::remat && layers.carry == label)
      throw KeyError(label,
                     "remat is not possible: all else is computed again from it; nearest: device, "
                     "offload");
  }
  for (const Group& group : row->groups) {
    bool has_one = false;
    for (const std::vector<std::string>& alternative : group.alternatives) {
      if (!std::ranges::all_of(alternative,
                               [&](const std::string& label) { return emits(labels, label); }))
        continue;
      has_one = true;
      for (const std::string& label : alternative) policy.actions[label] = group.action;
    }
    if (!has_one) refuse_label("remat_policy", name + ": ", group.alternatives[0][0], labels);
  }
  return policy;
}

}  // namespace longshore::offload
