#include "offload/executor.h"

#include "base/error.h"
#include "offload/alignment.h"

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
    : plan_(plan),
      backend_(backend),
      born_(plan.instructions.size()),
      dead_(plan.instructions.size()) {
  for (MemoryKind kind : {MemoryKind::device, MemoryKind::pinned_host})
    if (arenas.of(kind).bytes() < plan.arena(kind))
      throw InternalError(plan.name + ": the arena of " + name(kind) + " is too small");

  std::vector<std::byte*> base(plan.buffers.size());
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const Buffer& buffer = plan.buffers[i];
    if (buffer.owner == Owner::caller) {
      base[i] = address(buffer);
    } else if (buffer.first >= 0) {
      base[i] = arenas.of(buffer.kind).memory() + buffer.offset;
      if (buffer.is_carried) carried_.push_back(static_cast<int>(i));
      if (buffer.first < std::ssize(born_)) born_[buffer.first].push_back(static_cast<int>(i));
      dead_[buffer.last].push_back(static_cast<int>(i));
    }
  }
  for (const Instruction& instruction : plan.instructions) {
    auto refs = [&](const std::vector<Operand>& operands) {
      std::vector<models::Ref> refs;
      for (const Operand& operand : operands)
        refs.push_back({base[operand.buffer] + operand.offset, operand.type});
      return refs;
    };
    Bound bound{refs(instruction.in), refs(instruction.out), {}};
    if (instruction.workspace) {
      int buffer = instruction.workspace.buffer;
      bound.workspace = {base[buffer], static_cast<size_t>(plan.buffers[buffer].bytes)};
    }
    bound_.push_back(std::move(bound));
  }
}

void Executable::run(Ledger& ledger) {
  std::vector<int> alive(plan_.buffers.size());
  try {
    enqueue(ledger, alive);
  } catch (...) {
    // Nobody may take memory away while lanes still work on it.
    try {
      backend_.synchronize();
    } catch (...) {
    }
    for (size_t b = 0; b < alive.size(); ++b)
      for (const Buffer& buffer = plan_.buffers[b]; alive[b] > 0; --alive[b])
        ledger.give(buffer.kind, buffer.category, align_up(buffer.bytes));
    throw;
  }
}

// `alive`: how often each buffer was taken and not given yet.
void Executable::enqueue(Ledger& ledger, std::vector<int>& alive) {
  auto take = [&](int b) {
    const Buffer& buffer = plan_.buffers[b];
    ledger.take(buffer.kind, buffer.category, align_up(buffer.bytes));
    ++alive[b];
  };
  auto give = [&](int b) {
    const Buffer& buffer = plan_.buffers[b];
    ledger.give(buffer.kind, buffer.category, align_up(buffer.bytes));
    --alive[b];
  };
  for (int b : carried_) take(b);
  for (size_t i = 0; i < plan_.instructions.size(); ++i) {
    const Instruction& instruction = plan_.instructions[i];
    const Bound& bound = bound_[i];
    for (int b : born_[i]) take(b);
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
    if (instruction.awaited) backend_.record(instruction.lane, static_cast<int>(i));
    for (int b : dead_[i]) give(b);
  }
  // Between runs the arena's memory counts, not what lies in it.
  for (int b : carried_)
    if (plan_.buffers[b].first < std::ssize(plan_.instructions)) give(b);
  // The next plan takes over the arena and the arguments: no lane may start on it early.
  int joined = static_cast<int>(plan_.instructions.size());
  for (Lane lane : kLanes) backend_.record(lane, joined + static_cast<int>(lane));
  for (Lane lane : kLanes)
    for (Lane other : kLanes)
      if (lane != other) backend_.wait(lane, joined + static_cast<int>(other));
}

}  // namespace longshore::offload
