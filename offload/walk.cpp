#include "offload/walk.h"

#include <algorithm>

#include "offload/executor.h"

namespace longshore::offload {

std::vector<Event> walk(const std::vector<const Plan*>& plans, const Hardware& hardware) {
  auto backend = make_virtual_backend(hardware);
  int64_t device_bytes = 0, host_bytes = 0;
  for (const Plan* plan : plans) {
    device_bytes = std::max(device_bytes, plan->arena(MemoryKind::device));
    host_bytes = std::max(host_bytes, plan->arena(MemoryKind::pinned_host));
  }
  Ledger ledger;
  Arena device(*backend, MemoryKind::device, device_bytes);
  Arena host(*backend, MemoryKind::pinned_host, host_bytes);
  Arguments arguments(*backend, ledger);
  auto run = [&] {
    for (const Plan* plan : plans) Executable(*plan, *backend, arguments, device, host).run(ledger);
  };
  if (hardware.cache_bytes > 0) run();  // a step finds at hand what the one before used last
  backend->start_recording();
  run();
  return timeline(plans, backend->stop_recording());
}

}  // namespace longshore::offload
