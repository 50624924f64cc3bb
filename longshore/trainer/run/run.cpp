#include "longshore/trainer/run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/base/file_inside.h"
#include "longshore/base/printable.h"
#include "longshore/base/refusals.h"
#include "longshore/base/stop_signal.h"
#include "longshore/base/text.h"
#include "longshore/base/wall_clock.h"
#include "longshore/data/rows/token_file_check.h"
#include "longshore/models/hf/config.h"
#include "longshore/trainer/calibration/peak.h"
#include "longshore/trainer/checkpoint/frozen_weights.h"
#include "longshore/trainer/checkpoint/load_state.h"
#include "longshore/trainer/checkpoint/same_run.h"
#include "longshore/trainer/config/config_text.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/config/run_files.h"
#include "longshore/trainer/distributed/launch.h"
#include "longshore/trainer/planner/advice/memory_suggestions.h"
#include "longshore/trainer/planner/advice/plan_report.h"
#include "longshore/trainer/run/agreed_stop.h"
#include "longshore/trainer/run/compare_ranks.h"
#include "longshore/trainer/run/event_file.h"
#include "longshore/trainer/run/faults.h"
#include "longshore/trainer/run/metrics.h"
#include "longshore/trainer/run/precompute_reference.h"
#include "longshore/trainer/run/run_best.h"
#include "longshore/trainer/run/run_checkpoints.h"
#include "longshore/trainer/run/run_evaluation.h"
#include "longshore/trainer/run/run_report.h"
#include "longshore/trainer/run/run_steps.h"
#include "longshore/trainer/run/summary.h"
#include "longshore/trainer/step/reference.h"
#include "longshore/trainer/step/training_session.h"
#include "longshore/trainer/weights/saved_state.h"
#include "longshore/trainer/weights/text_files.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using offload::MemoryKind;

std::string parameters_text(const models::ParameterCount& count) {
  std::string text = fmt::format("{:.1f} M parameters", count.all / 1e6);
  if (count.trainable < count.all)
    text += fmt::format(", of which {:.4g} M train", count.trainable / 1e6);
  return text;
}

bool is_due(int64_t done, int64_t interval) { return interval > 0 && done % interval == 0; }

// What the folder of a run that has ended holds for its user; of the best checkpoint a text.
std::vector<std::string> contents(const fs::path& folder, const std::string& best,
                                  bool writes_report) {
  std::vector<std::string> lines{summary_row("run directory", path_text(folder))};
  // What a user put there in the place of a link is not ours.
  const auto add_link = [&](const char* part, const std::string& what) {
    if (fs::is_symlink(folder / part))
      lines.push_back(summary_row(std::string("  ") + part + "/", what));
  };
  const bool has_both =
      fs::is_symlink(folder / kAdapterFolder) && fs::is_symlink(folder / kModelFolder);
  add_link(kAdapterFolder, has_both ? "adapter for the weights below, as peft reads it"
                                    : "adapter, as peft reads it");
  add_link(kModelFolder, has_both ? "weights without it, as Hugging Face's libraries read them"
                                  : "weights, as Hugging Face's libraries read them");
  if (!best.empty()) add_link(kBestLink, best);
  lines.push_back(summary_row(
      "", fmt::format("{}, {}, {}, {}{}", kConfigFile, kPlanFile, kMetricsFile, kSummaryFile,
                      writes_report ? std::string(", ") + kReportFile : "")));
  return lines;
}

class Run {
 public:
  explicit Run(const PlannedRun& planned)
      : planned_(planned),
        config_(planned.spec.config()),
        plans_(planned.plans),
        opened_(planned.opened),
        backend_(planned.backend),
        world_(planned.world),
        console_(planned.console),
        stop_(world_),
        whole_(whole(plans_.layout)),
        model_(decoder_config(config_, backend_.target())),
        best_(config_, opened_, world_),
        checkpoints_(opened_, world_, console_) {}

