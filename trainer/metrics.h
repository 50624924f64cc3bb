// Numbers of a run: one record a step in metrics.jsonl and one of each validation behind it, and
// summary.json at the end.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
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
  double checkpoint_stall_seconds = 0;  // that a save held it up before it began
};

// "completed step: 12, seconds: 0.412, ..."
std::string text(const StepMetrics& metrics);

// Appends records as they come; each is with the system when write() returns. Where it takes none,
// since a disk is full, records wait here.
class MetricsFile {
 public:
  // Of what is there already, the records of steps before `first_step` stay; a run that resumes
  // writes the others again. What is no record, such as a line that was cut off, goes as well.
  MetricsFile(const std::filesystem::path& path, int64_t first_step);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  const std::vector<StepMetrics>& kept() const { return kept_; }

  // Also writes what has waited. Says why something waits now; "" where nothing does.
  std::string write(const StepMetrics& metrics);
  // Of what was learnt up to that step, in nats a token; unless it says so already.
  std::string write_validation(int64_t step, double loss);

 private:
  std::string append(const std::string& line);

  std::filesystem::path path_;
  std::vector<StepMetrics> kept_;
  std::set<std::string> validations_;  // their records
  std::string waiting_;                // of records that are to be written
  int file_ = -1;
};

struct Validation {
  double loss = 0, unigram_loss = 0;  // nats a token
};

// "4.6735, 1.83 nats below the unigram cross-entropy of 6.4988"
std::string text(const Validation& validation);

// Of all saves that succeeded in this process.
struct CheckpointFigures {
  int64_t saves = 0;
  int64_t bytes = 0;                // of the last
  double median_stall_seconds = 0;  // that training waited for one
  double bytes_per_second = 0;      // of writing: all bytes over all time
};

// Of the processes of a run, by their own clocks.
struct RankFigures {
  int64_t count = 1;
  int64_t slowest = 0;  // rank
  double slowest_median_step_seconds = 0, fastest_median_step_seconds = 0;
};

struct Summary {
  int64_t steps = 0;  // also those before the run was resumed
  // Over all steps but the first, which pays for first touches and caches; over it if it is alone.
  double median_step_seconds = 0, p90_step_seconds = 0;
  double tokens_per_second_per_device = 0, mfu = 0;  // at the median step
  double data_wait_fraction = 0;                     // of all step time
  MemoryByKind memory;                               // measured
  std::optional<Validation> validation;
  std::optional<CheckpointFigures> checkpoints;
  std::optional<RankFigures> ranks;  // where there are several
};

// Fills what follows from the steps.
Summary summarize(const std::vector<StepMetrics>& steps);

std::string text(const Summary& summary);
void write(const Summary& summary, const std::filesystem::path& path);

}  // namespace longshore::trainer
