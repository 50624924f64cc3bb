#include "longshore/trainer/run/summary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "longshore/base/atomic_file.h"
#include "longshore/base/text.h"
#include "longshore/base/timing.h"

namespace longshore::trainer {

using nlohmann::ordered_json;

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

std::string text(const Summary& s) {
  std::string result = fmt::format(
      "{}, median {:.3f} s, p90 {:.3f} s, {:.1f} tokens/s/device, MFU {:.1f} %, waiting for "
      "data {:.2f} % of the time",
      plural(s.steps, "step"), s.median_step_seconds, s.p90_step_seconds,
      s.tokens_per_second_per_device, 100 * s.mfu, 100 * s.data_wait_fraction);
  for (offload::MemoryKind kind : offload::kMemoryKinds)
    if (const offload::MemoryAnalysis& memory = s.memory[kind]; memory.peak_bytes > 0)
      result +=
          fmt::format("\npeak {}: {}, {}", offload::name(kind),
                      offload::bytes_text(memory.peak_bytes), categories_text(memory.by_category));
  if (s.ranks)
    result +=
        fmt::format("\n{} processes; the slowest is rank {}, with {:.4f} s a step beside {:.4f} s",
                    s.ranks->count, s.ranks->slowest, s.ranks->slowest_median_step_seconds,
                    s.ranks->fastest_median_step_seconds);
  if (s.checkpoints)
    result += fmt::format(
        "\ncheckpoints: {}, the last of {}; training waited {:.3f} s for each, written at {:.0f} "
        "MB/s",
        s.checkpoints->saves, offload::bytes_text(s.checkpoints->bytes),
        s.checkpoints->median_stall_seconds, s.checkpoints->bytes_per_second / 1e6);
  return result;
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
