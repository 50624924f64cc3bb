// A MemoryAnalysis says how much memory a plan takes, in XLA's categories, and what is live in it
// at each instruction. All sizes are rounded up to the arena's alignment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "longshore/offload/memory/memory.h"
#include "longshore/offload/plan/plan.h"

namespace longshore::offload {

// The memory of one kind, in the categories of XLA's CompiledMemoryStats. A buffer of the caller
// that the plan writes before it reads it is an output, any other is an argument. One that is read
// and then written is both, so its bytes are alias bytes as well.
struct MemoryAnalysis {
  int64_t argument_bytes = 0;
  int64_t output_bytes = 0;
  int64_t temp_bytes = 0;
  int64_t alias_bytes = 0;
  int64_t total_bytes() const { return temp_bytes + argument_bytes + output_bytes - alias_bytes; }
  // What is allocated: arguments, outputs and the whole arena.
  int64_t peak_bytes = 0;
  // The most that is live at one instruction, arguments and outputs included. It is less than
  // peak_bytes by what fragmentation of the arena adds.
  int64_t live_bytes = 0;
  Ledger::ByCategory by_category{};  // adds up to live_bytes
  int peak_instruction = 0;          // the first at which live_bytes are live
  // What live_bytes would be if outputs that are not arguments were allocated when first written.
  int64_t live_bytes_outputs_late = 0;
};

MemoryAnalysis analyze(const Plan& plan, MemoryKind kind);

// The bytes that are live at each instruction, arguments and outputs included.
std::vector<int64_t> live_bytes_by_instruction(const Plan& plan, MemoryKind kind);

// The same by category.
std::vector<Ledger::ByCategory> live_categories_by_instruction(const Plan& plan, MemoryKind kind);

// The buffers of the kind that are live at an instruction, the caller's first.
std::vector<int> live_buffers(const Plan& plan, MemoryKind kind, int instruction);

// What people know a buffer by.
struct BufferLabel {
  std::string stage;  // of the model that it belongs to, or of the first that uses it
  std::string name;   // "gradient", "mlpwi_0": within the stage, the same for all its layers
};
std::vector<BufferLabel> buffer_labels(const Plan& plan);  // by buffer

// Live buffers whose names differ in numbers only: those of all layers together.
struct LiveGroup {
  std::string name;  // "decoder.*.gradient"
  int count = 0;
  int64_t bytes = 0;
};

// All that is live at an instruction, the largest group first.
std::vector<LiveGroup> live_groups(const Plan& plan, MemoryKind kind, int instruction);

}  // namespace longshore::offload
