#include "offload/walk.h"

#include "offload/arenas.h"
#include "offload/arguments.h"
#include "offload/executor.h"

namespace longshore::offload {

std::vector<Event> walk(const std::vector<const Plan*>& plans, const Hardware& hardware) {
  auto backend = make_virtual_backend(hardware);
  Ledger ledger;
  Arenas arenas(*backend, plans);
  Arguments arguments(*backend, ledger);
  auto run = [&] {
    for (const Plan* plan : plans) Executable(*plan, *backend, arguments, arenas).run(ledger);
  };
  if (hardware.cache_bytes > 0) run();  // fills the cache with what the previous step used last
  backend->start_recording();
  run();
  return timeline(plans, backend->stop_recording());
}

}  // namespace longshore::offload
