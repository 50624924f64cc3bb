// Says whether plans fit on a machine: one that a profile describes, or this one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "longshore/offload/backends/backend.h"
#include "longshore/offload/hardware/hardware.h"
#include "longshore/trainer/config/run_spec.h"
#include "longshore/trainer/step/memory_report.h"

namespace longshore::trainer {

// The most memory that a run may take; without a value, all there is.
struct MemoryLimits {
  std::optional<int64_t> device_bytes, host_bytes;
};

// Of the host's memory, kept free for what a process takes besides: its libraries' code, heaps and
// stacks, and batches that are read ahead. From the first plan to the last step these grew by 20 to
// 40 MiB on a machine of two processors.
inline constexpr int64_t kProcessBytes = int64_t{64} << 20;

MemoryLimits memory_limits(const Config& config);

// The peaks of what a run holds whatever its plans are: parameters and optimizer state, each where
// it lives. If these do not fit, nothing does, and no plan has to be made to know it.
MemoryByKind memory_of_states(const RunSpec& spec);

// What a machine has left of its memory beyond what plans take. If the device is the host's
// processor, both kinds of memory are the same. A negative number says how many bytes are missing.
struct Room {
  int64_t device_spare_bytes = 0;
  int64_t host_spare_bytes = 0;
  bool is_one_memory = false;
  // Whether device_memory_limit or host_memory_limit leaves less than the machine does.
  bool is_device_limited = false, is_host_limited = false;

  bool fits() const { return device_spare_bytes >= 0 && host_spare_bytes >= 0; }
};

// "yes", "no: device 2.1 GiB short", or, of one memory, "no: memory 2.1 GiB short"; where the
// config's limit is what is exceeded, "no: 2.1 GiB over device_memory_limit".
std::string fits_text(const Room& room);

// "device 1.3 GiB, host 59.9 MiB": what is to spare of plans that fit, and of which limit.
std::string spare_text(const Room& room);

// The bytes that the device and the host lack: of two memories added up, of one what it lacks; 0 if
// the plans fit.
int64_t missing_bytes(const Room& room);

// The bytes of device memory that will be in use: those of the plans, those that the driver and
// libraries take, and those of the host if its memory is the same.
int64_t used_device_bytes(const MemoryByKind& memory, const offload::Hardware& hardware);

Room room(const MemoryByKind& memory, const offload::Hardware& hardware,
          const MemoryLimits& limits = {});
// On the backend's machine, whose host `devices_of_host` devices share, each with a process of its
// own and its kProcessBytes.
Room room(const MemoryByKind& memory, offload::Backend& backend, const MemoryLimits& limits,
          int64_t devices_of_host);

// Returns "" if the backend has that memory within the limits, else a line for each kind with what
// is needed and what is available.
std::string shortage(const MemoryByKind& memory, offload::Backend& backend,
                     const MemoryLimits& limits = {}, int64_t devices_of_host = 1);

}  // namespace longshore::trainer
