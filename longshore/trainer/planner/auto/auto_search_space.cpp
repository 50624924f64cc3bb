#include "longshore/trainer/planner/auto/auto_search_space.h"

#include <algorithm>

#include "longshore/base/parallel.h"
#include "longshore/trainer/config/key_values.h"
#include "longshore/trainer/config/label_actions.h"
#include "longshore/trainer/config/model_config.h"

namespace longshore::trainer {
namespace {

using offload::Action;

// Cuts into more micro-batches than the first one that has at least this many are not tried. Each
// micro-batch launches all kernels, reads all weights and adds to all gradients, so smaller ones
// are assumed not to be faster.
constexpr int64_t kManyMicroBatches = 64;

std::vector<Config> micro_batch_cuts(const Config& config) {
  if (!config.auto_micro_batch) return {config};
  const int64_t rows = config.per_device_batch_size * config.gradient_accumulation_steps;
  std::vector<Config> cuts;
  for (int64_t size = rows; size > 0; --size) {
    if (rows % size != 0 || size * config.max_target_length > kMaxTokens) continue;
    cuts.push_back(config);
    choose_value(cuts.back(), "per_device_batch_size", &Config::per_device_batch_size, size);
    choose_value(cuts.back(), "gradient_accumulation_steps", &Config::gradient_accumulation_steps,
                 rows / size);
    if (rows / size >= kManyMicroBatches) break;
  }
  return cuts;
}

// Each combination of states that live on the host. If the optimizer's are among them, they are
// updated there or on the device.
std::vector<Config> homes_of_states(const Config& config) {
  std::vector<Config> homes{config};
  auto also_on_host = [&](const char* key, bool Config::*member) {
    if (is_set(config, key)) return;
    for (size_t i = 0, n = homes.size(); i < n; ++i) {
      homes.push_back(homes[i]);
      choose_value(homes.back(), key, member, true);
    }
  };
  also_on_host("parameter_memory_host_offload", &Config::parameter_memory_host_offload);
  also_on_host("gradient_memory_host_offload", &Config::gradient_memory_host_offload);
  if (config.toy == Toy::a) return homes;  // has no optimizer state
  also_on_host("optimizer_memory_host_offload", &Config::optimizer_memory_host_offload);
  if (is_set(config, "optimizer_compute")) return homes;
  for (size_t i = 0, n = homes.size(); i < n; ++i)
    if (homes[i].optimizer_memory_host_offload) {
      homes.push_back(homes[i]);
      choose_value(homes.back(), "optimizer_compute", &Config::optimizer_compute,
                   OptimizerCompute::host);
    }
  return homes;
}

// Replaces `auto` by the policy that it chose.
void set_policy(Config& config, const std::string& policy) {
  config.remat_policy = policy;
  config.origins["remat_policy"] = kChosen;
  choose_value(config, "auto_micro_batch", &Config::auto_micro_batch, false);
}

// The value of a label's key. One action is enough if all layers have it, except for `offload`,
// which on its own is the action in the first layers only.
std::vector<std::string> action_texts(Action first, Action others) {
  if (first == others && first != Action::offload) return {name(first)};
  return {name(first), name(others)};
}

bool has_states_on_host(const Config& config) {
  return config.parameter_memory_host_offload || config.gradient_memory_host_offload ||
         config.optimizer_memory_host_offload;
}

std::shared_ptr<const LayerChoices> choices_of(const RunSpec& spec, const Config& cut) {
  const models::Model model = make_model(cut, spec.target());
  return with_origin(cut, [&] {
    return layer_choices(model, actions_in_first_layers(cut), cut.gradient_accumulation_steps,
                         *spec.hardware());
  });
}

}  // namespace

bool is_set(const Config& config, const char* key) { return config.origins.contains(key); }

std::vector<std::pair<std::string, std::string>> chosen_keys(const Config& config) {
  std::vector<std::pair<std::string, std::string>> chosen;
  for (const Key& key : config_keys())
    if (auto origin = config.origins.find(key.name);
        origin != config.origins.end() && origin->second == kChosen)
      chosen.emplace_back(key.name, value_text(key, config));
  return chosen;
}

std::vector<BasePlan> base_plans(const RunSpec& spec) {
  std::vector<BasePlan> bases;
  for (Config& cut : micro_batch_cuts(spec.config())) {
    const auto choices = choices_of(spec, cut);
    cut.label_actions.clear();
    const std::vector<Config> homes = homes_of_states(cut);
    const size_t before = bases.size();
    bases.resize(before + homes.size());
    parallel_for(homes.size(), [&](size_t i) {
      const PolicyPlan full = plan_policy(spec.with(named_config(homes[i], offload::kFull)));
      bases[before + i] = base_plan(homes[i], choices, full, *spec.hardware());
    });
  }
  return bases;
}

bool may_fit(const RunSpec& spec) {
  const Config cut = micro_batch_cuts(spec.config()).at(0);  // states are the same for all
  choices_of(spec, cut);
  return std::ranges::any_of(homes_of_states(cut), [&](const Config& homes) {
    return room(memory_of_states(spec.with(homes)), *spec.hardware(), memory_limits(homes)).fits();
  });
}

std::set<std::string> searched_keys(const Config& config) {
  std::set<std::string> keys{"parameter_memory_host_offload", "gradient_memory_host_offload",
                             "optimizer_memory_host_offload", "prefetch_layers"};
  std::erase_if(keys, [&](const std::string& key) {
    return config.origins.contains(key) && config.origins.at(key) != kChosen;
  });
  keys.insert("remat_policy");
  if (config.auto_micro_batch)
    keys.insert({"per_device_batch_size", "gradient_accumulation_steps"});
  return keys;
}

std::optional<int> first_layers_set(const Config& config) {
  if (!config.offload_layers) return std::nullopt;
  return static_cast<int>(*config.offload_layers);
}

Config split_config(const LayerSplit& split) {
  const LayerChoices& choices = *split.base->choices;
  const offload::Policy &first = choices.assignments[split.first].policy,
                        &others = choices.assignments[split.others].policy;
  Config config = split.base->config;
  set_policy(config, offload::kCustom);
  const bool has_others = split.layers < choices.layers;
  auto write = [&](const std::string& label, Action action, Action action_of_others) {
    config.label_actions[label] = action_texts(action, has_others ? action_of_others : action);
    config.origins[label] = kChosen;
  };
  for (const auto& [label, action] : first.actions) write(label, action, others.actions.at(label));
  write(offload::kUnlabelled, first.otherwise, others.otherwise);
  if ((has_others && !(first == others)) || first.offloads())
    choose_value(config, "offload_layers", &Config::offload_layers, split.layers);
  const bool moves = first.offloads() || others.offloads() || has_states_on_host(config);
  if (moves && !is_set(config, "prefetch_layers"))
    choose_value(config, "prefetch_layers", &Config::prefetch_layers, split.prefetch_layers);
  return config;
}

Config named_config(const Config& base, const std::string& policy) {
  Config config = base;
  set_policy(config, policy);
  return config;
}

}  // namespace longshore::trainer
