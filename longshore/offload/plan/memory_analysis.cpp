#include "longshore/offload/plan/memory_analysis.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "longshore/offload/memory/alignment.h"
#include "longshore/offload/plan/lifetimes.h"

namespace longshore::offload {
namespace {

// Walks the plan and calls `begin` with each buffer of the kind that becomes live, `at` with each
// instruction, between the births and the deaths that belong to it, and `end` with each buffer that
// dies.
template <class Begin, class At, class End>
void walk_lifetimes(const Plan& plan, MemoryKind kind, Begin begin, At at, End end) {
  const Lifetimes lifetimes(plan);
  auto each = [&](std::span<const int> buffers, auto& f) {
    for (int b : buffers)
      if (plan.buffers[b].kind == kind) f(plan.buffers[b]);
  };
  for (const Buffer& buffer : plan.buffers)
    if (buffer.owner == Owner::caller && buffer.kind == kind) begin(buffer);
  each(lifetimes.live_in(), begin);
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    each(lifetimes.born_at(i), begin);
    at(static_cast<int>(i));
    each(lifetimes.dying_at(i), end);
  }
}

std::string without_numbers(const std::string& name) {
  std::string result;
  for (char c : name)
    if (c < '0' || c > '9')
      result += c;
    else if (result.empty() || result.back() == '.' || result.back() == '[')
      result += '*';
    else if (result.back() != '*')
      result += c;  // part of a word, as in rope_2
  return result;
}

}  // namespace

MemoryAnalysis analyze(const Plan& plan, MemoryKind kind) {
  MemoryAnalysis analysis;
  int64_t unwritten_bytes = 0;  // of outputs that are not arguments
  std::vector<int64_t> newly_written_bytes(plan.instructions.size());
  const std::vector<CallerUse> uses = caller_uses(plan);
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    if (buffer.owner != Owner::caller || buffer.kind != kind) continue;
    const CallerUse& use = uses[b];
    const int64_t bytes = align_up(buffer.bytes);
    if (use.is_argument) analysis.argument_bytes += bytes;
    if (use.is_output()) analysis.output_bytes += bytes;
    if (use.is_alias()) analysis.alias_bytes += bytes;
    if (use.is_argument) continue;
    unwritten_bytes += bytes;
    newly_written_bytes[use.first_write] += bytes;
  }

  Ledger ledger;
  int64_t most = 0, most_outputs_late = analysis.argument_bytes;
  walk_lifetimes(
      plan, kind,
      [&](const Buffer& buffer) { ledger.take(kind, buffer.category, align_up(buffer.bytes)); },
      [&](int instruction) {
        const int64_t now = ledger.now_bytes(kind);
        unwritten_bytes -= newly_written_bytes[instruction];
        most_outputs_late = std::max(most_outputs_late, now - unwritten_bytes);
        if (now <= most) return;
        most = now;
        analysis.peak_instruction = instruction;
      },
      [&](const Buffer& buffer) { ledger.give(kind, buffer.category, align_up(buffer.bytes)); });
  analysis.temp_bytes = plan.arena_bytes[kind];
  analysis.peak_bytes = plan.caller_bytes(kind) + analysis.temp_bytes;
  analysis.live_bytes = ledger.peak_bytes(kind);
  analysis.by_category = ledger.at_peak(kind);
  analysis.live_bytes_outputs_late = most_outputs_late;
  return analysis;
}

std::vector<int64_t> live_bytes_by_instruction(const Plan& plan, MemoryKind kind) {
  std::vector<int64_t> live_bytes;
  live_bytes.reserve(plan.instructions.size());
  int64_t now = 0;
  walk_lifetimes(
      plan, kind, [&](const Buffer& buffer) { now += align_up(buffer.bytes); },
      [&](int) { live_bytes.push_back(now); },
      [&](const Buffer& buffer) { now -= align_up(buffer.bytes); });
  return live_bytes;
}

std::vector<Ledger::ByCategory> live_categories_by_instruction(const Plan& plan, MemoryKind kind) {
  std::vector<Ledger::ByCategory> live;
  live.reserve(plan.instructions.size());
  Ledger ledger;
  walk_lifetimes(
      plan, kind,
      [&](const Buffer& buffer) { ledger.take(kind, buffer.category, align_up(buffer.bytes)); },
      [&](int) { live.push_back(ledger.now(kind)); },
      [&](const Buffer& buffer) { ledger.give(kind, buffer.category, align_up(buffer.bytes)); });
  return live;
}

std::vector<int> live_buffers(const Plan& plan, MemoryKind kind, int instruction) {
  std::vector<int> live, live_then;
  auto index = [&](const Buffer& buffer) {
    return static_cast<int>(&buffer - plan.buffers.data());
  };
  walk_lifetimes(
      plan, kind, [&](const Buffer& buffer) { live.push_back(index(buffer)); },
      [&](int now) {
        if (now == instruction) live_then = live;
      },
      [&](const Buffer& buffer) { std::erase(live, index(buffer)); });
  return live_then;
}

std::vector<BufferLabel> buffer_labels(const Plan& plan) {
  std::vector<BufferLabel> labels(plan.buffers.size());
  std::set<std::string> stages;
  for (const Instruction& instruction : plan.instructions) {
    const std::string& stage = instruction.scope.stage;
    stages.insert(stage);
    auto use = [&](const Operand& operand) {
      if (operand && labels[operand.buffer].stage.empty()) labels[operand.buffer].stage = stage;
    };
    std::ranges::for_each(instruction.in, use);
    std::ranges::for_each(instruction.out, use);
    use(instruction.workspace);
  }
  for (size_t b = 0; b < labels.size(); ++b) {
    BufferLabel& label = labels[b];
    label.name = without_numbers(plan.buffers[b].name);
    const std::string owner = label.name.substr(0, label.name.find('.'));
    if (owner.size() == label.name.size() || !stages.contains(owner)) continue;
    label.stage = owner;
    label.name.erase(0, owner.size() + 1);
    if (label.name.starts_with("*.")) label.name.erase(0, 2);
  }
  return labels;
}

std::vector<LiveGroup> live_groups(const Plan& plan, MemoryKind kind, int instruction) {
  std::map<std::string, LiveGroup> groups;
  for (const int b : live_buffers(plan, kind, instruction)) {
    LiveGroup& group = groups[without_numbers(plan.buffers[b].name)];
    ++group.count;
    group.bytes += align_up(plan.buffers[b].bytes);
  }
  std::vector<LiveGroup> result;
  for (auto& [name, group] : groups) {
    group.name = name;
    result.push_back(std::move(group));
  }
  std::ranges::stable_sort(result, std::ranges::greater(), &LiveGroup::bytes);
  return result;
}

}  // namespace longshore::offload
