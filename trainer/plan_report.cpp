#include "trainer/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "offload/explain.h"
#include "trainer/write_file.h"

namespace longshore::trainer {
namespace {

using offload::bytes_text;
using offload::MemoryKind;

const offload::LayerPlan& scanned(const TrainingPlans& plans) {
  return *std::find_if(plans.step.layers.begin(), plans.step.layers.end(),
                       [](const offload::LayerPlan& layers) { return layers.is_scan; });
}

int64_t replayed(const offload::Partition& partition) {
  return std::count_if(partition.backward.nodes.begin(), partition.backward.nodes.end(),
                       [&](const models::Node& node) {
                         return partition.backward[node.out[0]].name.ends_with(".again");
                       });
}

}  // namespace

std::vector<PolicyPlan> plan_policies(const Config& config, std::vector<std::string> names,
                                      models::Target target) {
  bool all = names == std::vector<std::string>{"all"};
  if (names.empty()) names = {config.remat_policy};
  if (all) {
    names.clear();
    for (const offload::PolicyInfo& info : offload::policies())
      if (info.name != "custom") names.push_back(info.name);
  }
  std::vector<PolicyPlan> plans;
  for (const std::string& name : names) {
    Config one = config;
    one.remat_policy = name;
    if (name != "custom") one.label_fates.clear();
    try {
      TrainingPlans planned = plan_training(one, target);
      MemoryByKind memory = analyze(planned.all());
      plans.push_back({name, std::move(planned), memory});
    } catch (const ConfigError&) {
      if (!all) throw;  // of all policies, those that suit the model
    }
  }
  return plans;
}

std::string table(const std::vector<PolicyPlan>& plans) {
  std::string result =
      fmt::format("{:<32} {:>12} {:>12} {:>14} {:>17} {:>15}\n", "policy", "device peak",
                  "host peak", "kept a layer", "offloaded a layer", "nodes replayed");
  for (const PolicyPlan& plan : plans) {
    const offload::Partition& layer = *scanned(plan.plans).partition;
    result +=
        fmt::format("{:<32} {:>12} {:>12} {:>14} {:>17} {:>15}\n", plan.policy,
                    bytes_text(of(plan.memory, MemoryKind::device).peak_bytes),
                    bytes_text(of(plan.memory, MemoryKind::pinned_host).peak_bytes),
                    bytes_text(residual_bytes(layer, offload::Fate::keep)),
                    bytes_text(residual_bytes(layer, offload::Fate::offload)), replayed(layer));
  }
  return result;
}

std::string details(const PolicyPlan& plan, bool explain) {
  std::string result = "remat_policy " + plan.policy + "\n" + text(plan.memory);
  if (!explain) return result;
  for (const offload::LayerPlan& layers : plan.plans.step.layers)
    if (layers.is_scan) result += offload::explain(layers);
  return result;
}

void write_json(const std::vector<PolicyPlan>& plans, const std::filesystem::path& path) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const PolicyPlan& plan : plans)
    list.push_back({{"policy", plan.policy}, {"memory", json(plan.memory)}});
  write_file(path, nlohmann::ordered_json{{"plans", list}}.dump(2) + "\n");
}

}  // namespace longshore::trainer
