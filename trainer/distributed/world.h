// The processes of a run, one for each device, as one of them sees the others.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/op.h"
#include "offload/collectives.h"
#include "offload/communicator.h"
#include "trainer/distributed/launch.h"

namespace longshore::trainer {

// Functions throw Error when the others cannot be reached.
class World {
 public:
  virtual ~World() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  bool is_first() const { return rank() == 0; }

  // What each process gives, by rank. Every process calls this and sum() in the same order.
  virtual std::vector<std::string> gather(const std::string& mine) = 0;
  virtual int64_t sum(int64_t mine) = 0;

  // From one process to another, in order; what is received has the size of what was sent. They may
  // be called by a second thread, while the first calls the functions above.
  virtual void send(int64_t to, std::span<const std::byte> bytes) = 0;
  virtual void receive(int64_t from, std::span<std::byte> bytes) = 0;

  // Among the processes themselves, for operands in the host's memory. Every process calls it.
  virtual std::shared_ptr<offload::Communicator> host_communicator(
      const offload::DeviceMesh& mesh) = 0;
};

// Connects the processes of a launch: those of torchrun by its store, others by MPI. One process,
// launched by nobody, is a world of its own. Throws ConfigError for processes of torchrun that
// train on the CPU, where it is MPI that adds up what they compute, and Error where MPI or the
// store is not to be had.
std::unique_ptr<World> connect(const Launch& launch, models::Target target);

// How the devices of all processes exchange what plans say: by NCCL, or by MPI on the CPU. Null
// where there is one. `device` is this process's GPU. Every process calls it.
std::shared_ptr<offload::Communicator> connect_devices(World& world,
                                                       const offload::DeviceMesh& mesh,
                                                       models::Target target, int device);

}  // namespace longshore::trainer
