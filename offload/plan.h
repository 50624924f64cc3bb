// A plan: what the executor walks. Buffers with their places in memory and instructions on lanes;
// nothing is left to decide at run time. Moves between memory kinds are instructions like any
// other. Order within a lane is the order of the list; across lanes it is what `waits` says.
//
// Invariants: a temporary's bytes are its own from instruction `first` to instruction `last`, both
// included (where an output takes a dying input's place, the input's `last` is the instruction
// before); a carried temporary's are its own from `first` to the end, between runs, and from the
// beginning to `last`; an instruction on one lane that touches bytes another lane used before waits
// for it.
#pragma once

#include <any>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/op.h"
#include "offload/memory.h"

namespace longshore::offload {

enum class Lane : uint8_t { compute, host_to_device, device_to_host, host_compute, network };
inline constexpr std::array kLanes{Lane::compute, Lane::host_to_device, Lane::device_to_host,
                                   Lane::host_compute, Lane::network};

const char* name(Lane lane);

enum class Phase : uint8_t { forward, backward, optimizer };

// Who owns a buffer's memory.
enum class Owner : uint8_t {
  caller,  // an argument: bound by name, lives before and after the plan runs
  plan,    // a temporary, placed in the plan's arena
};

struct Buffer {
  std::string name;
  int64_t bytes = 0;
  MemoryKind kind = MemoryKind::device;
  Category category = Category::working_set;
  Owner owner = Owner::plan;
  int first = -1, last = -1;  // instructions, for temporaries
  int64_t offset = 0;         // in the arena of its kind, for temporaries
  // A temporary that one run of a plan leaves to the next: read first, later written anew, so
  // `first` > `last`. The number of instructions is `first` of what is not written anew.
  bool is_carried = false;
};

// A typed part of a buffer.
struct Operand {
  int buffer = -1;
  int64_t offset = 0;  // bytes
  models::Type type;

  explicit operator bool() const { return buffer >= 0; }
};

struct Place {
  std::string stage;
  int layer = 0;
  Phase phase = Phase::forward;

  bool operator==(const Place&) const = default;
};

struct Instruction {
  Lane lane = Lane::compute;
  const models::Op* op = nullptr;  // null: a move of in[0] to out[0]
  std::any attrs;
  std::vector<Operand> in, out;
  Operand workspace;
  std::string name;  // of the first output
  Place place;
  bool recomputes = false;  // as its node does
  std::vector<int> waits;   // instructions of other lanes that must have finished
  bool awaited = false;     // another lane waits for this one
};

struct Plan {
  std::string name;
  models::Target target = models::Target::cpu;
  std::vector<Buffer> buffers;
  std::vector<Instruction> instructions;
  std::array<int64_t, kMemoryKinds.size()> arena_bytes{};  // by memory kind

  int64_t caller_bytes(MemoryKind kind) const;  // arguments and outputs
  int64_t arena(MemoryKind kind) const { return arena_bytes[static_cast<size_t>(kind)]; }
};

// XLA's categories, of one memory kind. An argument that the plan writes before it reads it is an
// output; one that it reads and writes is both, so its bytes are alias bytes as well.
struct MemoryAnalysis {
  int64_t argument_bytes = 0;
  int64_t output_bytes = 0;
  int64_t temp_bytes = 0;
  int64_t alias_bytes = 0;
  int64_t total_bytes() const { return temp_bytes + argument_bytes + output_bytes - alias_bytes; }
  // What is really taken: arguments and outputs, and the arena from end to end.
  int64_t peak_bytes = 0;
  // The most that is alive at one time; what fragmentation and alignment add stands between the
  // two.
  int64_t live_bytes = 0;
  Ledger::ByCategory by_category{};  // of live_bytes, at that time
  int peak_instruction = 0;          // the first of that time
  // The same if pure outputs were allocated only when first written.
  int64_t live_bytes_outputs_late = 0;
};

MemoryAnalysis analyze(const Plan& plan, MemoryKind kind);

// What is alive at each instruction, arguments and outputs included.
std::vector<int64_t> alive_bytes(const Plan& plan, MemoryKind kind);

// Buffers of one name, but for numbers: those of all layers together.
struct AliveGroup {
  std::string name;  // "decoder.*.gradient"
  int count = 0;
  int64_t bytes = 0;
};

// What is alive at an instruction, the largest first.
std::vector<AliveGroup> alive_at(const Plan& plan, MemoryKind kind, int instruction);

// What a plan does with a buffer of its caller.
struct CallerUse {
  bool is_argument = false;  // read before it is written
  int first_write = -1;      // instruction
};
std::vector<CallerUse> caller_uses(const Plan& plan);  // by buffer

// Every instruction a line, for tests and debugging.
std::string text(const Plan& plan);

}  // namespace longshore::offload
