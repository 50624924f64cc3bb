// Whether plans fit on a machine: one that a profile describes, or this one.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "offload/backend.h"
#include "offload/hardware.h"
#include "trainer/step/training_plans.h"

namespace longshore::trainer {

// The most memory that a run may take; without a value, all there is.
struct MemoryLimits {
  std::optional<int64_t> device_bytes, host_bytes;
};

MemoryLimits memory_limits(const Config& config);

// What a machine has left of its memory beyond what plans take. If the device is the host's
// processor, both kinds of memory are the same. A negative number says how many bytes are missing.
struct Room {
  int64_t device_spare_bytes = 0;
  int64_t host_spare_bytes = 0;

  bool fits() const { return device_spare_bytes >= 0 && host_spare_bytes >= 0; }
};

// The bytes that the device and the host lack, added up; 0 if the plans fit.
int64_t missing_bytes(const Room& room);

// The bytes of device memory that will be in use: those of the plans, those that the driver and
// libraries take, and those of the host if its memory is the same.
int64_t used_device_bytes(const MemoryByKind& memory, const offload::Hardware& hardware);

Room room(const MemoryByKind& memory, const offload::Hardware& hardware,
          const MemoryLimits& limits = {});

// Returns "" if the backend has that memory within the limits, else a line for each kind with what
// is needed and what is available. `devices_of_host` devices, each with a process of its own, share
// the host.
std::string shortage(const MemoryByKind& memory, offload::Backend& backend,
                     const MemoryLimits& limits = {}, int64_t devices_of_host = 1);

// A line of what_helps(): the setting, the memory that a config with it needs, and a remark.
std::string helpful_line(const std::string& setting, const MemoryByKind& memory,
                         models::Target target, const MemoryLimits& limits,
                         const std::string& remark);

// The changes of keys with which the plan of a config would lack less memory on that machine, each
// of them tried. Returns a line for each, with the memory that it would need and whether it would
// fit; and where none alone makes room for the same model, several that do so together, if some are
// found. Leaves out the keys in `searched`.
std::string what_helps(const Config& config, const offload::Hardware& hardware,
                       const std::set<std::string>& searched = {});

// The same for an unknown machine: the changes with which the plan would need less memory.
std::string what_helps(const Config& config, models::Target target);

// Returns "" if the backend has the memory of the plans, and the host that of all its devices. Else
// returns what they need and what is available by memory kind, and the changes of keys that help,
// each of them tried.
std::string why_no_room(const Config& config, const TrainingPlans& plans,
                        offload::Backend& backend);

}  // namespace longshore::trainer
