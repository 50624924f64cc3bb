#include "longshore/trainer/step/live_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "longshore/offload/memory/alignment.h"
#include "longshore/offload/plan/lifetimes.h"

namespace longshore::trainer {
namespace {

using offload::Buffer;
using offload::bytes_text;
using offload::Category;
using offload::Ledger;
using offload::MemoryKind;
using offload::Plan;

constexpr const char* kBesidePlans = "beside the plans";

// The plan and the instruction at which most is live, with what the other plans' arguments take.
struct Peak {
  const Plan* plan = nullptr;
  int instruction = 0;
};

Peak find_peak(const std::vector<const Plan*>& plans, MemoryKind kind) {
  const std::vector<Ledger::ByCategory> others = bytes_of_others(plans, kind);
  Peak peak;
  int64_t most = 0;
  for (size_t i = 0; i < plans.size(); ++i) {
    const offload::MemoryAnalysis one = offload::analyze(*plans[i], kind);
    int64_t bytes = one.live_bytes;
    for (const int64_t of_others : others[i]) bytes += of_others;
    if (bytes <= most) continue;
    most = bytes;
    peak = {plans[i], one.peak_instruction};
  }
  return peak;
}

// By stage and name of a value what policies know it by.
using Labels = std::map<std::pair<std::string, std::string>, std::string>;

Labels labels_of(const models::Model& model) {
  Labels labels;
  for (const models::Stage& stage : model.stages)
    for (const models::Program& program : stage.programs)
      for (const models::Value& value : program.values)
        if (!value.label.empty()) labels.try_emplace({stage.name, value.name}, value.label);
  return labels;
}

class Table {
 public:
  explicit Table(const models::Model& model) : known_(labels_of(model)) {}

  void add_now(const Plan& plan, int buffer) {
    LiveMemory& row = row_of(plan, buffer);
    ++row.now_buffers;
    row.now_bytes += offload::align_up(plan.buffers[buffer].bytes);
  }
  void add_peak(const Plan& plan, int buffer) {
    LiveMemory& row = row_of(plan, buffer);
    ++row.peak_buffers;
    row.peak_bytes += offload::align_up(plan.buffers[buffer].bytes);
  }
  // What is counted and no buffer's.
  void add_rest(Category category, int64_t now, int64_t peak) {
    for (const auto& [key, row] : rows_) {
      if (row.category != category) continue;
      now -= row.now_bytes;
      peak -= row.peak_bytes;
    }
    if (now == 0 && peak == 0) return;
    LiveMemory& row = rows_[{category, "", kBesidePlans}];
    row = {.category = category,
           .stage = "",
           .name = kBesidePlans,
           .now_bytes = now,
           .peak_bytes = peak};
  }

  std::vector<LiveMemory> rows() const {
    std::vector<LiveMemory> rows;
    for (const auto& [key, row] : rows_) rows.push_back(row);
    std::ranges::stable_sort(rows, [](const LiveMemory& a, const LiveMemory& b) {
      return std::tuple(a.category, -std::max(a.now_bytes, a.peak_bytes)) <
             std::tuple(b.category, -std::max(b.now_bytes, b.peak_bytes));
    });
    return rows;
  }

 private:
  LiveMemory& row_of(const Plan& plan, int buffer) {
    auto [labels, is_new] = labels_.try_emplace(&plan);
    if (is_new) labels->second = offload::buffer_labels(plan);
    const auto& [stage, own_name] = labels->second[static_cast<size_t>(buffer)];
    const auto known = known_.find({stage, own_name});
    const std::string& name = known == known_.end() ? own_name : known->second;
    const Category category = plan.buffers[buffer].category;
    LiveMemory& row = rows_[{category, stage, name}];
    row.category = category;
    row.stage = stage;
    row.name = name;
    return row;
  }

