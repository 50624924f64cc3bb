#include "longshore/trainer/planner/advice/hardware_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "longshore/base/error.h"
#include "longshore/trainer/config/hardware_file.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/profile_needs.h"
#include "longshore/trainer/planner/advice/choose_policy.h"
#include "longshore/trainer/planner/advice/layers_on_device.h"
#include "longshore/trainer/planner/advice/plan_report.h"
#include "longshore/trainer/planner/auto/auto_policy.h"

namespace longshore::trainer {
namespace {

using offload::bytes_text;
using offload::Hardware;
using offload::MemoryKind;

const std::vector<std::string> kAllPolicies{"all"};

// Under the config's policy on the profile that it names.
HardwarePlan plan_on(const Config& config, const Hardware& profile, const PlanQuestion& question) {
  HardwarePlan result{.hardware = profile.name,
                      .policy = config.remat_policy,
                      .answer = "",
                      .plan = {},
                      .instead = ""};
  if (const std::string missing = missing_in(profile, config); !missing.empty()) {
    result.instead = "has no " + missing;
    return result;
  }
  const PlanAnswer found = answer(question, RunSpec::on_profile(config, profile));
  result.answer = found.cell;
  if (!found.is_found) {
    result.instead = found.text;
    return result;
  }
  const std::optional<RunSpec> chosen = with_found_policy(found.spec);
  if (!chosen)
    result.instead = "nothing that " + config.remat_policy + " may choose fits";
  else
    result.plan = plan_policy(with_layers_on_device(*chosen));
  return result;
}

}  // namespace

std::vector<HardwarePlan> plans_on_all_hardware(const Config& config,
                                                const std::vector<std::string>& names,
                                                const PlanQuestion& question) {
  const std::vector<std::string> policies = policy_names(config, names);
  require_remat_keys_read(config, policies);
  std::vector<HardwarePlan> plans;
  std::string obstacle;
  for (const std::string& name : hardware_names(default_configs_directory())) {
    const Hardware profile = read_hardware(name, default_configs_directory());
    for (const std::string& policy : policies) try {
        Config one = with_policy(config, policy);
        one.hardware = name;
        plans.push_back(plan_on(one, profile, question));
      } catch (const ConfigError& error) {
        if (names != kAllPolicies) throw;
        obstacle = error.what();
      }
  }
  if (plans.empty()) throw ConfigError("no policy suits: " + obstacle);
  return plans;
}

std::string table(const std::vector<HardwarePlan>& plans, const PlanQuestion& question) {
  size_t fits_width = std::string("fits").size(), policy_width = 0;
  for (const HardwarePlan& one : plans) {
    if (one.plan) fits_width = std::max(fits_width, fits_text(one.plan->room).size());
    if (one.policy != plans[0].policy) policy_width = std::string("policy").size();
  }
  if (policy_width > 0)
    for (const HardwarePlan& one : plans) policy_width = std::max(policy_width, one.policy.size());
  auto policy_cell = [&](const std::string& text) {
    return policy_width > 0 ? fmt::format("{:<{}} ", text, policy_width) : "";
  };
  const std::string asked = question.fewest_devices ? "devices" : question.largest;
  std::string result = fmt::format("{:<16} {}{:<{}}{} {:>9} {:>7} {:>9}{} {:>12} {:>12}  {}\n",
                                   "hardware", policy_cell("policy"), "fits", fits_width,
                                   asked.empty() ? "" : " " + asked, "step s", "MFU", "tokens/s",
                                   cost_head(question.cost), "device peak", "host peak", "source");
  for (const HardwarePlan& one : plans) {
    result += fmt::format("{:<16} {}", one.hardware, policy_cell(one.policy));
    if (!one.plan) {
      result += one.instead + "\n";
      continue;
    }
    const PolicyPlan& plan = *one.plan;
    result += fmt::format("{:<{}}", fits_text(plan.room), fits_width);
    if (!asked.empty()) result += fmt::format(" {:>{}}", one.answer, asked.size());
    result += fmt::format(" {:>9.4f} {:>5.1f} % {:>9.1f}{} {:>12} {:>12}  {}\n",
                          plan.estimate->step_seconds, 100 * plan.mfu, plan.tokens_per_second,
                          cost_cells(question.cost, training_cost(plan, question.cost)),
                          bytes_text(plan.memory[MemoryKind::device].peak_bytes),
                          bytes_text(host_peak_bytes(plan.memory)), offload::name(plan.source));
  }
  return result;
}

std::string json_text(const std::vector<HardwarePlan>& plans, const PlanQuestion& question) {
  nlohmann::ordered_json planned = nlohmann::ordered_json::array(),
                         not_planned = nlohmann::ordered_json::array();
  for (const HardwarePlan& one : plans)
    if (one.plan)
      planned.push_back(json(*one.plan, question.cost));
    else
      not_planned.push_back(
          {{"policy", one.policy}, {"hardware", one.hardware}, {"reason", one.instead}});
  return nlohmann::ordered_json{{"plans", planned}, {"not_planned", not_planned}}.dump(2) + "\n";
}

}  // namespace longshore::trainer
