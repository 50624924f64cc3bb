#include "longshore/trainer/calibration/measure_hardware.h"

#include <vector>

#include "longshore/trainer/calibration/measure_cache.h"
#include "longshore/trainer/calibration/measure_kernels.h"
#include "longshore/trainer/calibration/measure_links.h"
#include "longshore/trainer/config/model_config.h"

namespace longshore::trainer {
namespace {

using models::Dtype;
using offload::Hardware;
using offload::MemoryKind;

// Called when libraries have loaded their kernels and nothing of the measurements is allocated any
// more: the memory in use then will be in use during every run, in addition to its plan's.
void measure_memory(offload::Backend& backend, Hardware& hardware) {
  hardware.device_reserved_bytes = backend.used_device_bytes();
  hardware.device_bytes =
      hardware.device_reserved_bytes + backend.available_bytes(MemoryKind::device);
  hardware.host_bytes = backend.available_bytes(MemoryKind::pinned_host);
  if (hardware.target == models::Target::cpu)  // where both are the same memory
    hardware.host_bytes = hardware.device_bytes;
}

}  // namespace

Hardware measure_hardware(offload::Backend& backend, const std::string& name, const Log& log) {
  Hardware hardware{
      .name = name, .source = offload::ProfileSource::measured, .target = backend.target()};
  std::vector<Dtype> dtypes{Dtype::float32};
  if (compute_dtype(Config(), backend.target()) == Dtype::bfloat16)
    dtypes.push_back(Dtype::bfloat16);
  measure_kernels(dtypes, backend, log, hardware);
  if (hardware.target == models::Target::cpu) {
    log("memory that is not in the caches");
    measure_cache(measured_decoders(dtypes.back(), hardware.target)[1], backend, hardware);
  }
  log("copies");
  measure_links(backend, hardware);
  measure_memory(backend, hardware);
  return hardware;
}

}  // namespace longshore::trainer
