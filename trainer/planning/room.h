// Whether plans fit on a machine, a planned one or this one.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "offload/backend.h"
#include "offload/hardware.h"
#include "trainer/step/training_plans.h"

namespace longshore::trainer {

// The most that a run may take; none: all there is.
struct MemoryLimits {
  std::optional<int64_t> device_bytes, host_bytes;
};

MemoryLimits memory_limits(const Config& config);

// Whether a machine holds what plans take: each kind in its memory, or both in one where the device
// is the host's processor. Negative bytes are missing.
struct Room {
  int64_t device_spare_bytes = 0;
  int64_t host_spare_bytes = 0;

  bool fits() const { return device_spare_bytes >= 0 && host_spare_bytes >= 0; }
};

// What of the device's memory will be in use: the plans', what the driver and libraries take, and
// the host's share where that is the same memory.
int64_t used_device_bytes(const MemoryByKind& memory, const offload::Hardware& hardware);

Room room(const MemoryByKind& memory, const offload::Hardware& hardware,
          const MemoryLimits& limits = {});

// "" when the backend can hold that within the limits; otherwise a line for each kind, with what is
// needed and what is there. So many devices, each with a process of its own, share the host.
std::string shortage(const MemoryByKind& memory, offload::Backend& backend,
                     const MemoryLimits& limits = {}, int64_t devices_of_host = 1);

// Keys that would lessen what a config's plan lacks by that profile, each tried: a line for each,
// with what it would need. Those of `searched` are not spoken of.
std::string what_helps(const Config& config, const offload::Hardware& hardware,
                       const std::set<std::string>& searched = {});

// Where it is not known what is missing: those that lessen anything.
std::string what_helps(const Config& config, models::Target target);

// "" when the backend can hold the plans, and the host those of all its devices; otherwise what
// they need and what is there by memory kind, and which keys would make it smaller, each tried.
std::string why_no_room(const Config& config, const TrainingPlans& plans,
                        offload::Backend& backend);

}  // namespace longshore::trainer
