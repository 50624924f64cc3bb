#include "longshore/offload/plan/plan.h"

#include "longshore/offload/memory/alignment.h"

namespace longshore::offload {

const char* name(Lane lane) {
  static constexpr std::array kNames{"compute", "host_to_device", "device_to_host", "host_compute",
                                     "network"};
  return kNames[static_cast<size_t>(lane)];
}

int64_t Plan::caller_bytes(MemoryKind kind) const {
  int64_t bytes = 0;
  for (const Buffer& buffer : buffers)
    if (buffer.owner == Owner::caller && buffer.kind == kind) bytes += align_up(buffer.bytes);
  return bytes;
}

std::string text(const Plan& plan) {
  auto operands = [&](const std::vector<Operand>& list) {
    std::string line;
    for (const Operand& operand : list) {
      line += (line.empty() ? "" : ", ") + plan.buffers[operand.buffer].name;
      if (operand.offset > 0) line += "+" + std::to_string(operand.offset);
    }
    return line;
  };
  std::string result = "plan " + plan.name + "\n";
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& instruction = plan.instructions[i];
    result += std::to_string(i) + " " + name(instruction.lane) + " " + instruction.scope.stage +
              "." + std::to_string(instruction.scope.layer) + " " + operands(instruction.out) +
              " = " + (instruction.op ? instruction.op->name : "move") + "(" +
              operands(instruction.in) + ")";
    for (int wait : instruction.waits) result += " after " + std::to_string(wait);
    result += "\n";
  }
  return result;
}

}  // namespace longshore::offload
