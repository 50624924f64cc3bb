// A Backend provides memory of each kind, runs kernels and copies on lanes, and keeps the order
// between lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "longshore/models/ir/op.h"
#include "longshore/offload/memory/memory.h"
#include "longshore/offload/plan/plan.h"

namespace longshore::offload {

// When a lane was busy with one call, in seconds since recording began.
struct Span {
  double begin = 0, end = 0;
};
using LaneSpans = PerLane<std::vector<Span>>;  // of its calls, in order

class Backend {
 public:
  virtual ~Backend() = default;

  virtual models::Target target() const = 0;

  // Throws OutOfMemoryError where the memory cannot be had. The contents are undefined.
  virtual std::byte* allocate(MemoryKind kind, int64_t bytes) = 0;
  virtual void free(MemoryKind kind, std::byte* memory) = 0;
  // What could still be allocated, as the system tells.
  virtual int64_t available_bytes(MemoryKind kind) = 0;
  // What is taken, as the system tells: of a GPU's memory by all programs, with what its driver and
  // libraries take; of the host's by this process.
  virtual int64_t used_device_bytes() = 0;

  // Lanes work on their own, each in order. `event` numbers an instruction of the running plan.
  // After a failure in one lane nothing more is begun in any until synchronize() has thrown it;
  // what a GPU was given before goes on to its end. A kernel runs on Lane::compute or, with the
  // host's kernels, on Lane::host_compute; a collective on Lane::network. What `call` refers to
  // must stay until synchronize().
  virtual void run(Lane lane, const models::Op& op, const models::KernelCall& call) = 0;
  virtual void copy(Lane lane, const models::Ref& from, const models::Ref& to) = 0;
  virtual void record(Lane lane, int event) = 0;
  virtual void wait(Lane lane, int event) = 0;  // until the event's latest record
  virtual void synchronize() = 0;               // all lanes; throws what failed in one of them

  // Between the two, run() and copy() are timed; stop_recording() synchronizes.
  virtual void start_recording() {}
  virtual LaneSpans stop_recording() { return {}; }

  // From and to ordinary memory, now; for starting values and for tests.
  virtual void write(MemoryKind kind, std::byte* to, const void* from, int64_t bytes) = 0;
  virtual void read(MemoryKind kind, void* to, const std::byte* from, int64_t bytes) = 0;
  virtual void write_zeros(MemoryKind kind, std::byte* to, int64_t bytes) = 0;
};

}  // namespace longshore::offload
