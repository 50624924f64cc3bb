// A config planned under its policy, and what that takes: memory, and time on a machine.
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
  Config config;  // what is planned: where the policy was `auto`, with what it chose
  TrainingPlans plans;
  MemoryByKind memory;
  std::string mesh;  // "one of 8 devices: ..."; empty for one device
  // With a profile:
  std::optional<Estimate> estimate;
  int64_t used_device_bytes = 0;  // as used_device_bytes() of room.h counts them
  Room room;
  double mfu = 0;  // a fraction; 0 where the profile names no peak
  std::vector<std::string> advice;
  std::string what_helps;  // where it does not fit: what_helps() of room.h
  // Where the policy was `auto`: what was tried, and the keys that it stands for.
  std::string account;
  std::vector<std::pair<std::string, std::string>> chosen;
};

// The config under that policy: `custom` and `auto` take its label keys, `auto` its
// auto_micro_batch; others ignore them. Throws ConfigError as validate_remat() does.
Config with_policy(Config config, const std::string& policy);

// Throws ConfigError as validate_remat() does where neither one of these policies nor the config's
// own reads a key that it has.
void require_remat_keys_read(Config config, const std::vector<std::string>& policies);

// With times where there is a profile; without advice. Throws ConfigError where the policy does not
// suit the model, and as choose_policy() does.
PolicyPlan plan_policy(const Config& config, models::Target target,
                       const std::optional<offload::Hardware>& hardware);

// "yes", or "no: device 2.1 GiB short".
std::string fits_text(const Room& room);

}  // namespace longshore::trainer
