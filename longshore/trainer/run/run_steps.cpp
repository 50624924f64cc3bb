#include "longshore/trainer/run/run_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "longshore/base/error.h"
#include "longshore/base/file_inside.h"
#include "longshore/base/report_signal.h"
#include "longshore/base/timing.h"
#include "longshore/base/wall_clock.h"
#include "longshore/trainer/config/run_files.h"
#include "longshore/trainer/distributed/sum_over.h"
#include "longshore/trainer/step/flops.h"
#include "longshore/trainer/step/learning_rate.h"
#include "longshore/trainer/step/live_memory.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using offload::MemoryKind;

// Every process has a part of the batch.
fs::path folder_for_dumps(const PlannedRun& run) {
  const fs::path& directory = run.opened.directory->path();
  if (run.world.is_first()) return directory;
  const fs::path folder = directory / fmt::format("rank-{}", run.world.rank());
  require_folder(folder);
  return folder;
}

std::function<void()> stop_streams(const TrainingData& data) {
  return [&data] {
    for (const auto& stream : data.streams) stream->stop();
  };
}

}  // namespace

RunBatches::RunBatches(const TrainingData& data, int64_t begin, int64_t end)
    : own(data.training, begin, end, stop_streams(data)) {
  if (data.training_of_others)
    of_others.emplace(data.training_of_others, begin, end, stop_streams(data));
}

RunSteps::RunSteps(const PlannedRun& run, TrainingSession& session, RunCheckpoints& checkpoints,
                   const Peak& peak)
    : run_(run),
      session_(session),
      checkpoints_(checkpoints),
      peak_(peak),
      flops_(training_flops(run.plans.model, run.spec.config().gradient_accumulation_steps)),
      non_finite_(folder_for_dumps(run), run.spec.config().objective),
      recorder_(run.opened.first_step() + run.spec.config().skip_first_n_steps_for_profiler,
                run.spec.config().profiler_steps) {
  session.step().set_sum_over_devices(sum_over(run.world));
}

void RunSteps::fetch(RunBatches& batches) {
  start_ = Clock::now();
  batch_.clear();
  of_others_.clear();
  for (int64_t m = 0; m < run_.spec.config().gradient_accumulation_steps; ++m) {
    batch_.push_back(batches.own.next());
    if (batches.of_others) of_others_.push_back(batches.of_others->next());
  }
  data_wait_seconds_ = seconds_since(start_);
}

StepMetrics RunSteps::run(int64_t i, bool is_flushed) {
  int64_t weights = 0, chosen_targets = 0;
  for (const data::Batch& batch : batch_) {
    weights += batch.total_weights;
    chosen_targets += batch.chosen_targets;
  }
  const StepScalars scalars{.learning_rate = learning_rate_schedule(run_.spec.config()).at(i),
                            .number = i + 1,
                            .total_weights = run_.world.sum(weights),
                            .chosen_targets = run_.world.sum(chosen_targets)};
  const StepResult result =
      recorder_.run(session_.step(), i, start_, batch_, scalars, of_others_, session_.ledger());
  if (is_flushed) session_.step().flush(session_.ledger());
  const double seconds = seconds_since(start_), time = seconds_since_epoch();
  if (recorder_.ends_with(i)) write_trace();
  const StepMetrics metrics{.step = i,
                            .time = time,
                            .seconds = seconds,
                            .loss = result.loss,
                            .gradient_norm = result.gradient_norm,
                            .learning_rate = scalars.learning_rate,
                            .auxiliary_loss = result.auxiliary_loss,
                            .expert_load = result.expert_load,
                            .sft_loss = result.sft_loss,
                            .rewards = result.rewards,
                            .policy = result.policy,
                            .total_weights = result.total_weights,
                            .tokens_per_second_per_device =
                                static_cast<double>(tokens_per_step(run_.spec.config())) / seconds,
                            .tflops_per_device = flops_ / seconds / 1e12,
                            .mfu = flops_ / seconds / peak_.flops_per_second,
                            .device_peak_bytes = session_.peak_bytes(MemoryKind::device),
                            .pinned_host_peak_bytes = session_.peak_bytes(MemoryKind::pinned_host),
                            .data_wait_seconds = data_wait_seconds_,
                            .checkpoint_stall_seconds = checkpoints_.take_stall_seconds(),
                            .is_saving = checkpoints_.is_saving(),
                            .is_resumed = i > 0 && i == run_.opened.first_step()};
  show(metrics);
  if (const bool is_asked = ReportSignal::take(); is_asked || reports_memory_after(i))
    run_.console.notice(fmt::format("memory after step {}:\n{}", i,
                                    live_memory_text(run_.plans, session_, run_.backend)));
  return metrics;
}

void RunSteps::show(const StepMetrics& metrics) {
  const Config& config = run_.spec.config();
  const int64_t done = metrics.step + 1;
  unprinted_ = metrics;
  const bool is_first = metrics.step == run_.opened.first_step();
  if (is_first || done == config.steps || done % config.log_period == 0) show_last();
}

void RunSteps::show_last() {
  if (unprinted_) run_.console.line(text(*unprinted_, run_.console.columns()));
  unprinted_.reset();
}

bool RunSteps::reports_memory_after(int64_t step) const {
  const std::vector<std::string>& steps = run_.spec.config().memory_report_steps;
  return std::ranges::find(steps, std::to_string(step)) != steps.end();
}

void RunSteps::write_trace() {
  if (run_.world.is_first())
    run_.console.notice(
        recorder_.write(run_.plans.step, run_.opened.directory->path() / kTraceFile));
}

void RunSteps::end() {
  show_last();
  if (recorder_.is_recording()) write_trace();
}

// A step whose gradient is not finite can be skipped as, with clipping, its factor was 0.
void RunSteps::require_finite(const StepMetrics& metrics) {
  const std::string account = non_finite_.account(metrics, batch_);
  if (account.empty()) return;
  show_last();
  if (run_.spec.config().on_non_finite == OnNonFinite::skip &&
      !std::isfinite(metrics.gradient_norm))
    return run_.console.notice(account + "; skipped: weights and moments are as before");
  checkpoints_.finish();
  const std::string advice = checkpoints_.advice();
  throw Error(advice.empty() ? account : account + ". " + advice);
}

}  // namespace longshore::trainer
