#include "longshore/offload/execution/executor.h"

#include "longshore/base/error.h"
#include "longshore/offload/memory/alignment.h"

namespace longshore::offload {

Executable::Executable(const Plan& plan, Backend& backend, Arguments& arguments,
                       const Arenas& arenas)
    : Executable(
          plan, backend,
          [&](const Buffer& buffer) {
            return arguments.at(buffer.name, buffer.bytes, buffer.kind, buffer.category);
          },
          arenas) {}

Executable::Executable(const Plan& plan, Backend& backend, const Address& address,
                       const Arenas& arenas)
    : plan_(plan), backend_(backend), lifetimes_(plan) {
  for (MemoryKind kind : {MemoryKind::device, MemoryKind::pinned_host})
    if (arenas.of(kind).bytes() < plan.arena_bytes[kind])
      throw InternalError(plan.name + ": the arena of " + name(kind) + " is too small");

  std::vector<std::byte*> base;
  for (const Buffer& buffer : plan.buffers)
    base.push_back(buffer.owner == Owner::caller ? address(buffer)
                   : buffer.is_in_arena()        ? arenas.of(buffer.kind).memory() + buffer.offset
                                                 : nullptr);
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& instruction = plan.instructions[i];
    auto refs = [&](const std::vector<Operand>& operands) {
      std::vector<models::Ref> refs;
      for (const Operand& operand : operands)
        refs.push_back({base[operand.buffer] + operand.offset, operand.type});
      return refs;
    };
    BoundOperands bound{refs(instruction.in), refs(instruction.out), {}};
    if (instruction.workspace) {
      int buffer = instruction.workspace.buffer;
      bound.workspace = {base[buffer], static_cast<size_t>(plan.buffers[buffer].bytes)};
    }
    auto add_part_moves = [&](const std::vector<Operand>& operands, bool is_output) {
      for (const Operand& operand : operands) {
        const int64_t stride = plan.buffers[operand.buffer].run_stride;
        if (stride == 0) continue;
        // What a kernel refers to must stay until the lanes are idle, and so could not be another
        // part's in the next run.
        if (instruction.op)
          throw InternalError(plan.name + ": " + instruction.op->name + " reads or writes " +
                              plan.buffers[operand.buffer].name + ", expected a move");
        part_moves_.push_back({i, base[operand.buffer] + operand.offset, stride, is_output});
      }
    };
    add_part_moves(instruction.in, false);
    add_part_moves(instruction.out, true);
    bound_.push_back(std::move(bound));
  }
}

void Executable::run(Ledger& ledger, int64_t number) {
  for (const PartMove& move : part_moves_) {
    BoundOperands& bound = bound_[move.instruction];
    (move.is_output ? bound.out : bound.in)[0].data = move.first + number * move.stride;
  }
  std::vector<bool> is_live(plan_.buffers.size());  // as entered in the ledger
  try {
    enqueue(ledger, is_live);
  } catch (...) {
    // The caller may free memory once this returns, so no lane may work on it any longer.
    try {
      backend_.synchronize();
    } catch (...) {
    }
    for (size_t b = 0; b < is_live.size(); ++b)
      if (const Buffer& buffer = plan_.buffers[b]; is_live[b])
        ledger.give(buffer.kind, buffer.category, align_up(buffer.bytes));
    throw;
  }
}

void Executable::enqueue(Ledger& ledger, std::vector<bool>& is_live) {
  auto take = [&](std::span<const int> buffers) {
    for (int b : buffers) {
      const Buffer& buffer = plan_.buffers[b];
      ledger.take(buffer.kind, buffer.category, align_up(buffer.bytes));
      is_live[b] = true;
    }
  };
  auto give = [&](std::span<const int> buffers) {
    for (int b : buffers) {
      const Buffer& buffer = plan_.buffers[b];
      ledger.give(buffer.kind, buffer.category, align_up(buffer.bytes));
      is_live[b] = false;
    }
  };
  take(lifetimes_.live_in());
  for (size_t i = 0; i < plan_.instructions.size(); ++i) {
    take(lifetimes_.born_at(i));
    enqueue(i);
    give(lifetimes_.dying_at(i));
  }
  // Between runs the ledger counts the memory of the arena, and not what lies in it.
  give(lifetimes_.live_out());
  join_lanes();
}

void Executable::enqueue(size_t index) {
  const Instruction& instruction = plan_.instructions[index];
  const BoundOperands& bound = bound_[index];
  for (int event : instruction.waits) backend_.wait(instruction.lane, event);
  if (instruction.op)
    backend_.run(
        instruction.lane, *instruction.op,
        {.target = instruction.lane == Lane::host_compute ? models::host_target(plan_.target)
                                                          : plan_.target,
         .attrs = instruction.attrs,
         .in = bound.in,
         .out = bound.out,
         .workspace = bound.workspace});
  else
    backend_.copy(instruction.lane, bound.in[0], bound.out[0]);
  if (instruction.awaited) backend_.record(instruction.lane, static_cast<int>(index));
}

// The next plan uses the same arena and arguments, so no lane may start on it before all lanes have
// finished this one.
void Executable::join_lanes() {
  const int first_event = static_cast<int>(plan_.instructions.size());
  for (Lane lane : kLanes) backend_.record(lane, first_event + static_cast<int>(lane));
  for (Lane lane : kLanes)
    for (Lane other : kLanes)
      if (lane != other) backend_.wait(lane, first_event + static_cast<int>(other));
}

}  // namespace longshore::offload
