#include "offload/plan.h"

#include <algorithm>

#include "offload/arena.h"

namespace longshore::offload {

const char* name(Lane lane) {
  static constexpr std::array kNames{"compute", "host_to_device", "device_to_host"};
  return kNames[static_cast<size_t>(lane)];
}

int64_t Plan::argument_bytes(MemoryKind kind) const {
  int64_t bytes = 0;
  for (const Buffer& buffer : buffers)
    if (buffer.owner == Owner::caller && buffer.kind == kind) bytes += align_up(buffer.bytes);
  return bytes;
}

MemoryAnalysis analyze(const Plan& plan, MemoryKind kind) {
  std::vector<std::vector<int>> starting(plan.instructions.size()), ending = starting;
  Ledger ledger;
  MemoryAnalysis analysis;
  std::vector<char> written(plan.buffers.size());
  for (const Instruction& instruction : plan.instructions)
    for (const Operand& operand : instruction.out) written[operand.buffer] = true;

  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const Buffer& buffer = plan.buffers[i];
    if (buffer.kind != kind) continue;
    if (buffer.owner == Owner::caller) {
      ledger.take(kind, buffer.category, align_up(buffer.bytes));
      if (written[i]) analysis.output_bytes += align_up(buffer.bytes);
    } else if (buffer.first >= 0) {
      starting[buffer.first].push_back(static_cast<int>(i));
      ending[buffer.last].push_back(static_cast<int>(i));
    }
  }
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    for (int b : starting[i])
      ledger.take(kind, plan.buffers[b].category, align_up(plan.buffers[b].bytes));
    for (int b : ending[i])
      ledger.give(kind, plan.buffers[b].category, align_up(plan.buffers[b].bytes));
  }
  analysis.argument_bytes = plan.argument_bytes(kind);
  analysis.alias_bytes = analysis.output_bytes;
  analysis.temp_bytes = plan.arena(kind);
  analysis.peak_bytes = analysis.argument_bytes + analysis.temp_bytes;
  analysis.live_bytes = ledger.peak_bytes(kind);
  analysis.by_category = ledger.at_peak(kind);
  return analysis;
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
    result += std::to_string(i) + " " + name(instruction.lane) + " " + instruction.place.stage +
              "." + std::to_string(instruction.place.layer) + " " + operands(instruction.out) +
              " = " + (instruction.op ? instruction.op->name : "move") + "(" +
              operands(instruction.in) + ")";
    for (int wait : instruction.waits) result += " after " + std::to_string(wait);
    result += "\n";
  }
  return result;
}

}  // namespace longshore::offload
