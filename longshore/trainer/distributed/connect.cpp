#include "longshore/trainer/distributed/connect.h"

#include "longshore/base/error.h"
#include "longshore/trainer/distributed/mpi_world.h"
#include "longshore/trainer/distributed/store_world.h"
#ifdef LONGSHORE_CUDA
#include "longshore/offload/backends/cuda/nccl_communicator.h"
#endif

namespace longshore::trainer {
namespace {

class Alone : public World {
 public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }
  std::vector<std::string> gather(const std::string& mine) override { return {mine}; }
  int64_t sum(int64_t mine) override { return mine; }
  void send(int64_t, std::span<const std::byte>) override { nobody(); }
  void receive(int64_t, std::span<std::byte>) override { nobody(); }
  std::shared_ptr<offload::Communicator> host_communicator(const offload::DeviceMesh&) override {
    nobody();
  }

 private:
  [[noreturn]] static void nobody() { throw InternalError("there is no other process"); }
};

}  // namespace

std::unique_ptr<World> connect(const Launch& launch, models::Target target) {
  if (launch.by == Launch::By::nobody) return std::make_unique<Alone>();
  if (launch.by != Launch::By::torchrun) return connect_by_mpi(launch);
  if (!models::is_cuda(target))
    throw ConfigError(
        "found RANK and WORLD_SIZE of torchrun, but on the CPU processes reach each other by MPI: "
        "expected mpirun or srun; nearest: mpirun -np " +
        std::to_string(launch.world_size));
  return connect_by_store(launch);
}

std::shared_ptr<offload::Communicator> connect_devices(World& world,
                                                       const offload::DeviceMesh& mesh,
                                                       [[maybe_unused]] models::Target target,
                                                       [[maybe_unused]] int device) {
  if (mesh.devices() == 1) return nullptr;
#ifdef LONGSHORE_CUDA
  if (models::is_cuda(target))
    return offload::make_nccl_communicator(
        mesh, device, [&](const std::string& id) { return world.gather(id)[0]; });
#endif
  return world.host_communicator(mesh);
}

}  // namespace longshore::trainer
