#include "longshore/trainer/planner/advice/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/offload/lowering/explain.h"
#include "longshore/trainer/config/device_mesh.h"
#include "longshore/trainer/planner/advice/advice.h"
#include "longshore/trainer/planner/advice/memory_suggestions.h"
#include "longshore/trainer/planner/auto/auto_account.h"
#include "longshore/trainer/planner/auto/auto_policy.h"
#include "longshore/trainer/planner/auto/auto_search_space.h"

namespace longshore::trainer {
namespace {

using offload::bytes_text;
using offload::MemoryKind;

// The layers of the main stage that compute most in the backward pass: those that do not train, and
// lie before all that do, keep nothing.
const offload::LayerPlan& scanned(const TrainingPlans& plans) {
  const std::string& stage = main_stage(plans.model).name;
  return *std::ranges::max_element(plans.step.layers, {}, [&](const offload::LayerPlan& layers) {
    return layers.stage == stage ? std::ssize(layers.partition->backward.nodes) : -1;
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

double devices(const PolicyPlan& plan) {
  return static_cast<double>(device_mesh(plan.config()).devices());
}

// As profiles are called by --price-per-hour, wherever their files are.
std::string profile_name(const Config& config) {
  return printable(std::filesystem::path(config.hardware).stem().native());
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
  if (plan.room.fits()) result += "  to spare: " + spare_text(plan.room) + "\n";
  return result;
}

// The line of memory_suggestions() for the policy `auto`; "" if nothing that it may choose fits. A
// thorough search is made only where a quick one finds nothing.
std::string what_auto_does(const RunSpec& spec) try {
  const RunSpec automatic = spec.with(with_policy(spec.config(), offload::kAuto));
  auto line = [&](const SimulatedPlan& found, const char* or_less) {
    return helpful_line("remat_policy=auto", found.memory, spec.hardware()->target,
                        memory_limits(spec.config()),
                        fmt::format("fits, {:.4f} s a step{}", found.step_seconds, or_less));
  };
  if (const std::optional<SimulatedPlan> found = find_policy_quickly(automatic))
    return line(*found, " or less");
  const std::optional<AutoChoice> choice = find_policy(automatic);
  return choice ? line(choice->chosen(), "") : "";
} catch (const ConfigError&) {
  return "";  // the config has keys that `auto` cannot keep
}

int64_t recomputed(const offload::Partition& partition) {
  return std::ranges::count(partition.backward.nodes, true, &models::Node::recomputes);
}

}  // namespace

TrainingCost training_cost(const PolicyPlan& plan, const CostQuestion& question) {
  return training_cost(question, profile_name(plan.config()), plan.tokens_per_second,
                       devices(plan));
}

std::string table(std::vector<const PolicyPlan*> plans, const CostQuestion& question) {
  auto fits = [](const PolicyPlan* plan) { return !plan->has_room || plan->room.fits(); };
  auto order = [&](const PolicyPlan* plan) {
    return std::pair{!fits(plan), plan->estimate ? plan->estimate->step_seconds : 0};
  };
  std::ranges::stable_sort(plans, {}, order);
  const bool is_timed = !plans.empty() && plans[0]->estimate;
  auto fits_cell = [](const PolicyPlan* plan) {
    return plan->has_room ? fits_text(plan->room) : "";
  };
  size_t width = 0;
  for (const PolicyPlan* plan : plans) width = std::max(width, fits_cell(plan).size());
  if (width > 0) width = std::max(width, std::string("fits").size()) + 1;
  std::string result = fmt::format("{:<32}{:<{}}", "policy", width > 0 ? " fits" : "", width);
  if (is_timed) result += fmt::format(" {:>9} {:>7}{}", "step s", "MFU", cost_head(question));
  result += fmt::format(" {:>12} {:>12} {:>14} {:>17} {:>16}\n", "device peak", "host peak",
                        "kept a layer", "offloaded a layer", "nodes recomputed");
  for (const PolicyPlan* plan : plans) {
    const offload::Partition& layer = *scanned(plan->plans).partition;
    result +=
        fmt::format("{:<32}{:<{}}", plan->policy, width > 0 ? " " + fits_cell(plan) : "", width);
    if (is_timed)
      result += fmt::format(" {:>9.4f} {:>5.1f} %{}", plan->estimate->step_seconds, 100 * plan->mfu,
                            cost_cells(question, training_cost(*plan, question)));
    result +=
        fmt::format(" {:>12} {:>12} {:>14} {:>17} {:>16}\n",
                    bytes_text(plan->memory[MemoryKind::device].peak_bytes),
                    bytes_text(host_peak_bytes(plan->memory)),
                    bytes_text(residual_bytes(layer, offload::Action::keep)),
                    bytes_text(residual_bytes(layer, offload::Action::offload)), recomputed(layer));
  }
  return result;
}

std::string details(const PolicyPlan& plan, const CostQuestion& question) {
  std::string result;
  if (plan.policy != offload::kAuto)
    result += "remat_policy " + plan.policy +
              (keeps_all_in_less(plan.plans.options) ? kKeepsAllInLess : "") + "\n";
  if (!plan.account.empty()) result += plan.account + "\n";
  result += text(plan.memory);
  if (const std::string mesh = mesh_text(plan.config()); !mesh.empty())
    result = mesh + "\n" + result;
  for (MemoryKind kind : offload::kMemoryKinds) result += peak_text(plan.plans.all(), kind);
  if (const std::optional<offload::Hardware>& hardware = plan.spec.hardware())
    return result + time_text(plan, *hardware) +
           cost_text(question, hardware->name, plan.tokens_per_second, devices(plan));
  if (plan.has_room) result += "fits on this machine: " + fits_text(plan.room) + "\n";
  if (plan.has_room && plan.room.fits()) result += "  to spare: " + spare_text(plan.room) + "\n";
  return result;
}

std::string changes(const PolicyPlan& plan) {
  std::string result;
  if (!plan.room.fits())
    result += "what would take less, each line by itself:\n" + memory_suggestions(plan.spec) +
              what_auto_does(plan.spec);
  const std::vector<std::string> lines = advise(plan.spec, plan.plans, plan.room, &plan.asked);
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

nlohmann::ordered_json json(const PolicyPlan& plan, const CostQuestion& question) {
  nlohmann::ordered_json one{{"policy", plan.policy},
                             {"config", plan.config().config_file},
                             {"devices", device_mesh(plan.config()).devices()},
                             {"per_device_batch_size", plan.config().per_device_batch_size},
                             {"max_target_length", plan.config().max_target_length}};
  if (!plan.config().hardware.empty()) one["hardware"] = plan.config().hardware;
  if (plan.estimate) one["hardware_source"] = name(plan.source);
  if (plan.has_room) one["fits"] = plan.room.fits();
  if (plan.estimate) {
    const Phases& phases = plan.estimate->phases;
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
    const TrainingCost cost = training_cost(plan, question);
    if (cost.days) one["training_days"] = *cost.days;
    if (cost.money) one["training_cost"] = *cost.money;
    if (cost.tokens_per_money) one["tokens_per_money"] = *cost.tokens_per_money;
  }
  for (const auto& [key, value] : chosen_keys(plan.config())) one["chosen"][key] = value;
  one["memory"] = json(plan.memory);
  return one;
}

std::string json_text(const std::vector<PolicyPlan>& plans, const CostQuestion& question) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const PolicyPlan& plan : plans) list.push_back(json(plan, question));
  return nlohmann::ordered_json{{"plans", list}}.dump(2) + "\n";
}

}  // namespace longshore::trainer
