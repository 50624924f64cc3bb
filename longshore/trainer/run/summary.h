// A Summary says what a run comes to, in its last lines on the console and in summary.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "longshore/base/sample.h"
#include "longshore/trainer/checkpoint/best_so_far.h"
#include "longshore/trainer/run/metrics.h"
#include "longshore/trainer/run/validation.h"
#include "longshore/trainer/step/memory_report.h"

namespace longshore::trainer {

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

inline constexpr size_t kSampledSteps = 4096;

struct Summary {
  int64_t steps = 0;  // including those before the run was resumed
  // Over all steps except the first, which has to touch memory and fill caches; over the first
  // where it is the only one. Of more than kSampledSteps, over so many that are drawn from them.
  double median_step_seconds = 0, p90_step_seconds = 0;
  double tokens_per_second_per_device = 0, mfu = 0;  // medians
  double data_wait_fraction = 0;                     // of all step time
  MemoryByKind memory;                               // measured
  std::optional<Validation> validation;
  std::string sample;             // the text that was sampled at the end; "" where none was
  std::optional<BestSoFar> best;  // where the config goes by a metric
  std::optional<CheckpointFigures> checkpoints;
  std::optional<RankFigures> ranks;  // where there are several processes
};

// What a summary needs of the steps, which takes the same memory however many there are.
class StepFigures {
 public:
  void add(const StepMetrics& step);
  int64_t steps() const { return steps_; }
  // With what follows from the steps alone.
  Summary summary() const;

 private:
  struct Rates {
    double seconds = 0, tokens_per_second_per_device = 0, tflops_per_device = 0;
  };

  int64_t steps_ = 0;
  Rates first_;
  Sample<Rates> later_{kSampledSteps};
  // The peak may be another one where a run was resumed: that of the last step counts.
  double last_mfu_ = 0, last_tflops_per_device_ = 0;
};

// A table for people, of at most 18 lines of 80 characters.
std::string text(const Summary& summary);
// A line of that table, or below it, such as where something lies.
std::string summary_row(const std::string& what, const std::string& text);
// All figures.
void write(const Summary& summary, const std::filesystem::path& path);

}  // namespace longshore::trainer
