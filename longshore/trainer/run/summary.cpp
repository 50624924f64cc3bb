#include "longshore/trainer/run/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "longshore/base/atomic_file.h"
#include "longshore/base/text.h"
#include "longshore/base/timing.h"

namespace longshore::trainer {

using nlohmann::ordered_json;

namespace {

// A table of the peaks: a column for each kind that is used.
std::vector<std::string> memory_rows(const MemoryByKind& memory) {
  constexpr int kWidth = 14;
  std::vector<offload::MemoryKind> kinds;
  for (offload::MemoryKind kind : offload::kMemoryKinds)
    if (memory[kind].peak_bytes > 0) kinds.push_back(kind);
  std::vector<std::string> rows;
  const auto add = [&](const std::string& what, const auto& cell) {
    std::string cells;
    for (offload::MemoryKind kind : kinds)
      cells += fmt::format("{:>{}}", cell(memory[kind], kind), kWidth);
    rows.push_back(summary_row(what, cells));
  };
  add("peak memory", [](const auto&, offload::MemoryKind kind) { return offload::name(kind); });
  const auto bytes_or_none = [](int64_t bytes) {
    return bytes > 0 ? offload::bytes_text(bytes) : "-";
  };
  add("  in all", [&](const auto& one, auto) { return bytes_or_none(one.peak_bytes); });
  for (offload::Category category : offload::kCategories)
    if (std::ranges::any_of(kinds, [&](offload::MemoryKind kind) {
          return memory[kind].by_category[category] > 0;
        }))
      add("  " + std::string(offload::name(category)),
          [&](const auto& one, auto) { return bytes_or_none(one.by_category[category]); });
  return rows;
}

}  // namespace

void StepFigures::add(const StepMetrics& step) {
  const Rates rates{.seconds = step.seconds,
                    .tokens_per_second_per_device = step.tokens_per_second_per_device,
                    .tflops_per_device = step.tflops_per_device};
  if (steps_++ == 0)
    first_ = rates;
  else
    later_.add(rates);
  last_mfu_ = step.mfu;
  last_tflops_per_device_ = step.tflops_per_device;
}

Summary StepFigures::summary() const {
  Summary summary{.steps = steps_};
  if (steps_ == 0) return summary;
  const std::span<const Rates> all = steps_ > 1 ? later_.values() : std::span(&first_, 1);
  auto values = [&](double Rates::*member) {
    std::vector<double> values;
    for (const Rates& rates : all) values.push_back(rates.*member);
    return values;
  };
  summary.median_step_seconds = median(values(&Rates::seconds));
  summary.p90_step_seconds = quantile(values(&Rates::seconds), 0.9);
  summary.tokens_per_second_per_device = median(values(&Rates::tokens_per_second_per_device));
  if (last_tflops_per_device_ > 0)
    summary.mfu = median(values(&Rates::tflops_per_device)) * last_mfu_ / last_tflops_per_device_;
  return summary;
}

std::string summary_row(const std::string& what, const std::string& text) {
  constexpr size_t kWidth = 18;
  return fmt::format("{:<{}}{}", what, kWidth, text);
}

std::string text(const Summary& s) {
  std::vector<std::string> rows;
  const auto add = [&](const std::string& what, const std::string& text) {
    rows.push_back(summary_row(what, text));
  };
  add("steps", fmt::format("{}, median {:.3f} s, p90 {:.3f} s", s.steps, s.median_step_seconds,
                           s.p90_step_seconds));
  add("speed",
      fmt::format("{:.1f} tokens/s/device, MFU {:.1f} %, waiting for data {:.2f} %",
                  s.tokens_per_second_per_device, 100 * s.mfu, 100 * s.data_wait_fraction));
  if (s.ranks)
    add("processes",
        fmt::format("{}; the slowest is rank {}, {:.4f} s a step beside {:.4f} s", s.ranks->count,
                    s.ranks->slowest, s.ranks->slowest_median_step_seconds,
                    s.ranks->fastest_median_step_seconds));
  if (s.validation && s.validation->loss) add("validation loss", total_text(*s.validation));
  if (s.validation && s.validation->choices) add("choices", text(*s.validation->choices));
  if (s.checkpoints)
    add("checkpoints",
        fmt::format("{}, the last of {}, {:.0f} MB/s, training waits {:.3f} s",
                    s.checkpoints->saves, offload::bytes_text(s.checkpoints->bytes),
                    s.checkpoints->bytes_per_second / 1e6, s.checkpoints->median_stall_seconds));
  std::ranges::move(memory_rows(s.memory), std::back_inserter(rows));
  return join(rows, "\n");
}

void write(const Summary& s, const std::filesystem::path& path) {
  ordered_json summary{{"steps", s.steps},
                       {"median_step_seconds", s.median_step_seconds},
                       {"p90_step_seconds", s.p90_step_seconds},
                       {"tokens_per_second_per_device", s.tokens_per_second_per_device},
                       {"mfu", s.mfu},
                       {"data_wait_fraction", s.data_wait_fraction},
                       {"memory", json(s.memory)}};
  if (s.validation) {
    add_to(summary, *s.validation);
    if (s.validation->unigram_loss)
      summary["validation_unigram_loss"] = *s.validation->unigram_loss;
  }
  if (s.best && s.best->step > 0)
    summary["best"] = {
        {"metric", s.best->metric}, {"value", s.best->value}, {"steps", s.best->step}};
  if (!s.sample.empty()) summary["sample"] = s.sample;
  if (s.ranks)
    summary["ranks"] = {{"count", s.ranks->count},
                        {"slowest", s.ranks->slowest},
                        {"slowest_median_step_seconds", s.ranks->slowest_median_step_seconds},
                        {"fastest_median_step_seconds", s.ranks->fastest_median_step_seconds}};
  if (s.checkpoints)
    summary["checkpoints"] = {{"saves", s.checkpoints->saves},
                              {"bytes", s.checkpoints->bytes},
                              {"median_stall_seconds", s.checkpoints->median_stall_seconds},
                              {"bytes_per_second", s.checkpoints->bytes_per_second}};
  write_file(path, summary.dump(2) + "\n", Links::refused);
}

}  // namespace longshore::trainer