  const Labels known_;
  std::map<std::tuple<Category, std::string, std::string>, LiveMemory> rows_;
  std::map<const Plan*, std::vector<offload::BufferLabel>> labels_;
};

// Calls f(plan, buffer) once for each buffer of the kind that is a caller's.
template <class F>
void each_argument(const std::vector<const Plan*>& plans, MemoryKind kind, F f) {
  std::set<std::string> seen;
  for (const Plan* plan : plans)
    for (int b = 0; b < std::ssize(plan->buffers); ++b)
      if (const Buffer& buffer = plan->buffers[b]; buffer.owner == offload::Owner::caller &&
                                                   buffer.kind == kind &&
                                                   seen.insert(buffer.name).second)
        f(*plan, b);
}

std::vector<int> left_to_next_step(const Plan& plan, MemoryKind kind) {
  const offload::Lifetimes lifetimes(plan);
  std::vector<int> left;
  for (const int b : lifetimes.live_out())
    if (plan.buffers[b].kind == kind) left.push_back(b);
  return left;
}

// Rows of less than that many bytes as one for each category.
std::vector<LiveMemory> with_small_ones_together(const std::vector<LiveMemory>& rows,
                                                 int64_t least) {
  std::vector<LiveMemory> result;
  std::map<Category, LiveMemory> small;
  for (const LiveMemory& row : rows) {
    if (std::max(row.now_bytes, row.peak_bytes) >= least) {
      result.push_back(row);
      continue;
    }
    LiveMemory& all = small[row.category];
    all.category = row.category;
    all.name = "(less than 1 % each)";
    all.now_buffers += row.now_buffers;
    all.now_bytes += row.now_bytes;
    all.peak_buffers += row.peak_buffers;
    all.peak_bytes += row.peak_bytes;
  }
  for (const auto& [category, row] : small) result.push_back(row);
  std::ranges::stable_sort(result, {}, &LiveMemory::category);
  return result;
}

std::string cell(int64_t buffers, int64_t bytes) {
  if (bytes == 0) return "-";
  return bytes_text(bytes) + (buffers > 1 ? fmt::format(" ({})", buffers) : "");
}

// Of names the end tells more than the beginning.
std::string cut(const std::string& text, size_t width) {
  return text.size() <= width ? text : "..." + text.substr(text.size() - width + 3);
}

std::string line(const std::string& category, const std::string& stage, const std::string& name,
                 const std::string& now, const std::string& peak) {
  return fmt::format("  {:<11} {:<9} {:<20} {:>17} {:>17}\n", category, cut(stage, 9),
                     cut(name, 20), now, peak);
}

std::string text_of(MemoryKind kind, const TrainingPlans& plans, TrainingSession& session) {
  const offload::MemoryAnalysis& planned = session.planned()[kind];
  const std::vector<LiveMemory> rows =
      live_memory(plans, session.planned(), session.ledger(), session.step().is_deferred(), kind);
  int64_t now = 0;
  for (const LiveMemory& row : rows) now += row.now_bytes;
  const int64_t counted = session.ledger().now_bytes(kind),
                arena = session.peak_bytes(kind) - counted;
  std::string text = fmt::format("{}: {}", offload::name(kind), bytes_text(counted));
  if (arena > 0) text += fmt::format(" + {} of arena", bytes_text(arena));
  text += fmt::format("; planned {}\n", bytes_text(planned.peak_bytes));
  if (now > counted)
    text += fmt::format("  of the arena {} hold what the next step's update needs\n",
                        bytes_text(now - counted));
  if (const Peak peak = find_peak(plans.all(), kind); peak.plan) {
    const offload::Instruction& instruction = peak.plan->instructions[peak.instruction];
    text +=
        fmt::format("  fullest in plan {}, at {} of {} {}\n", peak.plan->name,
                    cut(instruction.name, 20), instruction.scope.stage, instruction.scope.layer);
  }
  text += line("category", "stage", "label", "alive now", "at the peak");
  const int64_t least = std::max(now, planned.live_bytes) / 100;
  for (const LiveMemory& row : with_small_ones_together(rows, least))
    text += line(offload::name(row.category), row.stage, row.name,
                 cell(row.now_buffers, row.now_bytes), cell(row.peak_buffers, row.peak_bytes));
  return text + line("in all", "", "", cell(1, now), cell(1, planned.live_bytes));
}

}  // namespace

std::vector<LiveMemory> live_memory(const TrainingPlans& plans, const MemoryByKind& planned,
                                    const Ledger& ledger, bool is_deferred, MemoryKind kind) {
  const std::vector<const Plan*> all = plans.all();
  Table table(plans.model);
  const Peak peak = find_peak(all, kind);
  std::set<std::string> at_peak;  // arguments of that plan
  if (peak.plan)
    for (const int b : live_buffers(*peak.plan, kind, peak.instruction)) {
      table.add_peak(*peak.plan, b);
      if (peak.plan->buffers[b].owner == offload::Owner::caller)
        at_peak.insert(peak.plan->buffers[b].name);
    }
  each_argument(all, kind, [&](const Plan& plan, int b) {
    table.add_now(plan, b);
    if (!at_peak.contains(plan.buffers[b].name)) table.add_peak(plan, b);
  });
  Ledger::ByCategory now = ledger.now(kind);
  if (is_deferred) {
    const Plan& last = plans.step.plans.back();
    for (const int b : left_to_next_step(last, kind)) {
      table.add_now(last, b);
      now[last.buffers[b].category] += offload::align_up(last.buffers[b].bytes);
    }
  }
  for (const Category category : offload::kCategories)
    table.add_rest(category, now[category], planned[kind].by_category[category]);
  return table.rows();
}

std::string live_memory_text(const TrainingPlans& plans, TrainingSession& session,
                             offload::Backend& backend) {
  std::string text;
  for (const MemoryKind kind : offload::kMemoryKinds)
    if (session.planned()[kind].peak_bytes > 0 || session.ledger().now_bytes(kind) > 0)
      text += text_of(kind, plans, session);
  return text + fmt::format("the system counts {} taken and {} free for device memory",
                            bytes_text(backend.used_device_bytes()),
                            bytes_text(backend.available_bytes(MemoryKind::device)));
}

}  // namespace longshore::trainer
