#include "longshore/trainer/calibration/timed_instruction.h"

#include <algorithm>

#include "longshore/base/timing.h"

namespace longshore::trainer {
namespace {

using offload::Instruction;
using offload::Lane;
using offload::MemoryKind;

// A GPU that was idle multiplies faster for a moment than its power limit lets it sustain: an H200
// by a fifth. Products of a large model follow each other without a pause, so that long are those
// of its size run before they are timed.
constexpr double kLongKernel = 50e-6, kHeating = 0.5;  // seconds

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
    if (instruction_.op->op_class == models::OpClass::grouped &&
        operand.type.dtype == models::Dtype::int32)
      spread_evenly(refs.back(), refs[0].type.shape[0]);
  }
  return refs;
}

// Where each expert's rows end: all have as many.
void TimedInstruction::spread_evenly(const models::Ref& ends, int64_t rows) {
  const int64_t experts = ends.type.shape.count();
  std::vector<int32_t> numbers;
  for (int64_t e = 1; e <= experts; ++e)
    numbers.push_back(static_cast<int32_t>(rows * e / experts));
  backend_.write(operands_kind(instruction_), static_cast<std::byte*>(ends.data), numbers.data(),
                 ends.type.bytes());
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
  constexpr int kTimings = 2;
  auto quickest = [&](int timings, int times) {
    return quickest_seconds(timings, [&] {
      enqueue(times);
      backend_.synchronize();
    });
  };
  quickest(1, 1);  // libraries load kernels and allocate memory at the first call
  const double one = std::max(quickest(1, 1), 1e-7);
  auto times_in = [&](double seconds) { return std::max(1, static_cast<int>(seconds / one)); };
  const bool heats = is_product() && models::is_cuda(plan_.target) && one > kLongKernel;
  if (heats) quickest(1, times_in(kHeating));
  const int times = times_in(heats ? 50e-3 : 3e-3);
  return quickest(kTimings, times) / times;
}

}  // namespace longshore::trainer
