// The one loop that runs plans, on any backend.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "offload/arenas.h"
#include "offload/arguments.h"
#include "offload/backend.h"
#include "offload/memory.h"
#include "offload/plan.h"

namespace longshore::offload {

// A plan whose operands are addresses.
class Executable {
 public:
  // Where each buffer of the caller's is.
  using Address = std::function<std::byte*(const Buffer&)>;

  // The arenas must hold what the plan needs; plan, memory and arenas must outlive this.
  Executable(const Plan& plan, Backend& backend, const Address& address, const Arenas& arenas);
  Executable(const Plan& plan, Backend& backend, Arguments& arguments, const Arenas& arenas);

  // Enqueues everything and, at the end, lets each lane wait for the others; does not wait itself,
  // unless something fails: then it throws when all lanes are at rest. Temporaries are entered in
  // the ledger as they come and go.
  void run(Ledger& ledger);

 private:
  struct Bound {
    std::vector<models::Ref> in, out;
    std::span<std::byte> workspace;
  };

  void enqueue(Ledger& ledger, std::vector<int>& alive);

  const Plan& plan_;
  Backend& backend_;
  std::vector<Bound> bound_;
  std::vector<std::vector<int>> born_, dead_;  // temporaries, by instruction
  std::vector<int> carried_;
};

}  // namespace longshore::offload
