// Numbers of a run: one record a step in metrics.jsonl, and summary.json at the end.
#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "trainer/step/memory_report.h"

namespace longshore::trainer {

struct StepMetrics {
  int64_t step = 0;    // from 0
  double seconds = 0;  // from asking for the batch to having the results, synchronised
  double loss = 0, gradient_norm = 0, learning_rate = 0;
  int64_t total_weights = 0;  // trained targets
  double tokens_per_second_per_device = 0;
  double tflops_per_device = 0;  // model FLOPs, trainer/step/flops.h
  double mfu = 0;                // 0 to 1
  int64_t device_peak_bytes = 0, pinned_host_peak_bytes = 0;
};

// "completed step: 12, seconds: 0.412, ..."
std::string text(const StepMetrics& metrics);

// Appends records as they come; each is on disk when write() returns to the system.
class MetricsFile {
 public:
  explicit MetricsFile(const std::filesystem::path& path);
  void write(const StepMetrics& metrics);

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

struct Validation {
  double loss = 0, unigram_loss = 0;  // nats a token
};

struct Summary {
  int64_t steps = 0;
  // Over all steps but the first, which pays for first touches and caches; over it if it is alone.
  double median_step_seconds = 0, p90_step_seconds = 0;
  double tokens_per_second_per_device = 0, mfu = 0;  // at the median step
  double data_wait_fraction = 0;                     // of all step time
  MemoryByKind memory;                               // measured
  std::optional<Validation> validation;
};

// Fills what follows from the steps.
Summary summarize(const std::vector<StepMetrics>& steps);

std::string text(const Summary& summary);
void write(const Summary& summary, const std::filesystem::path& path);

}  // namespace longshore::trainer
