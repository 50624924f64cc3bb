#include "longshore/trainer/planner/advice/reference_costs.h"

#include <fmt/format.h>

#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/text.h"
#include "longshore/offload/execution/simulate.h"
#include "longshore/trainer/config/objective.h"
#include "longshore/trainer/config/validate.h"

namespace longshore::trainer {
namespace {

struct Choice {
  std::string keys;  // as a command line has them
  Reference reference;
  bool is_on_host = false;
  FrozenWeightDtype dtype = FrozenWeightDtype::automatic;

  bool is_of(const Config& config) const {
    return reference == reference_of(config) &&
           (reference != Reference::frozen || (is_on_host == config.reference_memory_host_offload &&
                                               dtype == config.reference_weight_dtype));
  }
  Config in(Config config) const {
    config.reference = reference;
    config.reference_memory_host_offload = is_on_host;
    config.reference_weight_dtype = dtype;
    return config;
  }
};

const std::vector<Choice>& choices() {
  static const std::vector<Choice> list{
      {"reference=adapter_off", Reference::adapter_off},
      {"reference=adapter_start", Reference::adapter_start},
      {"reference=frozen", Reference::frozen},
      {"reference=frozen reference_memory_host_offload=true", Reference::frozen, true},
      {"reference=frozen reference_weight_dtype=nf4", Reference::frozen, false,
       FrozenWeightDtype::nf4},
      {"reference=precomputed", Reference::precomputed}};
  return list;
}

std::string cost_text(const PolicyPlan& plan) {
  using offload::MemoryKind;
  std::string text = fmt::format("device {}, host {}",
                                 offload::bytes_text(plan.memory[MemoryKind::device].peak_bytes),
                                 offload::bytes_text(host_peak_bytes(plan.memory)));
  if (!plan.estimate) return text;
  text += fmt::format(", {:.4f} s a step", plan.estimate->step_seconds);
  if (plan.plans.precompute)
    text += fmt::format(", and before the first {:.4f} s for each {} of the data",
                        offload::simulate_runs({{.plan = &*plan.plans.precompute, .times = 1}},
                                               *plan.spec.hardware())[0]
                            .seconds,
                        plural(plan.config().per_device_batch_size, "row"));
  return text;
}

}  // namespace

std::string reference_costs(const PolicyPlan& plan) {
  if (!has_reference(plan.config())) return "";
  std::string lines = "what a reference takes:\n";
  for (const Choice& choice : choices()) {
    const bool is_planned = choice.is_of(plan.config());
    try {
      const Config config = choice.in(plan.config());
      validate(config);
      lines += fmt::format("  {}: {}{}\n", choice.keys,
                           cost_text(is_planned ? plan : plan_policy(plan.spec.with(config))),
                           is_planned ? " (planned here)" : "");
    } catch (const ConfigError&) {
      continue;  // it does not suit the config
    }
  }
  return lines;
}

}  // namespace longshore::trainer
