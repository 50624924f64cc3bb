// RunSteps runs a run's steps one by one: their batches, their metrics, their trace, and what to do
// about numbers that are not finite.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "longshore/data/rows/prefetched_batches.h"
#include "longshore/trainer/calibration/peak.h"
#include "longshore/trainer/run/faults.h"
#include "longshore/trainer/run/metrics.h"
#include "longshore/trainer/run/planned_run.h"
#include "longshore/trainer/run/run_checkpoints.h"
#include "longshore/trainer/step/step_recorder.h"
#include "longshore/trainer/step/training_session.h"

namespace longshore::trainer {

// The batches of a run's steps, one behind the other; of kto also those of others' answers.
struct RunBatches {
  data::PrefetchedBatches own;
  std::optional<data::PrefetchedBatches> of_others;

  // Those of micro-batches [begin, end). When they go, `data`'s streams are told to stop.
  RunBatches(const TrainingData& data, int64_t begin, int64_t end);
};

class RunSteps {
 public:
  // Keeps references to what it is given.
  RunSteps(const PlannedRun& run, TrainingSession& session, RunCheckpoints& checkpoints,
           const Peak& peak);

  // Takes the batches of the next step, whose time begins with this. Throws what a batch threw.
  void fetch(RunBatches& batches);
  // Step number `i`, of the batches that were fetched. A flushed one leaves parameters updated.
  StepMetrics run(int64_t i, bool is_flushed);
  // Throws Error where the step that was run last has numbers that are not finite, unless it was
  // skipped as on_non_finite says.
  void require_finite(const StepMetrics& metrics);
  // Of the step that was run last, whichever it was: prints its line, and writes the trace of fewer
  // steps than were to be recorded.
  void end();

 private:
  void show(const StepMetrics& metrics);
  void show_last();
  bool reports_memory_after(int64_t step) const;
  void write_trace();

  const PlannedRun& run_;
  TrainingSession& session_;
  RunCheckpoints& checkpoints_;
  const Peak peak_;
  const double flops_;                           // of a step
  std::vector<data::Batch> batch_, of_others_;   // of the step at hand, by micro-batch
  std::chrono::steady_clock::time_point start_;  // of that
  double data_wait_seconds_ = 0;                 // for its batches
  NonFiniteSteps non_finite_;
  StepRecorder recorder_;
  std::optional<StepMetrics> unprinted_;  // of the last step, where log_period leaves its line out
};

}  // namespace longshore::trainer
