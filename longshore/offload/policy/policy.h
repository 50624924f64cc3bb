// Remat policies as data: for each labelled value of a layer, what happens to it between the
// forward and the backward pass. Names and meanings are MaxText's.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "longshore/models/ir/program.h"
#include "longshore/offload/memory/memory.h"

namespace longshore::offload {

enum class Action {
  keep,     // stays on the device
  offload,  // goes to pinned host memory when made, comes back when read
  remat,    // computed again in the backward pass
};

const char* name(Action action);  // as in a config: "device", "offload", "remat"
// The action of that name. Throws ConfigError where there is none.
Action action_named(const std::string& text);

struct Policy {
  std::string name;
  Action otherwise = Action::remat;       // of values without a label, or not in `actions`
  std::map<std::string, Action> actions;  // by label

  Action action(const std::string& label) const {
    auto found = actions.find(label);
    return found == actions.end() ? otherwise : found->second;
  }
  bool offloads() const;
  // The same with everything on the device that this one offloads.
  Policy kept_on_device() const;

  bool operator==(const Policy&) const = default;
};

// Keeps every value that the backward pass reads.
Policy keep_all();

inline constexpr const char* kSaveAndOffload = "save_and_offload";

// A policy from lists of labels: the first stay on the device, the second go from `source` to
// `target`, all else is computed again. Throws ConfigError where source and target are not device
// and pinned_host, or a label is in both lists.
Policy save_and_offload(std::span<const std::string> saved, std::span<const std::string> offloaded,
                        MemoryKind source = MemoryKind::device,
                        MemoryKind target = MemoryKind::pinned_host);

// In the place of a label, among the keys of `custom`: values without one.
inline constexpr const char* kUnlabelled = "unlabelled";
// Names of policies that other code asks for. kAuto stands for whatever a planner chooses:
// make_policy() makes none of that name.
inline constexpr const char *kNone = "none", *kFull = "full", *kCustom = "custom", *kAuto = "auto";

// The names and what they do, as the docs and --help show them.
struct PolicyInfo {
  std::string name;
  std::string meaning;
  bool may_offload = false;  // some label, in some model
};
std::span<const PolicyInfo> policies();

// Whether a policy of that name, which may be kAuto, may offload something.
bool may_offload(const std::string& name);

// Throws KeyError, of the key remat_policy, where `name` is neither a policy's nor kAuto.
void require_policy_name(const std::string& name);

// The labels that layers emit, each once, and that of their carry, "" where it has none.
struct LayerLabels {
  std::vector<std::string> all;
  std::string carry;

  LayerLabels(const models::Program& layer);
  LayerLabels(const std::vector<models::Program>& kinds);  // of one stage
};

// The policy called `name` for layers with such labels. `custom` holds the per-label keys, which
// only the policy `custom` reads; labels without a key are computed again. Throws ConfigError when
// the name is unknown, when a named policy speaks of labels that no layer emits, when a custom key
// does, when there are custom keys without the policy `custom`, when the carry is to be computed
// again, or values without a label are to be offloaded.
Policy make_policy(const std::string& name, const std::map<std::string, Action>& custom,
                   const LayerLabels& labels);

}  // namespace longshore::offload
