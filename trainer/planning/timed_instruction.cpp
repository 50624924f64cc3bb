#include "trainer/planning/timed_instruction.h"

#include <algorithm>

#include "base/timing.h"

namespace longshore::trainer {
namespace {

using offload::Instruction;
using offload::Lane;
using offload::MemoryKind;

MemoryKind operands_kind(const Instruction& instruction) {
  return instruction.lane == Lane::host_compute ? MemoryKind::pinned_host : MemoryKind::device;
}

}  // namespace

TimedInstruction::TimedInstruction(const Instruction& instruction, const offload::Plan& plan,
                                   offload::Backend& backend)
    : instruction_(instruction), plan_(plan), backend_(backend) {
  in_ = make_operands(instruction.in);
  out_ = make_operands(instruction.out);
  if (!instruction.workspace) return;
  int64_t bytes = plan.buffers[instruction.workspace.buffer].bytes;
  memory_.emplace_back(backend, operands_kind(instruction), models::Dtype::uint8, bytes,
                       Contents::small);
  workspace_ = {memory_.back().get(), static_cast<size_t>(bytes)};
}

std::vector<models::Ref> TimedInstruction::make_operands(
    const std::vector<offload::Operand>& operands) {
  std::vector<models::Ref> refs;
  for (const offload::Operand& operand : operands) {
    memory_.emplace_back(backend_, operands_kind(instruction_), operand.type.dtype,
                         operand.type.bytes(), is_product() ? Contents::ordinary : Contents::small);
    refs.push_back({memory_.back().get(), operand.type});
  }
  return refs;
}

void TimedInstruction::enqueue(int times) const {
  for (int i = 0; i < times; ++i)
    backend_.run(
        instruction_.lane, *instruction_.op,
        {.target = instruction_.lane == Lane::host_compute ? models::host_target(plan_.target)
                                                           : plan_.target,
         .attrs = instruction_.attrs,
         .in = in_,
         .out = out_,
         .workspace = workspace_});
}

double TimedInstruction::seconds() const {
  // The least seconds that one timing takes. A GPU that was idle runs products faster for a moment
  // than its power limit lets it sustain.
  const double least = is_product() && models::is_cuda(plan_.target) ? 50e-3 : 3e-3;
  constexpr int kTimings = 2;
  auto quickest = [&](int timings, int times) {
    return quickest_seconds(timings, [&] {
      enqueue(times);
      backend_.synchronize();
    });
  };
  quickest(1, 1);  // libraries load kernels and allocate memory at the first call
  double one = quickest(1, 1);
  int times = std::clamp(static_cast<int>(least / std::max(one, 1e-7)), 1, 1000);
  return quickest(kTimings, times) / times;
}

}  // namespace longshore::trainer
