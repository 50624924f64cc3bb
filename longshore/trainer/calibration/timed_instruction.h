// An instruction of a plan that is run alone, to time its kernel.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "longshore/models/ir/op.h"
#include "longshore/offload/backends/backend.h"
#include "longshore/offload/plan/plan.h"
#include "longshore/trainer/calibration/filled_memory.h"

namespace longshore::trainer {

// Has operands and a workspace of its own. Backend, plan and instruction have to outlive it.
class TimedInstruction {
 public:
  TimedInstruction(const offload::Instruction& instruction, const offload::Plan& plan,
                   offload::Backend& backend);

  // Enqueues the kernel that many times.
  void enqueue(int times) const;

  // The time of one run of the kernel, the quickest of a few timings of many runs.
  double seconds() const;

 private:
  bool is_product() const { return instruction_.op->op_class != models::OpClass::memory; }
  std::vector<models::Ref> make_operands(const std::vector<offload::Operand>& operands);
  void spread_evenly(const models::Ref& ends, int64_t rows);

  const offload::Instruction& instruction_;
  const offload::Plan& plan_;
  offload::Backend& backend_;
  std::vector<FilledMemory> memory_;
  std::vector<models::Ref> in_, out_;
  std::span<std::byte> workspace_;
};

}  // namespace longshore::trainer
