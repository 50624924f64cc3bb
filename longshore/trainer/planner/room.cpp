#include "longshore/trainer/planner/room.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "longshore/base/text.h"
#include "longshore/offload/lowering/parameter_layout.h"
#include "longshore/offload/memory/alignment.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/step/training_plans.h"

namespace longshore::trainer {
namespace {

using offload::bytes_text;
using offload::MemoryKind;

// On the CPU backend both kinds are the same memory, so they must fit together.
bool shares_memory(models::Target target) { return !models::is_cuda(target); }

// The memory that a machine has for plans; the same number twice if both kinds share one memory.
struct Capacity {
  int64_t device_bytes, host_bytes;
  bool is_shared;
};

Capacity capacity(const offload::Hardware& hardware) {
  const bool is_shared = shares_memory(hardware.target);
  const int64_t reserved = hardware.device_reserved_bytes;
  return {(is_shared ? hardware.host_bytes : hardware.device_bytes) - reserved,
          hardware.host_bytes - (is_shared ? reserved : 0), is_shared};
}

// The capacity of one of the devices that share the backend's host.
Capacity capacity(offload::Backend& backend, int64_t devices_of_host) {
  const bool is_shared = shares_memory(backend.target());
  auto of_host = [&](MemoryKind kind) {
    return std::max<int64_t>(backend.available_bytes(kind) / devices_of_host - kProcessBytes, 0);
  };
  return {is_shared ? of_host(MemoryKind::device) : backend.available_bytes(MemoryKind::device),
          of_host(MemoryKind::pinned_host), is_shared};
}

Room room_within(const Capacity& capacity, const MemoryByKind& memory, const MemoryLimits& limits) {
  const int64_t device = memory[MemoryKind::device].peak_bytes, host = host_peak_bytes(memory);
  const int64_t together = total_peak_bytes(memory);
  Room room{capacity.device_bytes - (capacity.is_shared ? together : device),
            capacity.host_bytes - (capacity.is_shared ? together : host), capacity.is_shared};
  auto limit = [](const std::optional<int64_t>& bytes, int64_t taken, int64_t& spare,
                  bool& is_limited) {
    if (!bytes || *bytes - taken >= spare) return;
    spare = *bytes - taken;
    is_limited = true;
  };
  limit(limits.device_bytes, device, room.device_spare_bytes, room.is_device_limited);
  limit(limits.host_bytes, host, room.host_spare_bytes, room.is_host_limited);
  return room;
}

}  // namespace

MemoryLimits memory_limits(const Config& config) {
  auto bytes = [](const std::optional<double>& gibibytes) -> std::optional<int64_t> {
    if (!gibibytes) return std::nullopt;
    return static_cast<int64_t>(*gibibytes * (int64_t{1} << 30));
  };
  return {bytes(config.device_memory_limit), bytes(config.host_memory_limit)};
}

MemoryByKind memory_of_states(const RunSpec& spec) {
  const Config& config = spec.config();
  const offload::LayoutOptions options = layout_options(config);
  const bool has_optimizer = config.toy != Toy::a;
  MemoryByKind memory;
  for (const offload::Bucket& bucket :
       offload::lay_out(make_model(config, spec.target()), options).buckets)
    for (offload::Copy copy : bucket.copies())
      if (copy != offload::Copy::gradient && (has_optimizer || copy == offload::Copy::compute))
        memory[bucket.homes.of(copy)].peak_bytes += offload::align_up(bytes(bucket, copy));
  return memory;
}

std::string fits_text(const Room& room) {
  if (room.fits()) return "yes";
  std::vector<std::string> lacks, exceeds;
  auto add = [](std::vector<std::string>& parts, int64_t spare, const std::string& before,
                const std::string& after) {
    if (spare < 0) parts.push_back(before + bytes_text(-spare) + after);
  };
  if (!room.is_device_limited)
    add(lacks, room.device_spare_bytes, room.is_one_memory ? "memory " : "device ", "");
  if (!room.is_host_limited && (!room.is_one_memory || room.is_device_limited))
    add(lacks, room.host_spare_bytes, room.is_one_memory ? "memory " : "host ", "");
  if (room.is_device_limited)
    add(exceeds, room.device_spare_bytes, "", " over device_memory_limit");
  if (room.is_host_limited) add(exceeds, room.host_spare_bytes, "", " over host_memory_limit");
  return "no: " + join(lacks) + (lacks.empty() ? "" : " short") +
         (lacks.empty() || exceeds.empty() ? "" : ", ") + join(exceeds);
}

std::string spare_text(const Room& room) {
  return fmt::format("device {}{}, host {}{}", bytes_text(room.device_spare_bytes),
                     room.is_device_limited ? " of device_memory_limit" : "",
                     bytes_text(room.host_spare_bytes),
                     room.is_host_limited ? " of host_memory_limit" : "");
}

int64_t missing_bytes(const Room& room) {
  const int64_t device = std::max<int64_t>(-room.device_spare_bytes, 0),
                host = std::max<int64_t>(-room.host_spare_bytes, 0);
  return room.is_one_memory ? std::max(device, host) : device + host;
}

int64_t used_device_bytes(const MemoryByKind& memory, const offload::Hardware& hardware) {
  return hardware.device_reserved_bytes + (shares_memory(hardware.target)
                                               ? total_peak_bytes(memory)
                                               : memory[MemoryKind::device].peak_bytes);
}

Room room(const MemoryByKind& memory, const offload::Hardware& hardware,
          const MemoryLimits& limits) {
  return room_within(capacity(hardware), memory, limits);
}

Room room(const MemoryByKind& memory, offload::Backend& backend, const MemoryLimits& limits,
          int64_t devices_of_host) {
  return room_within(capacity(backend, devices_of_host), memory, limits);
}

std::string shortage(const MemoryByKind& memory, offload::Backend& backend,
                     const MemoryLimits& limits, int64_t devices_of_host) {
  const Capacity there = capacity(backend, devices_of_host);
  if (room_within(there, memory, limits).fits()) return "";
  const std::string divided =
      devices_of_host > 1 ? fmt::format(" for each of {} devices of this host", devices_of_host)
                          : "";
  std::string table;
  auto line = [&](const char* what, bool is_device, const std::string& needed) {
    const int64_t all = is_device ? there.device_bytes : there.host_bytes;
    const std::optional<int64_t>& limit = is_device ? limits.device_bytes : limits.host_bytes;
    const int64_t available = std::min(all, limit.value_or(all));
    table += fmt::format(
        "  {:<13} needs {}, available {}{}{}\n", what, needed, bytes_text(available),
        available == limit ? (is_device ? " by device_memory_limit" : " by host_memory_limit") : "",
        is_device && !there.is_shared ? "" : divided);
  };
  const bool has_unpinned = memory[MemoryKind::unpinned_host].peak_bytes > 0;
  for (MemoryKind kind : offload::kMemoryKinds) {
    if (kind == MemoryKind::unpinned_host && !has_unpinned) continue;
    const offload::MemoryAnalysis& a = memory[kind];
    line(name(kind), kind == MemoryKind::device,
         fmt::format("{} ({})", bytes_text(a.peak_bytes), categories_text(a.by_category)));
  }
  // What is one memory is added up below.
  if (has_unpinned && (!there.is_shared || limits.host_bytes))
    line("the host", false, bytes_text(host_peak_bytes(memory)));
  if (there.is_shared)
    table +=
        fmt::format("  {:<13} needs {}, available {}{}\n", "together",
                    bytes_text(total_peak_bytes(memory)), bytes_text(there.host_bytes), divided);
  return table;
}

}  // namespace longshore::trainer
