#include "trainer/planning/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "offload/explain.h"
#include "trainer/config/device_mesh.h"
#include "trainer/config/hardware_file.h"
#include "trainer/config/load_config.h"
#include "trainer/config/named_hardware.h"
#include "trainer/planning/advice.h"
#include "trainer/planning/auto_account.h"
#include "trainer/planning/auto_policy.h"
#include "trainer/planning/what_helps.h"

namespace longshore::trainer {
namespace {

using offload::bytes_text;
using offload::MemoryKind;

// The layers of a scan that compute most in the backward pass: those that do not train, and lie
// before all that do, keep nothing.
const offload::LayerPlan& scanned(const TrainingPlans& plans) {
  return *std::ranges::max_element(plans.step.layers, {}, [](const offload::LayerPlan& layers) {
    return layers.is_scan ? std::ssize(layers.partition->backward.nodes) : -1;
  });
}

std::string phases_text(const Phases& phases, double step_seconds) {
  std::string text;
  for (auto [name, seconds] :
       {std::pair{"forward", phases.forward}, std::pair{"recompute", phases.recompute},
        std::pair{"backward", phases.backward}, std::pair{"optimizer", phases.optimizer},
        std::pair{"exposed transfer", phases.exposed_transfer},
        std::pair{"exposed host update", phases.exposed_host},
        std::pair{"exposed collectives", phases.exposed_collective}})
    if (seconds > 0)
      text += fmt::format("{}{} {:.4f} ({:.1f} %)", text.empty() ? "" : ", ", name, seconds,
                          100 * seconds / step_seconds);
  return text;
}

std::string time_text(const PolicyPlan& plan, const offload::Hardware& hardware) {
  const Estimate& e = *plan.estimate;
  std::string result = fmt::format(
      "step on {}: {:.4f} s = {}\n"
      "  MFU {:.1f} %, {:.1f} tokens/s/device; busiest is {}, {:.0f} % of the step\n"
      "  fits: {}\n",
      hardware.name, e.step_seconds, phases_text(e.phases, e.step_seconds), 100 * plan.mfu,
      plan.tokens_per_second, offload::name(e.bottleneck),
      100 * e.busy_seconds[e.bottleneck] / e.step_seconds, fits_text(plan.room));
  if (hardware.device_reserved_bytes > 0)
    result +=
        fmt::format("  device memory in use with the driver's and libraries' {}: {}\n",
                    bytes_text(hardware.device_reserved_bytes), bytes_text(plan.used_device_bytes));
  if (plan.room.fits())
    result +=
        fmt::format("  to spare: device {}, host {}\n", bytes_text(plan.room.device_spare_bytes),
                    bytes_text(plan.room.host_spare_bytes));
  return result;
}

// The line of what_helps() for the policy `auto`; "" if nothing that it may choose fits.
std::string what_auto_does(const Config& config, const offload::Hardware& hardware) try {
  const std::optional<AutoChoice> choice =
      find_policy(with_policy(config, offload::kAuto), hardware.target);
  if (!choice) return "";
  const WalkedPlan& chosen = choice->chosen();
  return helpful_line("remat_policy=auto", chosen.memory, hardware.target, memory_limits(config),
                      fmt::format("fits, {:.4f} s a step", chosen.step_seconds));
} catch (const ConfigError&) {
  return "";  // the config has keys that `auto` cannot keep
}

int64_t recomputed(const offload::Partition& partition) {
  return std::ranges::count(partition.backward.nodes, true, &models::Node::recomputes);
}

}  // namespace

std::string table(std::vector<const PolicyPlan*> plans) {
  auto order = [](const PolicyPlan* plan) {
    return std::pair{!plan->room.fits(), plan->estimate ? plan->estimate->step_seconds : 0};
  };
  std::ranges::stable_sort(plans, {}, order);
  bool timed = !plans.empty() && plans[0]->estimate;
  std::string result = fmt::format("{:<32}", "policy");
  if (timed) result += fmt::format(" {:>9} {:>7}", "step s", "MFU");
  result +=
      fmt::format(" {:>12} {:>12} {:>14} {:>17} {:>16}{}\n", "device peak", "host peak",
                  "kept a layer", "offloaded a layer", "nodes recomputed", timed ? "  fits" : "");
  for (const PolicyPlan* plan : plans) {
    const offload::Partition& layer = *scanned(plan->plans).partition;
    result += fmt::format("{:<32}", plan->policy);
    if (timed)
      result += fmt::format(" {:>9.4f} {:>5.1f} %", plan->estimate->step_seconds, 100 * plan->mfu);
    result += fmt::format(" {:>12} {:>12} {:>14} {:>17} {:>16}{}\n",
                          bytes_text(plan->memory[MemoryKind::device].peak_bytes),
                          bytes_text(host_peak_bytes(plan->memory)),
                          bytes_text(residual_bytes(layer, offload::Fate::keep)),
                          bytes_text(residual_bytes(layer, offload::Fate::offload)),
                          recomputed(layer), timed ? "  " + fits_text(plan->room) : "");
  }
  return result;
}

std::string details(const PolicyPlan& plan, const std::optional<offload::Hardware>& hardware) {
  std::string result =
      (plan.account.empty() ? "remat_policy " + plan.policy + "\n" : plan.account + "\n") +
      text(plan.memory);
  if (const std::string mesh = mesh_text(plan.config); !mesh.empty()) result = mesh + "\n" + result;
  for (MemoryKind kind : offload::kMemoryKinds) result += peak_text(plan.plans.all(), kind);
  if (hardware) result += time_text(plan, *hardware);
  return result;
}

std::string changes(const PolicyPlan& plan, const offload::Hardware& hardware) {
  std::string result;
  if (!plan.room.fits())
    result += "what would take less, each line by itself:\n" + what_helps(plan.config, hardware) +
              what_auto_does(plan.config, hardware);
  const std::vector<std::string> lines = advise(plan.config, plan.plans, plan.room, hardware);
  if (!lines.empty()) result += "advice, each change by itself:\n";
  for (const std::string& line : lines) result += "  " + line + "\n";
  return result;
}

std::string explanation(const PolicyPlan& plan) {
  std::string result;
  for (const offload::LayerPlan& layers : plan.plans.step.layers)
    if (layers.is_scan) result += offload::explain(layers);
  return result;
}

nlohmann::ordered_json json(const PolicyPlan& plan) {
  nlohmann::ordered_json one{{"policy", plan.policy}, {"config", plan.config.config_file}};
  if (!plan.config.hardware.empty()) one["hardware"] = plan.config.hardware;
  if (plan.estimate) {
    const Phases& phases = plan.estimate->phases;
    one["fits"] = plan.room.fits();
    one["step_seconds"] = plan.estimate->step_seconds;
    one["mfu"] = plan.mfu;
    one["tokens_per_second_per_device"] = plan.tokens_per_second;
    one["phases"] = {{"forward", phases.forward},
                     {"recompute", phases.recompute},
                     {"backward", phases.backward},
                     {"optimizer", phases.optimizer},
                     {"exposed_transfer", phases.exposed_transfer},
                     {"exposed_host", phases.exposed_host},
                     {"exposed_collective", phases.exposed_collective}};
    one["bottleneck"] = offload::name(plan.estimate->bottleneck);
    one["used_device_bytes"] = plan.used_device_bytes;
  }
  if (!plan.account.empty())
    for (const auto& [key, value] : chosen_keys(plan.config)) one["chosen"][key] = value;
  one["memory"] = json(plan.memory);
  return one;
}

void write_json(const std::vector<PolicyPlan>& plans, const std::filesystem::path& path) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const PolicyPlan& plan : plans) list.push_back(json(plan));
  write_file(path, nlohmann::ordered_json{{"plans", list}}.dump(2) + "\n");
}

