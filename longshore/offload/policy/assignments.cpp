#include "longshore/offload/policy/assignments.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "longshore/offload/policy/partition.h"

namespace longshore::offload {
namespace {

using models::Program;

// One kind of layer, with its backward program.
struct Kind {
  const Program& forward;
  models::BackwardProgram backward;
  double share = 0;  // the fraction of the stage's layers that are of this kind
};

std::vector<Kind> kinds_of(const models::Stage& stage) {
  std::vector<Kind> kinds;
  for (size_t i = 0; i < stage.programs.size(); ++i) {
    auto layers = std::count(stage.layers.begin(), stage.layers.end(), static_cast<int>(i));
    kinds.push_back({stage.programs[i], models::backward(stage.programs[i]),
                     static_cast<double>(layers) / static_cast<double>(stage.layers.size())});
  }
  return kinds;
}

double seconds(const Program& program, const Hardware& hardware) {
  double seconds = 0;
  for (const models::Node& node : program.nodes)
    seconds += hardware.kernel_seconds(Lane::compute, *node.op, node.attrs, program.types(node.in),
                                       program.types(node.out));
  return seconds;
}

// Adds up what the policy costs. `read` receives the actions of the labels that the backward pass
// reads without computing them again.
Assignment assign(const std::vector<Kind>& kinds, const Policy& policy, const Hardware& hardware,
                  std::map<std::string, Action>& read) {
  Assignment result{.policy = policy};
  for (const Kind& kind : kinds) {
    Partition layer = partition(kind.forward, kind.backward, policy);
    result.kept_bytes += kind.share * static_cast<double>(residual_bytes(layer, Action::keep));
    result.offloaded_bytes +=
        kind.share * static_cast<double>(residual_bytes(layer, Action::offload));
    result.backward_seconds += kind.share * seconds(layer.backward, hardware);
    for (const Residual& residual : layer.residuals)
      if (const std::string& label = layer.forward[residual.value].label; !label.empty())
        read[label] = residual.action;
  }
  return result;
}

// The labels of what enters a layer, which cannot be computed again.
std::set<std::string> carry_labels(const models::Stage& stage) {
  std::set<std::string> labels;
  for (const Program& program : stage.programs)
    labels.insert(program[program.inputs_from(models::Source::input)[0]].label);
  return labels;
}

// Labels that share an action, and the actions to choose from.
struct Choice {
  std::vector<std::string> labels;
  std::vector<Action> actions;
};

// Labels of the values that go one way, also where layers of another kind have others in their
// place.
std::vector<std::string> together(const std::string& label) {
  static const std::vector<std::vector<std::string>> kTogether{
      {"query_proj", "key_proj", "value_proj"},
      {"mlpwi_0", "moe_mlpwi_0"},
      {"mlpwi_1", "moe_mlpwi_1"},
      {"mlpwo", "moe_mlpwo"},
      {"moe_routing", "moe_grouping"}};
  for (const std::vector<std::string>& labels : kTogether)
    if (std::ranges::find(labels, label) != labels.end()) return labels;
  return {label};
}

std::vector<Choice> choices_of(const models::Stage& stage,
                               const std::map<std::string, Action>& fixed) {
  const std::vector<Action> kAny{Action::remat, Action::keep, Action::offload};
  const std::set<std::string> carries = carry_labels(stage);
  std::set<std::string> seen;
  std::map<std::string, size_t> begun;  // the choices of several labels, by the first
  std::vector<Choice> choices;
  for (const Program& program : stage.programs)
    for (const std::string& label : program.labels()) {
      if (!seen.insert(label).second) continue;
      if (auto one = fixed.find(label); one != fixed.end()) {
        choices.push_back({{label}, {one->second}});
      } else if (carries.contains(label)) {
        choices.push_back({{label}, {Action::keep, Action::offload}});
      } else {
        const auto [known, is_new] = begun.try_emplace(together(label)[0], choices.size());
        if (is_new) choices.push_back({{}, kAny});
        choices[known->second].labels.push_back(label);
      }
    }
  // Those of attention's inputs last: of equal ones the first combination is taken.
  if (const auto qkv = begun.find(together("query_proj")[0]); qkv != begun.end())
    std::rotate(choices.begin() + static_cast<std::ptrdiff_t>(qkv->second),
                choices.begin() + static_cast<std::ptrdiff_t>(qkv->second) + 1, choices.end());
  auto unlabelled = fixed.find(kUnlabelled);
  choices.push_back({{kUnlabelled},
                     unlabelled == fixed.end() ? std::vector{Action::remat, Action::keep}
                                               : std::vector{unlabelled->second}});
  return choices;
}

// Enumerates all combinations of actions, beginning with the first action of each choice.
class Combinations {
 public:
  explicit Combinations(std::vector<Choice> choices)
      : choices_(std::move(choices)), at_(choices_.size()) {}

  Policy policy() const {
    Policy policy{.name = kCustom};
    for (size_t i = 0; i < choices_.size(); ++i)
      for (const std::string& label : choices_[i].labels) {
        if (label == kUnlabelled)
          policy.otherwise = choices_[i].actions[at_[i]];
        else
          policy.actions[label] = choices_[i].actions[at_[i]];
      }
    return policy;
  }

  bool next() {
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (++at_[i] < choices_[i].actions.size()) return true;
      at_[i] = 0;
    }
    return false;
  }

 private:
  std::vector<Choice> choices_;
  std::vector<size_t> at_;
};

}  // namespace

std::vector<Assignment> assignments(const models::Stage& stage,
                                    const std::map<std::string, Action>& fixed,
                                    const Hardware& hardware) {
  std::vector<Kind> kinds = kinds_of(stage);
  const std::set<std::string> carries = carry_labels(stage);
  std::vector<Assignment> all;
  Combinations combinations(choices_of(stage, fixed));
  do {
    std::map<std::string, Action> read;
    Assignment one = assign(kinds, combinations.policy(), hardware, read);
    for (auto& [label, action] : one.policy.actions) {
      if (fixed.contains(label)) continue;
      if (auto found = read.find(label); found != read.end())
        action = found->second;
      else
        action = carries.contains(label) ? Action::keep : Action::remat;
    }
    all.push_back(std::move(one));
  } while (combinations.next());

  std::sort(all.begin(), all.end(), [](const Assignment& a, const Assignment& b) {
    return std::tie(a.kept_bytes, a.offloaded_bytes, a.backward_seconds) <
           std::tie(b.kept_bytes, b.offloaded_bytes, b.backward_seconds);
  });
  std::vector<Assignment> best;
  for (Assignment& one : all) {
    bool is_beaten = std::any_of(best.begin(), best.end(), [&](const Assignment& other) {
      return other.offloaded_bytes <= one.offloaded_bytes &&
             other.backward_seconds <= one.backward_seconds;
    });
    if (!is_beaten) best.push_back(std::move(one));
  }
  return best;
}

Assignment assign(const models::Stage& stage, const Policy& policy, const Hardware& hardware) {
  std::map<std::string, Action> read;
  return assign(kinds_of(stage), policy, hardware, read);
}

}  // namespace longshore::offload
