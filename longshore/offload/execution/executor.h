// Runs plans on any backend: the only code that does.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "longshore/offload/backends/backend.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/memory/memory.h"
#include "longshore/offload/plan/lifetimes.h"
#include "longshore/offload/plan/plan.h"

namespace longshore::offload {

// A plan whose operands are bound to addresses.
class Executable {
 public:
  // Gives the address of a buffer that the caller owns: Buffer::bytes of memory of the buffer's
  // kind. It is called once for each such buffer, by the constructor only.
  using Address = std::function<std::byte*(const Buffer&)>;

  // The plan, the backend, the arenas and the memory that `address` or `arguments` give must
  // outlive this. Throws InternalError if an arena is smaller than the plan needs.
  Executable(const Plan& plan, Backend& backend, const Address& address, const Arenas& arenas);
  Executable(const Plan& plan, Backend& backend, Arguments& arguments, const Arenas& arenas);

  // Enqueues all instructions and, at the end, lets each lane wait for the others. Does not wait
  // for them itself, unless something fails: then it throws once all lanes are idle. Temporaries
  // are entered in the ledger while they are live. `number` is the run's among runs in a row: where
  // an argument has a part for each, the run reads that one.
  void run(Ledger& ledger, int64_t number = 0);

 private:
  struct BoundOperands {
    std::vector<models::Ref> in, out;
    std::span<std::byte> workspace;
  };
  // A move that reads or writes another part of an argument in each run.
  struct PartMove {
    size_t instruction;
    std::byte* first;
    int64_t stride;  // bytes
    bool is_output;
  };

  void enqueue(Ledger& ledger, std::vector<bool>& is_live);
  void enqueue(size_t instruction);
  void join_lanes();

  const Plan& plan_;
  Backend& backend_;
  std::vector<BoundOperands> bound_;  // by instruction
  std::vector<PartMove> part_moves_;
  Lifetimes lifetimes_;
};

}  // namespace longshore::offload
