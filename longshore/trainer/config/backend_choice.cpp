#include "longshore/trainer/config/backend_choice.h"

#include <omp.h>

#include "longshore/base/error.h"
#include "longshore/base/text.h"
#include "longshore/offload/backends/cpu_backend.h"
#ifdef LONGSHORE_CUDA
#include "longshore/offload/backends/cuda/cuda_backend.h"
#include "longshore/offload/backends/cuda/cuda_device.h"
#endif

namespace longshore::trainer {
namespace {

ChosenBackend cpu(const std::string& why) {
  return {.description = "cpu (" + plural(omp_get_max_threads(), "thread") + "), " + why};
}

}  // namespace

ChosenBackend choose_backend(const Config& config, [[maybe_unused]] int64_t local_rank) {
  if (config.backend == BackendChoice::cpu) return cpu("as " + origin(config, "backend") + " asks");
  const models::Target wanted = config.backend == BackendChoice::cuda_composed
                                    ? models::Target::cuda_composed
                                    : models::Target::cuda;
  const bool asked = config.backend != BackendChoice::automatic;
#ifdef LONGSHORE_CUDA
  offload::CudaDevice device = offload::find_cuda_device(local_rank);
  if (device.usable)
    return {wanted, device.number,
            std::string(name(wanted)) + " (" + device.description + "), " +
                (asked ? "as " + origin(config, "backend") + " asks" : "since a GPU is there")};
  std::string why = device.description;
#else
  std::string why = "this build has no CUDA backend";
#endif
  if (asked)
    throw ConfigError(location(config, "backend") + ": found " + name(wanted) + ", but " + why +
                      "; nearest: auto, cpu");
  return cpu("since " + why);
}

std::unique_ptr<offload::Backend> make_backend(
    models::Target target, [[maybe_unused]] int device,
    std::shared_ptr<offload::Communicator> communicator) {
#ifdef LONGSHORE_CUDA
  if (models::is_cuda(target))
    return offload::make_cuda_backend(device, std::move(communicator), target);
#endif
  return offload::make_cpu_backend(target, std::move(communicator));
}

}  // namespace longshore::trainer