  void operator()() {
    console_.line(fmt::format("model: {}, {}, {}, remat_policy {}",
                              config_.model_name.empty() ? config_.config_file : config_.model_name,
                              parameters_text(count_parameters(plans_.model)), name(model_.dtype),
                              config_.remat_policy));
    for (const std::string& path : kernel_paths(plans_.model, backend_.target()))
      console_.line(path);
    if (config_.lora_rank > 0 && config_.load_parameters_path.empty() &&
        !saves_model(plans_.layout))
      console_.notice(
          "warning: load_parameters_path is empty, so the adapter is for random weights, which are "
          "saved nowhere");
    if (stops_before_training()) return;
    if (world_.is_first() && !config_.tensorboard_dir.empty()) open_events();
    const Peak peak = find_peak(config_, model_.dtype, backend_);
    console_.line("MFU is against " + peak.description);
    session_.emplace(plans_, backend_, first_values_here());
    if (!session_->loaded().empty()) console_.notice(session_->loaded());
    Manifest described =
        describe(frozen_weights_hash(plans_.layout, session_->arguments(), world_));
    if (opened_.start) {
      require_same_run(config_, described, *opened_.start);
      session_->step().set_clipping_norm(opened_.start->manifest.clipping_norm);
    }
    if (plans_.step.previous_norm_threshold > 0)
      console_.line(fmt::format(
          "gradient_clipping previous_global_norm: a step's gradients count times min(1, {:g} / "
          "grad_norm of the step before){}",
          plans_.step.previous_norm_threshold,
          opened_.start ? "" : "; the first step is not clipped"));
    if (plans_.precompute) {
      auto values =
          precompute_reference(planned_, *session_, described, [this] { return stop_.is_asked(); });
      if (values) {
        described.reference = values->origin();
        session_->set_reference_values(std::move(*values));
      }
    }
    if (stops_before_training()) return;
    if (config_.enable_checkpointing) enable_checkpoints(std::move(described));
    if (stops_before_training()) return;
    try {
      train_and_finish(peak);
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error)) throw;
      explain_shortage(error);
    }
  }

 private:
  const fs::path& directory() const { return opened_.directory->path(); }

  Manifest describe(const std::string& frozen_weights) const {
    return describe_run(config_, model_.dtype, opened_.data.identity, frozen_weights);
  }

  SavedModel saved_model() const {
    return {.config = config_, .model = model_, .layout = plans_.layout};
  }

  // A reference begins as training did, also in a run that goes on.
  GiveFirstValues first_values_here() const {
    return [this](offload::Arguments& arguments) {
      std::string text = opened_.start
                             ? load_state(*opened_.start, saved_model(), arguments)
                             : first_values(config_, plans_, backend_.target())(arguments);
      if (!plans_.reference) return text;
      const std::string of_reference =
          give_reference_values(config_, *plans_.reference, backend_.target(), arguments);
      return text + (of_reference.empty() ? "" : "\n" + of_reference);
    };
  }

  // A resumed run takes them from its checkpoint: the folder that training began from may be gone.
  ModelFiles model_files() const {
    const bool has_model = saves_model(plans_.layout);
    if (!world_.is_first() || (!has_model && config_.add_tokens.empty())) return {};
    const fs::path source = !has_model      ? fs::path()
                            : opened_.start ? opened_.start->model()
                                            : fs::path(config_.load_parameters_path);
    ModelFiles files = read_model_files(
        source, config_.tokenizer_path.empty() ? source : config_.tokenizer_path, images(config_));
    if (has_model && files.config.empty()) files.config = models::write_hf_config(model_);
    if (opened_.data.tokenizer)
      add_text_files(
          *opened_.data.tokenizer, opened_.data.chat_template,
          config_.load_parameters_path.empty() ? TextEnds::of_tokenizer : TextEnds::of_model,
          files);
    return files;
  }

  SavePoint save_point(int64_t done) {
    return {.step = done,
            .clipping_norm = session_->step().clipping_norm(),
            .best = best_.so_far(),
            .is_best = best_.is_best(done),
            .shards = shard_records(opened_.data)};
  }

  void enable_checkpoints(Manifest described) {
    std::unique_ptr<Snapshot> snapshot;
    std::unique_ptr<SaveMemory> memory;
    if (plans_.writes_checkpoints)
      memory = std::make_unique<SaveMemory>(backend_, session_->ledger());
    if (plans_.has_snapshot)
      snapshot = std::make_unique<Snapshot>(plans_.layout, backend_, session_->ledger());
    checkpoints_.enable({.saved = {.config = config_, .model = model_, .layout = whole_},
                         .files = model_files(),
                         .held = plans_.layout,
                         .state = session_->arguments(),
                         .manifest = std::move(described),
                         .micro_batches = config_.gradient_accumulation_steps,
                         .directory = directory(),
                         .world = world_},
                        std::move(snapshot), std::move(memory));
  }

  // Before anything that takes long.
  void open_events() {
    const fs::path folder = config_.tensorboard_dir / directory().filename();
    const int64_t first = opened_.first_step();
    try {
      events_.emplace(folder, first, console_.log());
    } catch (const FileError& error) {
      throw FileError(location(config_, "tensorboard_dir") + ": " + error.what());
    }
    events_->write_text(first, "config", resolved_text(config_));
    events_->write_text(first, "num_model_parameters",
                        std::to_string(count_parameters(plans_.model).all));
    console_.line("TensorBoard: tensorboard --logdir " + path_text(config_.tensorboard_dir));
  }

  bool stops_before_training() {
    if (!stop_.is_asked()) return false;
    console_.notice(stop_.reason() + ": stopped before the first step, with nothing to save");
    return true;
  }

  void train_and_finish(const Peak& peak) {
    RunSteps steps(planned_, *session_, checkpoints_, peak);
    RunEvaluation evaluation(config_, plans_, opened_.data, backend_, *session_, world_);
    const int64_t first = opened_.first_step(), micro_batches = config_.gradient_accumulation_steps;
    RunBatches batches(opened_.data, first * micro_batches, config_.steps * micro_batches);
    if (world_.is_first())
      metrics_.emplace(
          directory() / kMetricsFile, first,
          [this](const StepMetrics& step) { all_steps_.add(step); }, console_.log());
    if (world_.is_first() && config_.write_report)
      report_.emplace(directory(), advice(), console_.log());
    if (best_.has_metric())
      best_.add(first, metrics_ ? metrics_->last_validation(best_.metric()) : std::nullopt);
    if (owes_evaluation(evaluation)) {
      evaluate_after(first, evaluation);
      if (stop_.is_asked()) return stop(first);  // else it is owed no more
    }
    if (best_.keeps()) checkpoints_.link_best(best_.so_far()->step);  // a killed process had not
    const int64_t end = best_.ends_run() ? first : config_.steps;
    if (first == end)
      console_.notice(best_.ends_run() ? best_.reason() : "all its steps are done");
    else if (world_.is_first())
      fs::remove(directory() / kSummaryFile);  // of a run with fewer steps
    begin_check_of_data(end);
    double training_seconds = 0;
    if (first < end) {
      fetch(batches, steps);
      require_batches();
      if (stops_before_training()) return;
    }
    for (int64_t i = first; i < end && !best_.ends_run(); ++i) {
      const bool is_last = i + 1 == config_.steps;
      const bool is_evaluated = evaluates_after(config_, i + 1);
      const bool is_saved = checkpoints_.are_enabled() && is_due(i + 1, config_.checkpoint_period);
      const StepMetrics step = steps.run(i, is_last || is_evaluated || is_saved);
      done_ = i + 1;
      all_steps_.add(step);
      own_steps_.add(step);
      require_directory();
      if (metrics_) metrics_->write(step);
      if (report_) report_->tell();
      if (events_) events_->write(step);
      training_seconds += step.seconds;
      checkpoints_.poll();
      if (data_check_) data_check_->poll();
      // Launchers let processes write to a terminal of theirs, and that to a file.
      if (world_.size() == 1)
        console_.progress(i + 1, config_.steps,
                          training_seconds / (i + 1 - first) * (config_.steps - i - 1),
                          {"loss " + loss_text(step.loss), checkpoints_.progress()});
      steps.require_finite(step);
      // Before a save that is to know it; else behind one, which is written meanwhile.
      bool is_best = false;
      if (is_evaluated && best_.has_metric() && !stop_.is_asked())
        is_best = evaluate_after(i + 1, evaluation);
      if ((is_saved || (is_best && best_.keeps())) && !is_last) {
        sync_metrics();
        checkpoints_.save(save_point(i + 1));
      }
      if (is_evaluated && !best_.has_metric() && !stop_.is_asked())
        evaluate_after(i + 1, evaluation);
      if (!is_last && !best_.ends_run()) fetch(batches, steps);
      if (!is_last && stop_.is_asked()) {
        steps.end();
        return stop(i + 1);
      }
    }
    steps.end();
    if (best_.ends_run() && done_ > first) console_.notice(best_.reason());
    sync_metrics();
    if (data_check_) data_check_->finish(StopSignal::is_there);
    checkpoints_.save_last(save_point(done_));
    finish(training_seconds > 0 ? batches.own.seconds_waited() / training_seconds : 0, evaluation);
  }

  // What keeps one process from its next batch stops all of them, after the same step: what was
  // trained is saved, and nobody waits for that process.
  void fetch(RunBatches& batches, RunSteps& steps) {
    try {
      steps.fetch(batches);
    } catch (const std::exception& error) {
      if (is_out_of_memory(error)) throw;  // which saving would want, too
      batch_failure_ = std::current_exception();
      stop_.ask();
    }
  }

  // Of several processes on a machine the first does it.
  void begin_check_of_data(int64_t end) {
    const bool has_steps = opened_.first_step() < end;
    if (config_.verify_token_files && has_steps && find_launch().local_rank == 0)
      data_check_.emplace(opened_.data.files);
  }

  // What would be written into another folder, or none, ends the run.
  void require_directory() const {
    if (world_.is_first()) opened_.directory->require_there();
  }

  // No checkpoint is ahead of the records that the system took, whatever ends the machine.
  void sync_metrics() {
    if (metrics_) metrics_->sync();
    if (events_) events_->sync();
  }

  void require_records() const {
    if (metrics_) metrics_->require_written();
    if (events_) events_->require_written();
  }

  // Whether the process before this one ended between its save and the evaluation after that.
  bool owes_evaluation(const RunEvaluation& evaluation) const {
    const int64_t done = opened_.saved_step;
    if (done <= 0 || !evaluates_after(config_, done)) return false;
    const bool owes_validation =
        evaluation.evaluates() && metrics_ && !metrics_->ends_with_validation();
    const bool owes_samples =
        evaluation.samples_prompts() && world_.is_first() && !fs::exists(samples_file(done));
    return world_.sum(owes_validation || owes_samples) > 0;
  }

  // Gives whether it was the best so far.
  bool evaluate_after(int64_t steps, RunEvaluation& evaluation) {
    return evaluate(evaluation, steps, "after " + plural(steps, "step"));
  }

  void finish(double data_wait_fraction, RunEvaluation& evaluation) {
    Summary summary = all_steps_.summary();
    summary.steps = done_;
    summary.data_wait_fraction = data_wait_fraction;
    if (evaluated_ != done_ && evaluate(evaluation, done_, "at the end") && best_.keeps())
      checkpoints_.link_best(done_);
    summary.validation = validation_;
    summary.best = best_.so_far();
    if (evaluation.samples() && !stop_.is_asked()) {
      summary.sample = evaluation.sample();
      console_.notice("sample: " + printable(summary.sample));
    }
    if (stop_.is_asked()) return stop(done_);
    summary.memory = session_->memory();
    summary.checkpoints = checkpoints_.figures();
    summary.ranks = compare_ranks(own_steps_, world_);
    if (!world_.is_first()) return;
    require_directory();
    // Of a run that had ended before, this process has measured nothing.
    const bool had_ended = fs::exists(directory() / kSummaryFile);
    if (!had_ended) console_.notice(text(summary));
    if (!had_ended && events_ && !summary.sample.empty())
      events_->write_text(done_ - 1, "sample", summary.sample);
    checkpoints_.require_last();
    require_records();
    // Which says that nothing is left to do.
    if (!had_ended) write(summary, directory() / kSummaryFile);
    for (const std::string& line :
         contents(directory(), best_.keeps() ? best_.text() : "", config_.write_report))
      console_.notice(line);
  }

  // What holds memory goes before anything is planned anew.
  [[noreturn]] void explain_shortage(const std::exception& error) {
    checkpoints_.finish();
    std::string account =
        fmt::format("after {}: {}\n{}{}\n", plural(done_, "step"), error.what(),
                    memory_account(session_->ledger(), session_->planned()), checkpoints_.advice());
    checkpoints_.disable();
    session_.reset();
    try {
      account += "Something else takes what the plan counted on. The run would take less with\n" +
                 changes_that_take_less(planned_.spec);
    } catch (const std::bad_alloc&) {
      account += "nothing is left to plan with";
    }
    throw OutOfMemoryError(account);
  }

  void stop(int64_t done) {
    if (!checkpoints_.are_enabled()) {
      console_.notice(
          fmt::format("{}: stopped after {}; nothing is saved, for enable_checkpointing is false",
                      stop_.reason(), plural(done, "step")));
      return require_batches();
    }
    session_->step().flush(session_->ledger());
    sync_metrics();
    checkpoints_.save_last(save_point(done));
    require_batches();
    checkpoints_.require_last();
    console_.notice(fmt::format(
        "{}: stopped after {} of {}, which are saved; the same command "
        "goes on from there, with run_name={}",
        stop_.reason(), done, plural(config_.steps, "step"), path_text(directory().filename())));
    require_records();
  }

  // Throws, in every process, where one could not make a batch, unless it was told to stop while it
  // made that. None ends before all have come here: a launcher might end the others with it.
  void require_batches() {
    const bool has_failed = batch_failure_ && !StopSignal::is_there();
    if (world_.sum(has_failed) == 0) return;
    if (world_.is_first()) console_.notice(checkpoints_.advice());
    if (has_failed) std::rethrow_exception(batch_failure_);
    throw Error("another process could not make a batch");
  }

  // After so many steps. Gives whether it was the best so far.
  bool evaluate(RunEvaluation& evaluation, int64_t steps, const std::string& when) {
    const auto stops = [this] { return stop_.is_asked(); };
    bool is_best = false;
    if (evaluation.evaluates()) {
      validation_ = evaluation.evaluate(stops);
      if (!validation_) return false;
      if (validation_->loss) console_.line("validation loss " + when + ": " + text(*validation_));
      if (validation_->choices)
        console_.line("accuracy of choices " + when + ": " + text(*validation_->choices));
      const double time = seconds_since_epoch();
      if (metrics_ && metrics_->write_validation(steps - 1, time, *validation_) && events_)
        events_->write_validation(steps - 1, time, *validation_);
      if (best_.has_metric()) {
        const std::optional<double> metric = number(*validation_, best_.metric());
        if (!metric)  // of single answers
          throw ConfigError(location(config_, "keep_best") + ": found " + best_.metric() +
                            ", which this evaluation does not have: its data has no pairs of "
                            "answers; nearest: validation_loss");
        is_best = best_.add(steps, metric);
      }
    }
    if (evaluation.samples_prompts()) {
      const std::optional<std::string> samples = evaluation.sample_prompts(stops);
      if (!samples) return is_best;
      if (world_.is_first()) write_samples(*samples, samples_file(steps), when);
      if (events_) events_->write_samples(steps - 1, *samples);
    }
    evaluated_ = steps;
    return is_best;
  }

  // Of a plan with times; each change is planned, some of them several times.
  std::optional<CostlyText> advice() const {
    if (!planned_.spec.hardware()) return std::nullopt;
    constexpr double kPlansTried = 40;
    return CostlyText{.seconds = kPlansTried * planned_.planning_seconds,
                      .make = [this] { return changes(plan_policy(planned_.spec)); }};
  }

  fs::path samples_file(int64_t steps) const {
    return directory() / kSamplesFolder / fmt::format("step-{:08}.jsonl", steps);
  }

  // A disk that is full ends no training.
  void write_samples(const std::string& samples, const fs::path& file, const std::string& when) {
    try {
      make_folder(file.parent_path());
      write_file(file, samples, Links::refused);
      console_.line("samples " + when + ": " + path_text(file));
    } catch (const FileError& error) {
      console_.notice("samples " + when + ": " + error.what());
    }
  }

  const PlannedRun& planned_;
  const Config& config_;
  const TrainingPlans& plans_;
  const OpenedRun& opened_;
  offload::Backend& backend_;
  World& world_;
  Console& console_;
  AgreedStop stop_;
  const offload::ParameterLayout whole_;  // of all processes together
  const models::DecoderConfig model_;
  int64_t done_ = opened_.first_step();   // steps
  int64_t evaluated_ = -1;                // steps that were done at the last evaluation
  std::optional<Validation> validation_;  // which found this
  RunBest best_;
  StepFigures all_steps_;  // of the first process: also those before the run was resumed
  StepFigures own_steps_;  // since this process began
  std::optional<MetricsFile> metrics_;  // of the first process
  std::optional<EventFile> events_;     // of the first process, where there is a tensorboard_dir
  std::exception_ptr batch_failure_;    // of the step that would come next
  std::optional<TrainingSession> session_;
  std::optional<data::TokenFileCheck> data_check_;
  RunCheckpoints checkpoints_;
  std::optional<RunReport> report_;  // of the first process; goes first, with what all others left
};

}  // namespace

void run(const PlannedRun& planned) { Run{planned}(); }

}  // namespace longshore::trainer
