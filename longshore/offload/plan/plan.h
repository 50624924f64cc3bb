// A plan is what the executor runs: buffers with their places in memory, and instructions on lanes.
// Nothing is left to decide at run time. Moves between memory kinds are instructions like any
// other. Instructions of one lane run in the order of the list; the order between instructions of
// different lanes is what `waits` says.
//
// Invariants:
// - A temporary's bytes are its own from instruction `first` to instruction `last`, both included.
//   Where an output takes over the place of an input, the input's `last` is the instruction before.
// - A persistent temporary's bytes are its own from the beginning of a run to `last`, and then from
//   `first` to the end of the run and on to the next run.
// - An instruction that touches bytes which another lane used earlier waits for that use.
#pragma once

#include <any>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "longshore/models/ir/op.h"
#include "longshore/offload/memory/memory.h"

namespace longshore::offload {

enum class Lane : uint8_t { compute, host_to_device, device_to_host, host_compute, network };
inline constexpr std::array kLanes{Lane::compute, Lane::host_to_device, Lane::device_to_host,
                                   Lane::host_compute, Lane::network};
template <class T>
using PerLane = EnumArray<Lane, T, kLanes.size()>;

const char* name(Lane lane);

enum class Phase : uint8_t { forward, backward, optimizer };

// Who owns a buffer's memory.
enum class Owner : uint8_t {
  caller,  // an argument: bound by name, there before and after the plan runs
  plan,    // a temporary, placed in the plan's arena
};

struct Buffer {
  std::string name;
  int64_t bytes = 0;
  MemoryKind kind = MemoryKind::device;
  Category category = Category::temporaries;
  Owner owner = Owner::plan;
  // The following are meaningful for temporaries only.
  int first = -1, last = -1;  // the lifetime, in instructions; -1: no instruction uses it
  int64_t offset = 0;         // bytes, in the arena of its kind
  // Whether one run of a plan leaves it to the next. A run first reads what the previous run left,
  // up to `last`, and later writes it anew, from `first` on, so `first` > `last`. If a plan only
  // reads it, `first` is the number of the plan's instructions.
  bool is_persistent = false;

  // Of an argument that holds a part for each of several runs in a row, how many bytes further the
  // part of the next run lies. Only moves read it; their operands are those of the first run.
  int64_t run_stride = 0;

  // Whether it has bytes in the plan's arena: it is a temporary, and some instruction uses it.
  bool is_in_arena() const { return owner == Owner::plan && first >= 0; }
};

// A typed part of a buffer.
struct Operand {
  int buffer = -1;
  int64_t offset = 0;  // bytes
  models::Type type;

  explicit operator bool() const { return buffer >= 0; }
};

// Whose work an instruction is: a layer's, in one of a step's phases.
struct Scope {
  std::string stage;
  int layer = 0;
  Phase phase = Phase::forward;

  bool operator==(const Scope&) const = default;
};

struct Instruction {
  Lane lane = Lane::compute;
  const models::Op* op = nullptr;  // nullptr: a move of in[0] to out[0]
  std::any attrs;
  std::vector<Operand> in, out;
  Operand workspace;
  std::string name;  // the first output's
  Scope scope;
  bool recomputes = false;  // whether it computes again what the forward pass computed
  std::vector<int> waits;   // the instructions of other lanes that must finish before it starts
  bool awaited = false;     // whether an instruction of another lane waits for this one
};

struct Plan {
  std::string name;
  models::Target target = models::Target::cpu;
  std::vector<Buffer> buffers;
  std::vector<Instruction> instructions;
  PerMemoryKind<int64_t> arena_bytes{};

  // The bytes of all arguments and outputs, each rounded up to the arena's alignment.
  int64_t caller_bytes(MemoryKind kind) const;
};

// A plan that runs `times` times in a row.
struct PlanRuns {
  const Plan* plan = nullptr;
  int64_t times = 1;
};

// One line for each instruction, for tests and debugging.
std::string text(const Plan& plan);

}  // namespace longshore::offload
