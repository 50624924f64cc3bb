// The processes of a run, one for each device, as one of them sees the others.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "longshore/offload/backends/communicator.h"
#include "longshore/offload/plan/mesh.h"

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

}  // namespace longshore::trainer
