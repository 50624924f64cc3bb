// A config planned under its policy, with the memory that the plan takes and its time on a machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "longshore/trainer/planner/room.h"
#include "longshore/trainer/step/estimate.h"
#include "longshore/trainer/step/training_plans.h"

namespace longshore::trainer {

struct PolicyPlan {
  std::string policy;  // that was asked for
  Config asked;        // the config that was to be planned
  RunSpec spec;        // what was planned: if the policy is `auto`, the chosen one
  TrainingPlans plans;
  MemoryByKind memory;
  std::string account;    // of what was chosen: the policy, or how many layers stay on the device
  bool has_room = false;  // whether `room` is known: by a profile, or from this machine
  // These are set if there is a profile:
  offload::ProfileSource source = offload::ProfileSource::unstated;
  std::optional<Estimate> estimate;
  int64_t used_device_bytes = 0;  // as used_device_bytes() in room.h counts them
  Room room;
  double mfu = 0;                // a fraction
  double tokens_per_second = 0;  // of a device

  const Config& config() const { return spec.config(); }
};

// The config under that policy. `custom` and `auto` use its label keys, `auto` its
// auto_micro_batch; other policies ignore these. Throws ConfigError as validate_remat() does.
Config with_policy(Config config, const std::string& policy);

// Throws ConfigError as validate_remat() does if the config has a key that is read neither by its
// own policy nor by one of `policies`.
void require_remat_keys_read(Config config, const std::vector<std::string>& policies);

// Plans the config under its policy, which is not `auto`: see advice/choose_policy.h for that.
// Throws ConfigError if the policy does not suit the model.
PolicyPlan plan_policy(const RunSpec& spec);

}  // namespace longshore::trainer
