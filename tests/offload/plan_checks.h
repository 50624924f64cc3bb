// Plans checked from their printed meaning alone, by brute force and without PlanBuilder's ideas:
// every byte is followed through the list of instructions, and every pair of instructions that
// touch a byte in common must be ordered.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "longshore/offload/plan/plan.h"

namespace longshore::offload {

// In the order of the list: a read finds what was last written there through the same buffer;
// operands of one instruction overlap only where the op allows it. Arguments of categories
// parameters and optimizer, and those in pinned host memory, hold something before the plan runs;
// with Gradients::begun so do losses and gradients.
enum class Gradients { none_yet, begun };
std::vector<std::string> data_flow_faults(const Plan& plan, Gradients gradients);

// Of any two instructions that touch the same byte, one of them writing, the earlier is known to be
// done when the later starts, by the order of their lanes and by waits.
std::vector<std::string> order_faults(const Plan& plan);

// Offsets are aligned and within the arena, and buffers' lifetimes cover their uses.
std::vector<std::string> placement_faults(const Plan& plan);

// The most bytes that are live at one time, arguments included: from uses, and from how long a
// source is held for a copy.
int64_t live_bytes(const Plan& plan, MemoryKind kind);

}  // namespace longshore::offload