namespace {

std::string hardware_row(const Config& config) {
  const offload::Hardware hardware = *named_hardware(config);
  const std::optional<Config> chosen = with_found_policy(config, hardware.target);
  if (!chosen)
    return fmt::format("{:<16} nothing that {} may choose fits\n", config.hardware,
                       config.remat_policy);
  const PolicyPlan plan = plan_policy(*chosen, hardware.target, hardware);
  return fmt::format("{:<16} {:>9.4f} {:>5.1f} % {:>12} {:>12}  {}\n", config.hardware,
                     plan.estimate->step_seconds, 100 * plan.mfu,
                     bytes_text(plan.memory[MemoryKind::device].peak_bytes),
                     bytes_text(host_peak_bytes(plan.memory)), fits_text(plan.room));
}

}  // namespace

std::string hardware_table(const Config& config) {
  std::string result = fmt::format("{:<16} {:>9} {:>7} {:>12} {:>12}  fits\n", "hardware", "step s",
                                   "MFU", "device peak", "host peak");
  for (const std::string& name : hardware_names(default_configs_directory())) {
    Config one = config;
    one.hardware = name;
    const std::string missing = missing_in(read_hardware(name, default_configs_directory()), one);
    result +=
        missing.empty() ? hardware_row(one) : fmt::format("{:<16} has no {}\n", name, missing);
  }
  return result;
}

}  // namespace longshore::trainer
