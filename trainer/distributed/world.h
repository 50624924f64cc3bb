// The processes of a run, one for each device, as one of them sees the others.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "offload/collectives.h"
#include "offload/communicator.h"
#include "trainer/distributed/launch.h"

namespace longshore::trainer {

// Every process calls these in the same order.
class World {
 public:
  virtual ~World() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  // Along the axes of a mesh of all processes.
  virtual std::shared_ptr<offload::Communicator> communicator(const offload::DeviceMesh& mesh) = 0;
  // What each process gives, by rank.
  virtual std::vector<std::string> gather(const std::string& mine) = 0;
  virtual int64_t sum(int64_t mine) = 0;
  // The bytes of all processes, by rank one behind the other, on the first; `all` holds them there.
  virtual void gather_to_first(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  bool is_first() const { return rank() == 0; }
  // Ends all processes.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

// Connects the processes of a launch on the CPU: by MPI. One process, launched by nobody, is a
// world of its own. Throws ConfigError for a launcher that MPI does not know, and Error where MPI
// is not to be had.
std::unique_ptr<World> connect(const Launch& launch);

}  // namespace longshore::trainer
