#include "trainer/metrics.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/timing.h"
#include "base/write_file.h"

namespace longshore::trainer {
namespace {

using nlohmann::ordered_json;

double gib(int64_t bytes) { return static_cast<double>(bytes) / (int64_t{1} << 30); }

}  // namespace

std::string text(const StepMetrics& m) {
  return fmt::format(
      "completed step: {}, seconds: {:.3f}, TFLOP/s/device: {:.3f}, MFU: {:.1f} %, "
      "Tokens/s/device: {:.1f}, total_weights: {}, loss: {:.3f}, grad_norm: {:.2f}, lr: {:.1e}, "
      "device GiB: {:.2f}, host GiB: {:.2f}",
      m.step, m.seconds, m.tflops_per_device, 100 * m.mfu, m.tokens_per_second_per_device,
      m.total_weights, m.loss, m.gradient_norm, m.learning_rate, gib(m.device_peak_bytes),
      gib(m.pinned_host_peak_bytes));
}

MetricsFile::MetricsFile(const std::filesystem::path& path) : path_(path), file_(path) {
  if (!file_) throw Error(path.string() + ": cannot be written");
}

void MetricsFile::write(const StepMetrics& m) {
  ordered_json record{{"step", m.step},
                      {"seconds", m.seconds},
                      {"loss", m.loss},
                      {"grad_norm", m.gradient_norm},
                      {"learning_rate", m.learning_rate},
                      {"total_weights", m.total_weights},
                      {"tokens_per_second_per_device", m.tokens_per_second_per_device},
                      {"tflops_per_device", m.tflops_per_device},
                      {"mfu", m.mfu},
                      {"device_peak_bytes", m.device_peak_bytes},
                      {"pinned_host_peak_bytes", m.pinned_host_peak_bytes}};
  file_ << record.dump() << "\n" << std::flush;
  if (!file_) throw Error(path_.string() + ": writing step " + std::to_string(m.step) + " failed");
}

Summary summarize(const std::vector<StepMetrics>& steps) {
  Summary summary{.steps = static_cast<int64_t>(steps.size())};
  if (steps.empty()) return summary;
  std::vector<double> seconds;
  for (const StepMetrics& step : steps) seconds.push_back(step.seconds);
  if (seconds.size() > 1) seconds.erase(seconds.begin());
  summary.median_step_seconds = quantile(seconds, 0.5);
  summary.p90_step_seconds = quantile(seconds, 0.9);
  // Tokens and FLOPs are the same in every step.
  const StepMetrics& last = steps.back();
  summary.tokens_per_second_per_device =
      last.tokens_per_second_per_device * last.seconds / summary.median_step_seconds;
  summary.mfu = last.mfu * last.seconds / summary.median_step_seconds;
  return summary;
}

std::string text(const Summary& s) {
  std::string result = fmt::format(
      "{} steps, median {:.3f} s, p90 {:.3f} s, {:.1f} tokens/s/device, MFU {:.1f} %, waiting for "
      "data {:.2f} % of the time",
      s.steps, s.median_step_seconds, s.p90_step_seconds, s.tokens_per_second_per_device,
      100 * s.mfu, 100 * s.data_wait_fraction);
  for (offload::MemoryKind kind : offload::kMemoryKinds)
    if (const offload::MemoryAnalysis& memory = of(s.memory, kind); memory.peak_bytes > 0)
      result += fmt::format("\npeak {}: {}, {}", offload::name(kind),
                            offload::bytes_text(memory.peak_bytes), categories_text(memory));
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
    summary["validation_loss"] = s.validation->loss;
    summary["validation_unigram_loss"] = s.validation->unigram_loss;
  }
  write_file(path, summary.dump(2) + "\n");
}

}  // namespace longshore::trainer
