// The memory that writing a checkpoint takes besides the state: held from the start, so that a save
// late in a long run finds it.
#pragma once

#include "longshore/offload/execution/arguments.h"

namespace longshore::trainer {

// Given up when the first save begins; what that frees again stays with the process.
class SaveMemory {
 public:
  // Takes kSaveBytes (longshore/trainer/weights/saved_state.h) of host memory and touches them.
  // Throws what the backend does where they are not to be had.
  SaveMemory(offload::Backend& backend, offload::Ledger& ledger);

 private:
  offload::Arguments memory_;
};

}  // namespace longshore::trainer
