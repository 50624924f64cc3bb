#include "offload/plan.h"

#include <algorithm>
#include <map>

#include "offload/alignment.h"

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

std::vector<CallerUse> caller_uses(const Plan& plan) {
  std::vector<CallerUse> uses(plan.buffers.size());
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    for (const Operand& operand : plan.instructions[i].in)
      if (CallerUse& use = uses[operand.buffer]; use.first_write < 0) use.is_argument = true;
    for (const Operand& operand : plan.instructions[i].out)
      if (int& first = uses[operand.buffer].first_write; first < 0) first = static_cast<int>(i);
  }
  return uses;
}

std::vector<int64_t> alive_bytes(const Plan& plan, MemoryKind kind) {
  std::vector<int64_t> change(plan.instructions.size() + 1);
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.kind != kind || (buffer.owner == Owner::plan && buffer.first < 0)) continue;
    int64_t bytes = align_up(buffer.bytes);
    if (buffer.owner == Owner::caller) {
      change[0] += bytes;
      continue;
    }
    if (buffer.is_carried) change[0] += bytes;
    change[buffer.first] += bytes;
    change[buffer.last + 1] -= bytes;
  }
  std::vector<int64_t> alive(plan.instructions.size());
  int64_t now = 0;
  for (size_t i = 0; i < alive.size(); ++i) alive[i] = now += change[i];
  return alive;
}

MemoryAnalysis analyze(const Plan& plan, MemoryKind kind) {
  std::vector<std::vector<int>> starting(plan.instructions.size()), ending = starting,
                                                                    appearing = starting;
  std::vector<CallerUse> uses = caller_uses(plan);
  Ledger ledger, late;
  MemoryAnalysis analysis;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const Buffer& buffer = plan.buffers[i];
    if (buffer.kind != kind) continue;
    int64_t bytes = align_up(buffer.bytes);
    if (buffer.owner == Owner::caller) {
      const CallerUse& use = uses[i];
      ledger.take(kind, buffer.category, bytes);
      if (use.is_argument || use.first_write < 0) analysis.argument_bytes += bytes;
      if (use.first_write >= 0) analysis.output_bytes += bytes;
      if (use.is_argument && use.first_write >= 0) analysis.alias_bytes += bytes;
      if (use.is_argument || use.first_write < 0)
        late.take(kind, buffer.category, bytes);
      else
        appearing[use.first_write].push_back(static_cast<int>(i));
    } else if (buffer.first >= 0) {
      if (buffer.is_carried) {
        ledger.take(kind, buffer.category, bytes);
        late.take(kind, buffer.category, bytes);
      }
      if (buffer.first < std::ssize(starting))
        starting[buffer.first].push_back(static_cast<int>(i));
      ending[buffer.last].push_back(static_cast<int>(i));
    }
  }
  int64_t most = 0;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    auto bytes = [&](int b) { return align_up(plan.buffers[b].bytes); };
    for (int b : appearing[i]) late.take(kind, plan.buffers[b].category, bytes(b));
    for (int b : starting[i]) {
      ledger.take(kind, plan.buffers[b].category, bytes(b));
      late.take(kind, plan.buffers[b].category, bytes(b));
    }
    if (ledger.now_bytes(kind) > most) {
      most = ledger.now_bytes(kind);
      analysis.peak_instruction = static_cast<int>(i);
    }
    for (int b : ending[i]) {
      ledger.give(kind, plan.buffers[b].category, bytes(b));
      late.give(kind, plan.buffers[b].category, bytes(b));
    }
  }
  analysis.temp_bytes = plan.arena(kind);
  analysis.peak_bytes = plan.caller_bytes(kind) + analysis.temp_bytes;
  analysis.live_bytes = ledger.peak_bytes(kind);
  analysis.by_category = ledger.at_peak(kind);
  analysis.live_bytes_outputs_late = late.peak_bytes(kind);
  return analysis;
}

namespace {

bool is_alive(const Buffer& buffer, int instruction) {
  if (buffer.owner == Owner::caller) return true;
  if (buffer.first < 0) return false;
  bool begun = instruction >= buffer.first, ended = instruction > buffer.last;
  return buffer.is_carried ? begun || !ended : begun && !ended;
}

std::string without_numbers(const std::string& name) {
  std::string result;
  for (char c : name)
    if (c < '0' || c > '9')
      result += c;
    else if (result.empty() || result.back() == '.' || result.back() == '[')
      result += '*';
    else if (result.back() != '*')
      result += c;  // of a name: rope_2
  return result;
}

}  // namespace

std::vector<AliveGroup> alive_at(const Plan& plan, MemoryKind kind, int instruction) {
  std::map<std::string, AliveGroup> groups;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.kind != kind || !is_alive(buffer, instruction)) continue;
    AliveGroup& group = groups[without_numbers(buffer.name)];
    ++group.count;
    group.bytes += align_up(buffer.bytes);
  }
  std::vector<AliveGroup> result;
  for (auto& [name, group] : groups) {
    group.name = name;
    result.push_back(std::move(group));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const AliveGroup& a, const AliveGroup& b) { return a.bytes > b.bytes; });
  return result;
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
