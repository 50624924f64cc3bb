#include "longshore/trainer/planner/auto/auto_account.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "longshore/base/text.h"
#include "longshore/trainer/config/key_values.h"
#include "longshore/trainer/planner/auto/auto_search_space.h"

namespace longshore::trainer {
namespace {

using offload::bytes_text;
using offload::MemoryKind;

// "offload query_proj, key_proj; keep context"; labels that it does not name are computed again.
// `which` is 0 for the first layers and 1 for the others.
std::string actions_text(const Config& config, size_t which) {
  std::map<std::string, std::vector<std::string>> labels;  // by action
  for (const Key& key : config_keys())
    if (auto actions = config.label_actions.find(key.name); actions != config.label_actions.end())
      labels[actions->second[std::min(which, actions->second.size() - 1)]].push_back(key.name);
  if (!labels.contains("remat") && !labels.contains("offload")) return "keep all";
  std::erase(labels["device"], "decoder_layer_input");  // it is always kept if it is not offloaded
  std::string text;
  for (auto [action, verb] : {std::pair{"offload", "offload "}, std::pair{"device", "keep "}})
    if (!labels[action].empty()) text += (text.empty() ? "" : "; ") + (verb + join(labels[action]));
  return text.empty() ? "compute all again" : text;
}

// A plan that spends more time on one thing may save some on others. The account mentions the time
// saved if it is more than this share of the time spent: less hardly explains the difference.
constexpr double kMentionedShare = 0.1;

// Why a plan lost to the choice: it does not fit, it is no faster, or else what it spends the most
// additional time on.
std::string why(const SimulatedPlan& one, const SimulatedPlan& choice) {
  if (!one.room.fits()) return "does not fit, " + fits_text(one.room);
  double slower = one.step_seconds - choice.step_seconds;
  if (slower <= kEqualTimeTolerance * choice.step_seconds)
    return one.moved_bytes > choice.moved_bytes
               ? fmt::format("no faster, and moves {} more",
                             bytes_text(static_cast<int64_t>(one.moved_bytes - choice.moved_bytes)))
               : "no faster";
  const Phases &a = one.phases, &b = choice.phases;
  std::pair<double, const char*> most{0, "takes longer"};
  for (auto part :
       {std::pair{a.recompute - b.recompute, "computes {:.4f} s more again"},
        std::pair{a.exposed_transfer - b.exposed_transfer, "waits {:.4f} s more for copies"},
        std::pair{a.exposed_host - b.exposed_host, "waits {:.4f} s more for the host"},
        std::pair{a.forward + a.backward + a.optimizer - b.forward - b.backward - b.optimizer,
                  "computes {:.4f} s more"}})
    if (part.first > most.first) most = part;
  const std::string more = fmt::format(fmt::runtime(most.second), most.first);
  const double saved = most.first - slower;
  return saved > kMentionedShare * most.first
             ? fmt::format("{}, {:.4f} s less otherwise", more, saved)
             : more;
}

}  // namespace

std::string summary(const Config& config) {
  std::string text = config.remat_policy;
  if (text == offload::kCustom) {
    int64_t layers = config.offload_layers.value_or(config.model.layers - 1),
            others = config.model.layers - layers;
    bool differs = std::ranges::any_of(
        config.label_actions, [](const auto& actions) { return actions.second.size() > 1; });
    if (!differs || layers == config.model.layers)
      text = actions_text(config, 0);
    else if (layers == 0)
      text = actions_text(config, 1);
    else
      text = fmt::format("first {}: {}; last {}: {}",
                         layers == 1 ? "layer" : fmt::format("{} layers", layers),
                         actions_text(config, 0), others == 1 ? "layer" : std::to_string(others),
                         actions_text(config, 1));
  }
  if (config.parameter_memory_host_offload) text += ", parameters on the host";
  if (config.gradient_memory_host_offload) text += ", gradients on the host";
  if (config.optimizer_memory_host_offload) text += ", optimizer on the host";
  if (config.optimizer_memory_host_offload && config.optimizer_compute == OptimizerCompute::host)
    text += ", computed there";
  if (origin(config, "auto_micro_batch") == kChosen)
    text += fmt::format(", micro-batches of {}", config.per_device_batch_size);
  return text;
}

std::string text(const AutoChoice& choice) {
  constexpr size_t kRunnersUp = 5;  // enough to see how little they differ
  const SimulatedPlan& best = choice.chosen();
  std::string result = fmt::format("remat_policy auto, of {} simulated: {}\n",
                                   plural(std::ssize(choice.plans), "plan"), summary(best.config));
  result +=
      fmt::format("  {:>9} {:>8} {:>12} {:>12}\n", "step s", "slower", "device peak", "host peak");
  auto line = [&](const SimulatedPlan& one, const std::string& remark) {
    result += fmt::format("  {:>9.4f} {:>6.1f} % {:>12} {:>12}  {}{}\n", one.step_seconds,
                          100 * (one.step_seconds / best.step_seconds - 1),
                          bytes_text(one.memory[MemoryKind::device].peak_bytes),
                          bytes_text(host_peak_bytes(one.memory)), summary(one.config), remark);
  };
  line(best, "");
  std::multiset<std::string> shown;  // each named policy once, and the fastest custom ones
  for (size_t i = 1; i < choice.plans.size(); ++i) {
    const SimulatedPlan& one = choice.plans[i];
    const std::string& policy = one.config.remat_policy;
    bool is_custom = policy == offload::kCustom;
    if (is_custom && !one.room.fits()) continue;
    if (shown.count(policy) >= (is_custom ? kRunnersUp : 1)) continue;
    shown.insert(policy);
    line(one, ": " + why(one, best));
  }
  result += "the choice as a config says it:\n";
  for (const auto& [key, value] : chosen_keys(best.config))
    result += "  " + key + ": " + value + "\n";
  return result;
}

}  // namespace longshore::trainer
