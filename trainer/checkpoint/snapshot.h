// A copy of a run's state in ordinary host memory, to write a checkpoint from while training goes
// on. Of a run of several processes the first has it, with the shards of all.
#pragma once

#include "offload/executor.h"
#include "offload/parameter_layout.h"
#include "trainer/distributed/world.h"

namespace longshore::trainer {

class Snapshot {
 public:
  // Takes the memory, for good, under the arguments' own names and categories: what
  // trainer/weights/saved_state.h says of each slab. Throws what the backend does when it cannot.
  Snapshot(const offload::ParameterLayout& layout, offload::Backend& backend,
           offload::Ledger& ledger, World& world);

  // Copies, with all processors. No lane may be working on the state. Every process takes part.
  void take(const offload::Arguments& state);

  const offload::Arguments& arguments() const { return arguments_; }
  // Where what lies in it.
  const offload::ParameterLayout& layout() const { return layout_; }

 private:
  void copy(const offload::Arguments& state);
  void gather(const offload::Arguments& state);

  struct Piece {
    std::string name;
    int64_t offset = 0, bytes = 0;
    std::byte* to = nullptr;
  };

  const offload::ParameterLayout& held_;
  offload::ParameterLayout layout_;
  World& world_;
  offload::Arguments arguments_;
  std::vector<Piece> pieces_;
};

}  // namespace longshore::trainer
