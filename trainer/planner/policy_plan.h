// A config planned under its policy, with the memory that the plan takes and its time on a machine.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainer/planner/room.h"
#include "trainer/step/estimate.h"
#include "trainer/step/training_plans.h"

namespace longshore::trainer {

struct PolicyPlan {
  std::string policy;
  Config asked;   // the config that was to be planned
  Config config;  // the config that was planned: if the policy is `auto`, the chosen one
  TrainingPlans plans;
  MemoryByKind memory;
  std::string account;    // of the search, if the policy is `auto`
  bool has_room = false;  // whether `room` is known: by a profile, or from this machine
  // These are set if there is a profile:
  offload::ProfileSource source = offload::ProfileSource::unstated;
  std::optional<Estimate> estimate;
  int64_t used_device_bytes = 0;  // as used_device_bytes() in room.h counts them
  Room room;
  double mfu = 0;                // a fraction
  double tokens_per_second = 0;  // of a device
};

// The config under that policy. `custom` and `auto` use its label keys, `auto` its
// auto_micro_batch; other policies ignore these. Throws ConfigError as validate_remat() does.
Config with_policy(Config config, const std::string& policy);

// Throws ConfigError as validate_remat() does if the config has a key that is read neither by its
// own policy nor by one of `policies`.
void require_remat_keys_read(Config config, const std::vector<std::string>& policies);

// Plans the config. Throws ConfigError if the policy does not suit the model, and as
// choose_policy() does.
PolicyPlan plan_policy(const Config& config, models::Target target,
                       const std::optional<offload::Hardware>& hardware);

// The config's own policy if `names` is empty, every policy except `custom` if it is {"all"}, else
// `names`.
std::vector<std::string> policy_names(const Config& config, const std::vector<std::string>& names);

// A plan for each of policy_names(). If `names` is {"all"}, policies that do not suit the model are
// left out. `changed` gets the config under each policy and says what to plan in its place. Throws
// ConfigError as plan_policy() does.
std::vector<PolicyPlan> plan_policies(
    const Config& config, const std::vector<std::string>& names, models::Target target,
    const std::function<Config(const Config&)>& changed = [](const Config& one) { return one; });

}  // namespace longshore::trainer
