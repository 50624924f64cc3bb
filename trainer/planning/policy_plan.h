// A config planned under its policy, with the memory that the plan takes and its time on a machine.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/planning/room.h"
#include "trainer/step/estimate.h"
#include "trainer/step/training_plans.h"

namespace longshore::trainer {

struct PolicyPlan {
  std::string policy;
  Config config;  // the config that was planned: if the policy is `auto`, the chosen one
  TrainingPlans plans;
  MemoryByKind memory;
  std::string mesh;  // "one of 8 devices: ..."; empty for one device
  // These are set if there is a profile:
  std::optional<Estimate> estimate;
  int64_t used_device_bytes = 0;  // as used_device_bytes() in room.h counts them
  Room room;
  double mfu = 0;                // a fraction
  double tokens_per_second = 0;  // of a device
  // These are set if the policy is `auto`: the account of the search, and the chosen keys.
  std::string account;
  std::vector<std::pair<std::string, std::string>> chosen;
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

// "yes", or "no: device 2.1 GiB short".
std::string fits_text(const Room& room);

}  // namespace longshore::trainer
