#include "longshore/offload/plan/lifetimes.h"

#include <numeric>

namespace longshore::offload {

Lifetimes::Lifetimes(const Plan& plan)
    : born_(by_instruction(plan, &Buffer::first)), dying_(by_instruction(plan, &Buffer::last)) {
  for (int b = 0; b < std::ssize(plan.buffers); ++b) {
    const Buffer& buffer = plan.buffers[b];
    if (!buffer.is_persistent) continue;
    live_in_.push_back(b);
    if (buffer.first < std::ssize(plan.instructions)) live_out_.push_back(b);
  }
}

// `instruction` says which of its two instructions a temporary is listed with.
Lifetimes::Lists Lifetimes::by_instruction(const Plan& plan, int Buffer::*instruction) {
  const int end = static_cast<int>(plan.instructions.size());
  // A persistent temporary that is not written anew is born at no instruction: its `first` is
  // `end`.
  auto is_listed = [&](const Buffer& buffer) {
    return buffer.is_in_arena() && buffer.*instruction < end;
  };
  Lists lists;
  lists.begins.resize(end + 1);
  for (const Buffer& buffer : plan.buffers)
    if (is_listed(buffer)) ++lists.begins[buffer.*instruction + 1];
  std::partial_sum(lists.begins.begin(), lists.begins.end(), lists.begins.begin());
  lists.buffers.resize(lists.begins.back());
  std::vector<int> next = lists.begins;
  for (int b = 0; b < std::ssize(plan.buffers); ++b)
    if (const Buffer& buffer = plan.buffers[b]; is_listed(buffer))
      lists.buffers[next[buffer.*instruction]++] = b;
  return lists;
}

std::vector<CallerUse> caller_uses(const Plan& plan) {
  std::vector<CallerUse> uses(plan.buffers.size());
  for (int i = 0; i < std::ssize(plan.instructions); ++i) {
    for (const Operand& operand : plan.instructions[i].in)
      if (CallerUse& use = uses[operand.buffer]; !use.is_output()) use.is_argument = true;
    for (const Operand& operand : plan.instructions[i].out)
      if (CallerUse& use = uses[operand.buffer]; !use.is_output()) use.first_write = i;
  }
  for (CallerUse& use : uses)
    if (!use.is_output()) use.is_argument = true;
  return uses;
}

}  // namespace longshore::offload
