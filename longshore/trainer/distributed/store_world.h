// Processes that torchrun launched, connected by the key-value store (c10d::TCPStore) at the
// address that it names: its agent's, or else the first process's own, which listens at that
// address alone if it is this machine's. For texts and checkpoints; tensors go between GPUs by
// NCCL.
#pragma once

#include <chrono>
#include <memory>

#include "longshore/trainer/distributed/launch.h"
#include "longshore/trainer/distributed/world.h"

namespace longshore::trainer {

struct StoreLaunch {
  Launch launch;
  bool agent_has_store = false;  // TORCHELASTIC_USE_AGENT_STORE
  bool has_other_nodes = false;  // processes that are not on the first one's machine
  std::string prefix = {};       // of keys: an agent's store outlives the processes it starts anew
  std::chrono::seconds patience{300};  // until the store answers and all processes are there
  std::chrono::seconds silence{20};    // until a process, or the store, counts as dead
};

// Torchrun's own, out of the environment.
std::unique_ptr<World> connect_by_store(const Launch& launch);

// A process that is not heard of any more ends all others: each writes its name to stderr and exits
// with 1, for it may be waiting for what will never come; so does a store that no longer answers.
// Throws Error where nobody answers at the address, or others do not come.
std::unique_ptr<World> connect_by_store(const StoreLaunch& launch);

}  // namespace longshore::trainer
