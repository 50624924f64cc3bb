#include "longshore/offload/plan/place_buffers.h"

#include <algorithm>
#include <numeric>

#include "longshore/base/error.h"
#include "longshore/offload/plan/memory_planning.h"

namespace longshore::offload {
namespace {

template <class F>
void each_operand(const Instruction& instruction, F f) {
  for (const Operand& operand : instruction.in) f(operand);
  for (const Operand& operand : instruction.out) f(operand);
  if (instruction.workspace) f(instruction.workspace);
}

void find_lifetimes(Plan& plan, std::span<const KeepAlive> keep_alives) {
  int end = static_cast<int>(plan.instructions.size());
  for (Buffer& buffer : plan.buffers)
    if (buffer.is_persistent) buffer.first = end;
  for (int i = 0; i < end; ++i) {
    const Instruction& instruction = plan.instructions[i];
    for (const Operand& operand : instruction.out)
      if (Buffer& buffer = plan.buffers[operand.buffer]; buffer.is_persistent)
        buffer.first = std::min(buffer.first, i);
    each_operand(instruction, [&](const Operand& operand) {
      Buffer& buffer = plan.buffers[operand.buffer];
      if (buffer.first < 0) buffer.first = i;
      if (!buffer.is_persistent || i < buffer.first) buffer.last = i;
    });
  }
  for (const KeepAlive& hold : keep_alives) {
    Buffer& buffer = plan.buffers[hold.buffer];
    int until = buffer.is_persistent ? std::min(hold.until, buffer.first - 1) : hold.until;
    buffer.last = std::max(buffer.last, until);
  }
  for (const Buffer& buffer : plan.buffers)
    if (buffer.is_persistent && buffer.last < 0)
      throw InternalError(plan.name + ": nothing reads " + buffer.name + " before it is written");
}

// An output may take the place of an input of the same bytes that dies at this instruction. Only
// temporaries do, and only those that no other operand of the instruction shares. Returns, for each
// buffer, the one whose place it shares: itself for most.
std::vector<int> reuse_dying_inputs(Plan& plan) {
  std::vector<int> shares_bytes_with(plan.buffers.size());
  std::iota(shares_bytes_with.begin(), shares_bytes_with.end(), 0);

  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& instruction = plan.instructions[i];
    if (!instruction.op) continue;
    auto uses = [&](int buffer) {
      int count = 0;
      each_operand(instruction, [&](const Operand& o) { count += o.buffer == buffer; });
      return count;
    };
    int inputs = static_cast<int>(instruction.in.size());
    for (models::Reuse reuse : instruction.op->in_place(instruction.attrs, inputs)) {
      const Operand &to = instruction.out[reuse.out], &from = instruction.in[reuse.in];
      const int out = to.buffer, in = from.buffer;
      Buffer &made = plan.buffers[out], &dying = plan.buffers[in];
      int now = static_cast<int>(i);
      if (made.owner != Owner::plan || dying.owner != Owner::plan || made.is_persistent ||
          dying.is_persistent || made.kind != dying.kind || made.bytes != dying.bytes ||
          to.offset != from.offset || to.type.bytes() != from.type.bytes() || made.first != now ||
          dying.last != now || shares_bytes_with[out] != out || uses(out) != 1 || uses(in) != 1)
        continue;
      shares_bytes_with[out] = shares_bytes_with[in];
      dying.last = now - 1;  // its bytes are the output's from here on
    }
  }
  return shares_bytes_with;
}

void place_temporaries(Plan& plan, std::span<const int> shares_bytes_with,
                       const std::map<int, int64_t>& fixed_offsets) {
  for (MemoryKind kind : kMemoryKinds) {
    std::vector<int> lifetime_of(plan.buffers.size(), -1);
    std::vector<BufferLifetime> lifetimes;
    for (size_t i = 0; i < plan.buffers.size(); ++i) {
      const Buffer& buffer = plan.buffers[i];
      if (!buffer.is_in_arena() || buffer.kind != kind) continue;
      int& lifetime = lifetime_of[shares_bytes_with[i]];
      if (lifetime < 0) {
        lifetime = static_cast<int>(lifetimes.size());
        lifetimes.push_back({.bytes = buffer.bytes, .first = buffer.first, .last = buffer.last});
        if (auto fixed = fixed_offsets.find(static_cast<int>(i)); fixed != fixed_offsets.end()) {
          lifetimes[lifetime].offset = fixed->second;
          lifetimes[lifetime].is_fixed = true;
        }
      }
      if (buffer.is_persistent) continue;
      lifetimes[lifetime].first = std::min(lifetimes[lifetime].first, buffer.first);
      lifetimes[lifetime].last = std::max(lifetimes[lifetime].last, buffer.last);
    }
    plan.arena_bytes[kind] = assign_offsets(lifetimes);
    for (size_t i = 0; i < plan.buffers.size(); ++i)
      if (int lifetime = lifetime_of[shares_bytes_with[i]]; lifetime >= 0)
        plan.buffers[i].offset = lifetimes[lifetime].offset;
  }
}

}  // namespace

void place_buffers(Plan& plan, std::span<const KeepAlive> keep_alives,
                   const std::map<int, int64_t>& fixed_offsets) {
  find_lifetimes(plan, keep_alives);
  place_temporaries(plan, reuse_dying_inputs(plan), fixed_offsets);
}

}  // namespace longshore::offload
