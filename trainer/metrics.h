// The numbers of a run: metrics.jsonl, with a record of each step and, after it, of a validation
// where there was one; and summary.json at the end.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "trainer/step/memory_report.h"

namespace longshore::trainer {

struct StepMetrics {
  int64_t step = 0;    // from 0
  double seconds = 0;  // from the request for the batch to the results, after synchronization
  double loss = 0, gradient_norm = 0, learning_rate = 0;
  int64_t total_weights = 0;  // targets that are trained
  double tokens_per_second_per_device = 0;
  double tflops_per_device = 0;  // model FLOPs, trainer/step/flops.h
  double mfu = 0;                // 0 to 1
  int64_t device_peak_bytes = 0, pinned_host_peak_bytes = 0;
  double checkpoint_stall_seconds = 0;  // for which a save delayed the start of the step
};

// "completed step: 12, seconds: 0.412, ..."
std::string text(const StepMetrics& metrics);

// Appends records. The system has a record when write() returns; where it takes none, as with a
// full disk, the record waits in memory.
class MetricsFile {
 public:
  // Records of steps before `first_step` stay in an existing file. The others are removed, since a
  // run that resumes writes them again, and so are lines that are no records, as a line that was
  // cut off. Throws FileError where the file cannot be written.
  MetricsFile(const std::filesystem::path& path, int64_t first_step);

  const std::vector<StepMetrics>& kept() const { return kept_; }

  // Appends a step's record, after those that wait. Returns why records wait now; "" where none
  // does.
  std::string write(const StepMetrics& metrics);
  // Appends the record of a validation after that step, whose loss is in nats a token, unless the
  // file has it already.
  std::string write_validation(int64_t step, double loss);

 private:
  std::string append(const std::string& line);

  std::filesystem::path path_;
  std::vector<StepMetrics> kept_;
  std::set<std::string> validations_;  // the records of validations
  std::string waiting_;                // the text of records that wait
  FileDescriptor file_;
};

struct Validation {
  double loss = 0, unigram_loss = 0;  // nats a token
};

// "4.6735, 1.83 nats below the unigram cross-entropy of 6.4988"
std::string text(const Validation& validation);

// All saves that succeeded in this process.
struct CheckpointFigures {
  int64_t saves = 0;
  int64_t bytes = 0;                // of the last save
  double median_stall_seconds = 0;  // for which training waited
  double bytes_per_second = 0;      // all bytes over all time spent with writing
};

// The processes of a run, each by its own clock.
struct RankFigures {
  int64_t count = 1;
  int64_t slowest = 0;  // its rank
  double slowest_median_step_seconds = 0, fastest_median_step_seconds = 0;
};

struct Summary {
  int64_t steps = 0;  // including those before the run was resumed
  // Over all steps except the first, which has to touch memory and fill caches; over the first
  // where it is the only one.
  double median_step_seconds = 0, p90_step_seconds = 0;
  double tokens_per_second_per_device = 0, mfu = 0;  // at the median step
  double data_wait_fraction = 0;                     // of all step time
  MemoryByKind memory;                               // measured
  std::optional<Validation> validation;
  std::optional<CheckpointFigures> checkpoints;
  std::optional<RankFigures> ranks;  // where there are several processes
};

// Fills in what follows from the steps alone.
Summary summarize(const std::vector<StepMetrics>& steps);

std::string text(const Summary& summary);
void write(const Summary& summary, const std::filesystem::path& path);

}  // namespace longshore::trainer
