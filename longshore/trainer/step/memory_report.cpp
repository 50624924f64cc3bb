#include "longshore/trainer/step/memory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "longshore/offload/memory/alignment.h"
#include "longshore/offload/plan/lifetimes.h"

namespace longshore::trainer {

using nlohmann::ordered_json;
using offload::bytes_text;
using offload::Category;
using offload::Ledger;
using offload::MemoryAnalysis;
using offload::MemoryKind;
using offload::Plan;

namespace {

// What all plans together do with a buffer of their caller.
struct SharedUse {
  const offload::Buffer* buffer = nullptr;
  bool is_argument = false, is_output = false;
};

// The callers' buffers of one plan.
Ledger::ByCategory caller_bytes(const Plan& plan, MemoryKind kind) {
  Ledger::ByCategory bytes{};
  for (const offload::Buffer& buffer : plan.buffers)
    if (buffer.owner == offload::Owner::caller && buffer.kind == kind)
      bytes[buffer.category] += offload::align_up(buffer.bytes);
  return bytes;
}

MemoryAnalysis analyze(const std::vector<const Plan*>& plans,
                       const std::map<std::string, SharedUse>& shared, MemoryKind kind) {
  MemoryAnalysis result;
  int64_t taken = 0;  // by callers' buffers of all plans
  for (const auto& [name, use] : shared) {
    if (use.buffer->kind != kind) continue;
    int64_t bytes = offload::align_up(use.buffer->bytes);
    taken += bytes;
    if (use.is_argument) result.argument_bytes += bytes;
    if (use.is_output) result.output_bytes += bytes;
    if (use.is_argument && use.is_output) result.alias_bytes += bytes;
  }
  const std::vector<Ledger::ByCategory> others = bytes_of_others(plans, kind);
  for (size_t i = 0; i < plans.size(); ++i) {
    MemoryAnalysis one = offload::analyze(*plans[i], kind);
    for (Category c : offload::kCategories) {
      one.by_category[c] += others[i][c];
      one.live_bytes += others[i][c];
      one.live_bytes_outputs_late += others[i][c];
    }
    result.temp_bytes = std::max(result.temp_bytes, one.temp_bytes);
    if (one.live_bytes > result.live_bytes) {
      result.live_bytes = one.live_bytes;
      result.by_category = one.by_category;
    }
    result.live_bytes_outputs_late =
        std::max(result.live_bytes_outputs_late, one.live_bytes_outputs_late);
  }
  result.peak_bytes = taken + result.temp_bytes;
  return result;
}

}  // namespace

std::vector<Ledger::ByCategory> bytes_of_others(const std::vector<const Plan*>& plans,
                                                MemoryKind kind) {
  std::map<std::string, const offload::Buffer*> shared;  // by name
  for (const Plan* plan : plans)
    for (const offload::Buffer& buffer : plan->buffers)
      if (buffer.owner == offload::Owner::caller && buffer.kind == kind)
        shared.emplace(buffer.name, &buffer);
  Ledger::ByCategory all{};
  for (const auto& [name, buffer] : shared)
    all[buffer->category] += offload::align_up(buffer->bytes);
  std::vector<Ledger::ByCategory> others;
  for (const Plan* plan : plans) {
    const Ledger::ByCategory own = caller_bytes(*plan, kind);
    Ledger::ByCategory& rest = others.emplace_back(all);
    for (Category c : offload::kCategories) rest[c] -= own[c];
  }
  return others;
}

MemoryByKind analyze(const std::vector<const Plan*>& plans) {
  std::map<std::string, SharedUse> shared;
  for (const Plan* plan : plans) {
    std::vector<offload::CallerUse> uses = caller_uses(*plan);
    for (size_t b = 0; b < plan->buffers.size(); ++b) {
      if (plan->buffers[b].owner != offload::Owner::caller) continue;
      SharedUse& use = shared[plan->buffers[b].name];
      use.buffer = &plan->buffers[b];
      use.is_argument |= uses[b].is_argument;
      use.is_output |= uses[b].is_output();
    }
  }
  MemoryByKind memory;
  for (MemoryKind kind : offload::kMemoryKinds) memory[kind] = analyze(plans, shared, kind);
  return memory;
}

int64_t total_peak_bytes(const MemoryByKind& memory) {
  int64_t bytes = 0;
  for (const MemoryAnalysis& analysis : memory) bytes += analysis.peak_bytes;
  return bytes;
}

int64_t host_peak_bytes(const MemoryByKind& memory) {
  return memory[MemoryKind::pinned_host].peak_bytes + memory[MemoryKind::unpinned_host].peak_bytes;
}

std::string categories_text(const Ledger::ByCategory& by_category) {
  std::string text;
  for (offload::Category category : offload::kCategories)
    if (int64_t bytes = by_category[category]; bytes > 0)
      text += (text.empty() ? "" : ", ") + std::string(offload::name(category)) + " " +
              bytes_text(bytes);
  return text;
}

std::string text(const MemoryByKind& memory) {
  std::string result;
  for (MemoryKind kind : offload::kMemoryKinds) {
    const MemoryAnalysis& a = memory[kind];
    if (a.peak_bytes == 0) continue;
    result += fmt::format(
        "{}: peak {} = argument {} + output {} - alias {} + temp {}\n"
        "  alive at most {}: {}\n",
        offload::name(kind), bytes_text(a.peak_bytes), bytes_text(a.argument_bytes),
        bytes_text(a.output_bytes), bytes_text(a.alias_bytes), bytes_text(a.temp_bytes),
        bytes_text(a.live_bytes), categories_text(a.by_category));
    if (a.output_bytes - a.alias_bytes >= 1 << 20)
      result += fmt::format("  with outputs allocated when first written, alive at most {}\n",
                            bytes_text(a.live_bytes_outputs_late));
  }
  return result;
}

std::string peak_text(const std::vector<const Plan*>& plans, MemoryKind kind) {
  constexpr size_t kShown = 6;
  const Plan* largest = nullptr;
  MemoryAnalysis analysis;
  for (const Plan* plan : plans)
    if (MemoryAnalysis one = offload::analyze(*plan, kind); one.live_bytes > analysis.live_bytes) {
      largest = plan;
      analysis = one;
    }
  if (!largest) return "";
  const offload::Instruction& instruction = largest->instructions[analysis.peak_instruction];
  std::string result =
      fmt::format("{} is fullest in plan {}, at {} of {} {}: ", offload::name(kind), largest->name,
                  instruction.name, instruction.scope.stage, instruction.scope.layer);
  const std::vector<offload::LiveGroup> groups =
      live_groups(*largest, kind, analysis.peak_instruction);
  for (size_t i = 0; i < std::min(kShown, groups.size()); ++i) {
    const offload::LiveGroup& group = groups[i];
    result += fmt::format("{}{} {}", i > 0 ? ", " : "", group.name, bytes_text(group.bytes));
    if (group.count > 1) result += fmt::format(" ({})", group.count);
  }
  return result + (groups.size() > kShown ? ", ...\n" : "\n");
}

ordered_json json(const MemoryByKind& memory) {
  ordered_json result;
  for (MemoryKind kind : offload::kMemoryKinds) {
    const MemoryAnalysis& a = memory[kind];
    ordered_json by_category;
    for (offload::Category category : offload::kCategories)
      by_category[offload::name(category)] = a.by_category[category];
    result[offload::name(kind)] = {{"argument_bytes", a.argument_bytes},
                                   {"output_bytes", a.output_bytes},
                                   {"temp_bytes", a.temp_bytes},
                                   {"alias_bytes", a.alias_bytes},
                                   {"total_bytes", a.total_bytes()},
                                   {"peak_bytes", a.peak_bytes},
                                   {"live_bytes", a.live_bytes},
                                   {"live_bytes_outputs_late", a.live_bytes_outputs_late},
                                   {"by_category", by_category}};
  }
  return result;
}

}  // namespace longshore::trainer
