// What a backend does: memory of each kind, kernels and copies on lanes, order between lanes.
// Virtual calls live here and nowhere else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "models/op.h"
#include "offload/memory.h"
#include "offload/plan.h"

namespace longshore::offload {

class Backend {
 public:
  virtual ~Backend() = default;

  virtual models::Target target() const = 0;

  // Throws PlanError when the memory cannot be had. The contents are undefined.
  virtual std::byte* allocate(MemoryKind kind, int64_t bytes) = 0;
  virtual void free(MemoryKind kind, std::byte* memory) = 0;
  // What could still be allocated, as the system tells.
  virtual int64_t available_bytes(MemoryKind kind) = 0;

  // Lanes work on their own, each in order. `event` numbers an instruction of the running plan.
  virtual void run(const models::Op& op, const models::KernelCall& call) = 0;  // on Lane::compute
  virtual void copy(Lane lane, const models::Ref& from, const models::Ref& to) = 0;
  virtual void record(Lane lane, int event) = 0;
  virtual void wait(Lane lane, int event) = 0;  // until the event's latest record
  virtual void synchronize() = 0;               // all lanes; throws what failed in one of them

  // From and to ordinary memory, now; for starting values and for tests.
  virtual void write(MemoryKind kind, std::byte* to, const void* from, int64_t bytes) = 0;
  virtual void read(MemoryKind kind, void* to, const std::byte* from, int64_t bytes) = 0;
};

}  // namespace longshore::offload
