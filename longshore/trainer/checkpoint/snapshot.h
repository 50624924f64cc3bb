// A copy of a run's state in ordinary host memory, to write a checkpoint from while training goes
// on; of a process's part of the state, where there are several.
#pragma once

#include <vector>

#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/lowering/parameter_layout.h"

namespace longshore::trainer {

class Snapshot {
 public:
  // Takes the memory, for good, under the arguments' own names and categories: what
  // longshore/trainer/weights/saved_state.h says of each bucket. Throws what the backend does when
  // it cannot.
  Snapshot(const offload::ParameterLayout& layout, offload::Backend& backend,
           offload::Ledger& ledger);

  // Copies, with all processors. No lane may be working on the state.
  void take(const offload::Arguments& state);

  const offload::Arguments& arguments() const { return arguments_; }

 private:
  struct Piece {
    std::string name;
    int64_t offset = 0, bytes = 0;
    std::byte* to = nullptr;
  };

  offload::Arguments arguments_;
  std::vector<Piece> pieces_;
};

}  // namespace longshore::trainer
