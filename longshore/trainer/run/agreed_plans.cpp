#include "longshore/trainer/run/agreed_plans.h"

#include <string>

#include "longshore/base/error.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/distributed/same_config.h"
#include "longshore/trainer/planner/advice/memory_suggestions.h"

namespace longshore::trainer {
namespace {

// The config with what a process chooses by its own machine.
Config with_choices(Config config, models::Target target, const TrainingPlans& plans) {
  const bool is_bfloat16 = compute_dtype(config, target) == models::Dtype::bfloat16;
  config.dtype = is_bfloat16 ? ComputeDtype::bfloat16 : ComputeDtype::float32;
  config.prefetch_layers = plans.options.transfers.prefetch_layers;
  for (const char* key : {"dtype", "prefetch_layers"})
    if (!config.origins.contains(key)) config.origins[key] = "by the machine";
  return config;
}

}  // namespace

TrainingPlans agreed_plans(const RunSpec& spec, offload::Backend& backend, World& world) {
  TrainingPlans plans = plan_training(spec, world.rank());
  // All wait for each other: who went on would take what others still count on.
  for (const std::string& why : world.gather(explain_out_of_memory(spec, plans, backend)))
    if (!why.empty()) throw PlanError(why);
  require_same_config(with_choices(spec.config(), spec.target(), plans), spec.target(), world);
  return plans;
}

}  // namespace longshore::trainer
