#include "trainer/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <new>
#include <optional>
#include <sstream>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/timing.h"
#include "data/prefetched_batches.h"
#include "trainer/checkpoint/checkpoint_saver.h"
#include "trainer/checkpoint/load_state.h"
#include "trainer/checkpoint/same_run.h"
#include "trainer/config/backend_choice.h"
#include "trainer/config/device_mesh.h"
#include "trainer/config/model_config.h"
#include "trainer/console.h"
#include "trainer/distributed/world.h"
#include "trainer/faults.h"
#include "trainer/generate/continuation.h"
#include "trainer/metrics.h"
#include "trainer/planning/auto_policy.h"
#include "trainer/planning/peak.h"
#include "trainer/planning/room.h"
#include "trainer/run_directory.h"
#include "trainer/step/evaluate.h"
#include "trainer/step/flops.h"
#include "trainer/step/learning_rate.h"
#include "trainer/step/trace_file.h"
#include "trainer/step/training_plans.h"
#include "trainer/step/training_session.h"
#include "trainer/stop_signal.h"
#include "trainer/training_data.h"
#include "trainer/weights/adapter.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using offload::MemoryKind;

std::string parameters_text(const models::ParameterCount& count) {
  std::string text = fmt::format("{:.1f} M parameters", count.all / 1e6);
  if (count.trainable < count.all)
    text += fmt::format(", of which {:.4g} M train", count.trainable / 1e6);
  return text;
}

std::string text(const SaveReport& report) {
  if (!report.is_saved)
    return fmt::format("checkpoint after {} steps failed: {}", report.step, report.error);
  std::string text = fmt::format(
      "checkpoint after {} steps: {}, {} in {:.3f} s, {:.0f} MB/s; training waited {:.3f} s",
      report.step, report.folder.string(), offload::bytes_text(report.bytes), report.seconds,
      static_cast<double>(report.bytes) / report.seconds / 1e6, report.stall_seconds);
  if (!report.error.empty()) text += "; but " + report.error;
  return text;
}

CheckpointFigures figures_of(const std::vector<SaveReport>& reports) {
  CheckpointFigures figures;
  std::vector<double> stalls;
  double bytes = 0, seconds = 0;
  for (const SaveReport& report : reports) {
    if (!report.is_saved) continue;
    figures.saves += 1;
    figures.bytes = report.bytes;
    bytes += static_cast<double>(report.bytes);
    seconds += report.seconds;
    stalls.push_back(report.stall_seconds);
  }
  if (!stalls.empty()) figures.median_stall_seconds = median(stalls);
  if (seconds > 0) figures.bytes_per_second = bytes / seconds;
  return figures;
}

class Run {
 public:
  // `account` is of how a policy was chosen, `launched` of who started the processes.
  Run(const Config& config, const ChosenBackend& chosen, const std::string& account, World& world,
      const std::string& launched)
      : world_(world),
        console_(world.is_first()),
        config_(config),
        backend_(make_backend(chosen.target, chosen.device,
                              connect_devices(world, device_mesh(config, world.rank()),
                                              chosen.target, chosen.device))),
        plans_(plan_training(config, backend_->target(), world.rank())),
        whole_(whole(plans_.layout)),
        model_(decoder_config(config, backend_->target())),
        flops_(training_flops(plans_.model, config.gradient_accumulation_steps)) {
    console_.line("backend: " + chosen.description);
    if (!launched.empty()) console_.line("processes: " + launched + "; " + mesh_text(config));
    if (!account.empty()) console_.line(account);
    require_room(config, plans_, *backend_);
    open_in_turn();
    start_ = find_start();
    if (start_) {
      config_ = with_schedule_of(*start_, config_);
      require_same_run(config_, describe(start_->manifest.frozen_weights), *start_);
    }
    if (!world_.is_first()) return;
    write_resolved(config_, *directory_ / "config.yml");
    write_file(*directory_ / "plan.txt", account + text(plans_));
  }

  void operator()() {
    console_.line(fmt::format("model: {}, {}, {}, remat_policy {}",
                              config_.model_name.empty() ? config_.config_file : config_.model_name,
                              parameters_text(count_parameters(plans_.model)), name(model_.dtype),
                              config_.remat_policy));
    for (const std::string& path : kernel_paths(plans_.model, backend_->target()))
      console_.line(path);
    if (stops_before_training()) return;
    peak_ = find_peak(config_, model_.dtype, *backend_);
    console_.line("MFU is against " + peak_.description);
    session_.emplace(plans_, *backend_, first_values_here());
    if (!session_->loaded().empty()) console_.line(session_->loaded());
    Manifest described =
        describe(frozen_weights_hash(plans_.layout, session_->arguments(), world_));
    if (start_) require_same_run(config_, described, *start_);
    if (config_.enable_checkpointing) make_saver(std::move(described));
    if (stops_before_training()) return;
    try {
      train_and_finish();
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error)) throw;
      explain_shortage(error);
    }
  }

 private:
  // The first process tokenizes what must be tokenized, and makes the folder.
  void open_in_turn() {
    const data::Rank rank{.number = world_.rank(), .world_size = world_.size()};
    if (world_.is_first()) {
      data_ = open_data(config_, say_, rank);
      directory_.emplace(config_);
    }
    const std::string path = world_.gather(directory_ ? directory_->path().string() : "")[0];
    if (world_.is_first()) return;
    data_ = open_data(config_, say_, rank);
    directory_.emplace(fs::path(path));
  }

  // The first process looks for it, and verifies it.
  std::optional<Checkpoint> find_start() {
    std::optional<Checkpoint> start;
    if (world_.is_first()) start = find_checkpoint();
    const std::string folder = world_.gather(start ? start->folder.string() : "")[0];
    if (!start && !folder.empty()) start = {folder, read_manifest(folder)};
    saved_step_ = world_.sum(world_.is_first() ? saved_step_ : 0);
    return start;
  }

  // Of the run as it is named, or as load_full_state_path says.
  std::optional<Checkpoint> find_checkpoint() {
    const fs::path& directory = directory_->path();
    auto refuse = [&](const std::string& found) {
      throw ConfigError(location(config_, "run_name") + ": " + directory.string() + " " + found +
                        ". Nearest: another run_name, or none");
    };
    if (config_.enable_checkpointing) {
      auto newest = newest_checkpoint(directory / kCheckpointsFolder,
                                      config_.fall_back_to_earlier_checkpoint, say_);
      if (newest) {
        saved_step_ = newest->manifest.step;
        return newest;
      }
      if (fs::exists(directory / "summary.json"))
        refuse("holds a run that has ended, and no checkpoint");
    } else if (fs::exists(directory / "metrics.jsonl")) {
      refuse("holds a run already, which enable_checkpointing=false does not resume");
    }
    if (config_.load_full_state_path.empty()) return std::nullopt;
    return open_checkpoint(config_.load_full_state_path);
  }

  Manifest describe(const std::string& frozen_weights) const {
    return describe_run(config_, model_.dtype, data_.identity, frozen_weights);
  }

  SavedModel saved_model() const {
    return {.config = config_, .model = model_, .layout = plans_.layout};
  }

  GiveFirstValues first_values_here() const {
    if (!start_) return first_values(config_, plans_, backend_->target());
    return [this](offload::Arguments& arguments) {
      return load_state(*start_, saved_model(), arguments);
    };
  }

  void make_saver(Manifest described) {
    std::unique_ptr<Snapshot> snapshot;
    if (plans_.has_snapshot)
      snapshot = std::make_unique<Snapshot>(plans_.layout, *backend_, session_->ledger());
    const SavedModel saved{.config = config_, .model = model_, .layout = whole_};
    saver_.emplace(CheckpointSaver::Run{.saved = saved,
                                        .held = plans_.layout,
                                        .state = session_->arguments(),
                                        .manifest = std::move(described),
                                        .micro_batches = config_.gradient_accumulation_steps,
                                        .directory = directory_->path(),
                                        .world = world_},
                   std::move(snapshot), [this](const SaveReport& report) {
                     console_.line(text(report));
                     saves_.push_back(report);
                   });
  }

  bool stops_before_training() {
    if (!stops()) return false;
    console_.line(signal() + ": stopped before the first step, with nothing to save");
    return true;
  }

  // Whether any process was told to. All ask at the same places, so that they stop together.
  bool stops() {
    if (!is_stopping_) is_stopping_ = world_.sum(StopSignal::is_there()) > 0;
    return is_stopping_;
  }

  static std::string signal() {
    return StopSignal::is_there() ? StopSignal::name() : "another process was told to stop";
  }

  void train_and_finish() {
    std::unique_ptr<offload::Executable> evaluation;
    if (plans_.evaluate) evaluation = session_->executable(*plans_.evaluate);
    std::unique_ptr<Decoding> decoding;
    if (plans_.sample) decoding = session_->decoding(*plans_.sample);
    const int64_t first = first_step(), micro_batches = config_.gradient_accumulation_steps;
    data::PrefetchedBatches batches(data_.training, first * micro_batches,
                                    config_.steps * micro_batches);
    std::optional<MetricsFile> file;
    if (world_.is_first()) steps_ = file.emplace(*directory_ / "metrics.jsonl", first).kept();
    if (first == config_.steps) console_.line("all its steps are done");
    double training_seconds = 0;
    for (int64_t i = first; i < config_.steps; ++i) {
      const bool is_last = i + 1 == config_.steps;
      const bool is_evaluated = evaluation && !is_last && is_due(i + 1, config_.eval_interval);
      const bool is_saved = saver_ && is_due(i + 1, config_.checkpoint_period);
      steps_.push_back(train_step(batches, i, is_last || is_evaluated || is_saved));
      if (file) write_metrics(*file);
      training_seconds += steps_.back().seconds;
      if (saver_) saver_->poll();
      console_.progress(i + 1, config_.steps,
                        training_seconds / (i + 1 - first) * (config_.steps - i - 1),
                        saving_text());
      check_finite(steps_.back());
      if (is_saved && !is_last) save(i + 1, &CheckpointSaver::save);
      if (is_evaluated && !stops()) validate(*evaluation, fmt::format("after step {}", i));
      if (!is_last && stops()) return stop(i + 1);
    }
    if (saved_step_ != config_.steps) save(config_.steps, &CheckpointSaver::save_now);

    Summary summary;
    if (!steps_.empty()) summary = summarize(steps_);
    if (training_seconds > 0)
      summary.data_wait_fraction = batches.seconds_waited() / training_seconds;
    if (evaluation) summary.validation = validate(*evaluation, "at the end");
    if (decoding && !stops()) console_.line("sample: " + sample(*decoding, session_->ledger()));
    if (stops()) return stop(config_.steps);
    summary.memory = session_->memory();
    if (CheckpointFigures figures = figures_of(saves_); figures.saves > 0)
      summary.checkpoints = figures;
    summary.ranks = compare_ranks(summary.median_step_seconds);
    if (!world_.is_first()) return;
    console_.line(text(summary));
    write(summary, *directory_ / "summary.json");
    require_saved();
    if (!metrics_trouble_.empty()) throw Error(metrics_trouble_);
    say_what_is_left();
  }

  std::optional<RankFigures> compare_ranks(double median_step_seconds) {
    if (world_.size() == 1) return std::nullopt;
    std::vector<double> seconds;
    for (const std::string& text : world_.gather(fmt::format("{}", median_step_seconds)))
      seconds.push_back(std::stod(text));
    const auto [fastest, slowest] = std::ranges::minmax_element(seconds);
    return RankFigures{.count = world_.size(),
                       .slowest = slowest - seconds.begin(),
                       .slowest_median_step_seconds = *slowest,
                       .fastest_median_step_seconds = *fastest};
  }

  int64_t first_step() const { return start_ ? start_->manifest.step : 0; }
  static bool is_due(int64_t done, int64_t interval) {
    return interval > 0 && done % interval == 0;
  }

  StepMetrics train_step(data::PrefetchedBatches& batches, int64_t i, bool is_flushed) {
    const auto start = Clock::now();
    batch_.clear();
    for (int64_t m = 0; m < config_.gradient_accumulation_steps; ++m)
      batch_.push_back(batches.next());
    int64_t weights = 0;
    for (const data::Batch& batch : batch_) weights += batch.total_weights;
    const StepScalars scalars{.learning_rate = learning_rate_schedule(config_).at(i),
                              .number = i + 1,
                              .total_weights = world_.sum(weights)};
    const StepResult result = run_step(i, scalars, start);
    if (is_flushed) session_->step().flush(session_->ledger());
    StepMetrics metrics{.step = i, .seconds = seconds_since(start)};
    const double tokens =
        static_cast<double>(model_.batch * model_.length * config_.gradient_accumulation_steps);
    metrics.loss = result.loss;
    metrics.gradient_norm = result.gradient_norm;
    metrics.learning_rate = scalars.learning_rate;
    metrics.total_weights = result.total_weights;
    metrics.tokens_per_second_per_device = tokens / metrics.seconds;
    metrics.tflops_per_device = flops_ / metrics.seconds / 1e12;
    metrics.mfu = flops_ / metrics.seconds / peak_.flops_per_second;
    metrics.device_peak_bytes = session_->peak_bytes(MemoryKind::device);
    metrics.pinned_host_peak_bytes = session_->peak_bytes(MemoryKind::pinned_host);
    metrics.checkpoint_stall_seconds = std::exchange(stall_seconds_, 0);
    console_.line(text(metrics));
    return metrics;
  }

  StepResult run_step(int64_t i, const StepScalars& scalars, Clock::time_point start) {
    const int64_t recorded = i - config_.skip_first_n_steps_for_profiler;
    if (recorded < 0 || recorded >= config_.profiler_steps)
      return session_->step().run(batch_, scalars, session_->ledger());
    if (trace_.empty()) trace_start_ = start;
    trace_.push_back({.step = i, .begin = seconds_since(trace_start_), .events = {}});
    StepResult result =
        session_->step().record(batch_, scalars, session_->ledger(), trace_.back().events);
    if (recorded + 1 == config_.profiler_steps) finish_trace();
    return result;
  }

  // What holds memory goes before anything is planned anew.
  [[noreturn]] void explain_shortage(const std::exception& error) {
    finish_saving();
    std::string account = fmt::format(
        "after {} steps: {}\n{}{}\n", steps_.empty() ? first_step() : steps_.back().step + 1,
        error.what(), memory_account(session_->ledger(), session_->planned()),
        last_checkpoint_text());
    saver_.reset();
    session_.reset();
    try {
      account += "Something else takes what the plan counted on. The run would take less with\n" +
                 what_helps(config_, backend_->target());
    } catch (const std::bad_alloc&) {
      account += "nothing is left to plan with";
    }
    throw PlanError(account);
  }

  // A disk that is full ends no run; what waits is written when there is room again.
  void write_metrics(MetricsFile& file) {
    const std::string trouble = file.write(steps_.back());
    if (trouble != metrics_trouble_ && !trouble.empty()) console_.line(trouble);
    metrics_trouble_ = trouble;
  }

  // The state has not taken part in a step whose gradient is not finite: the clip factor was 0.
  void check_finite(const StepMetrics& metrics) {
    if (std::isfinite(metrics.loss) && std::isfinite(metrics.gradient_norm)) return;
    const bool is_skipped =
        config_.on_non_finite == OnNonFinite::skip && !std::isfinite(metrics.gradient_norm);
    constexpr int kMostDumps = 10;
    std::string what = fmt::format("step {}: loss {}, grad_norm {}", metrics.step, metrics.loss,
                                   metrics.gradient_norm);
    if (++non_finite_ <= kMostDumps) try {
        what +=
            "; its batch, for probe --inputs: " + dump_batches(dump_folder(), metrics.step, batch_);
      } catch (const DataError& error) {
        what += std::string("; its batch is lost: ") + error.what();
      }
    if (is_skipped) return console_.line(what + "; skipped: weights and moments are as before");
    finish_saving();
    throw Error(what + ". " + last_checkpoint_text());
  }

  // Every process has a part of the batch.
  fs::path dump_folder() const {
    if (world_.is_first()) return directory_->path();
    const fs::path folder = directory_->path() / fmt::format("rank-{}", world_.rank());
    std::error_code error;
    fs::create_directories(folder, error);  // if it is not there, the dump says so
    return folder;
  }

  void finish_saving() {
    if (saver_) saver_->finish();
  }

  std::string last_checkpoint_text() const {
    for (auto report = saves_.rbegin(); report != saves_.rend(); ++report)
      if (report->is_saved)
        return "The last checkpoint is whole, and the run goes on from it: " +
               report->folder.string();
    return start_ ? "The run goes on from " + start_->folder.string() : "There is no checkpoint";
  }

  void save(int64_t done, void (CheckpointSaver::*how)(int64_t)) {
    if (!saver_) return;
    session_->step().flush(session_->ledger());
    const auto start = Clock::now();
    ((*saver_).*how)(done);
    stall_seconds_ = seconds_since(start);
    saved_step_ = done;
  }

  std::string saving_text() const {
    const std::optional<double> progress = saver_ ? saver_->progress() : std::nullopt;
    return progress ? fmt::format("saving {:.0f} %", 100 * *progress) : "";
  }

  void stop(int64_t done) {
    if (!saver_)
      return console_.line(fmt::format(
          "{}: stopped after {} steps; nothing is saved, for enable_checkpointing is false",
          signal(), done));
    saver_->finish();
    if (saved_step_ != done || world_.sum(last_save_failed()) > 0)
      save(done, &CheckpointSaver::save_now);
    require_saved();
    console_.line(
        fmt::format("{}: stopped after {} of {} steps, which are saved; the same command "
                    "goes on from there, with run_name={}",
                    signal(), done, config_.steps, directory_->path().filename().string()));
  }

  bool last_save_failed() const { return !saves_.empty() && !saves_.back().is_saved; }

  // A save that failed stops no training, since there is nothing that would be gained by it; but
  // nobody may take the run for saved.
  void require_saved() const {
    if (last_save_failed())
      throw Error(fmt::format("the last save, after {} steps, failed: {}", saves_.back().step,
                              saves_.back().error));
  }

  std::optional<Validation> validate(offload::Executable& evaluation, const std::string& when) {
    const std::optional<double> loss =
        evaluate(evaluation, data_.validation, data_.validation_batches, *backend_,
                 session_->arguments(), session_->ledger(), world_, [this] { return stops(); });
    if (!loss) return std::nullopt;
    const Validation validation{.loss = *loss, .unigram_loss = data_.unigram_loss};
    console_.line(fmt::format(
        "validation loss {}: {:.4f}, {:.2f} nats below the unigram cross-entropy of {:.4f}", when,
        validation.loss, validation.unigram_loss - validation.loss, validation.unigram_loss));
    return validation;
  }

  // The prompt and what follows it.
  std::string sample(Decoding& decoding, offload::Ledger& ledger) const {
    const data::Tokenizer& tokenizer = *data_.tokenizer;
    const ContinuationOptions options{.max_tokens = config_.sample_tokens,
                                      .vocabulary = tokenizer.vocab_size(),
                                      .end_tokens = {tokenizer.eos_id()},
                                      .sampling = {.seed = static_cast<uint64_t>(config_.seed)}};
    std::vector<int32_t> text = data_.sample_prompt;
    const std::vector<int32_t> more = continue_text(decoding, text, options, ledger);
    text.insert(text.end(), more.begin(), more.end());
    return tokenizer.decode(text);
  }

  void say_what_is_left() {
    if (fs::exists(*directory_ / "adapter"))
      console_.line("adapter, as peft reads it: " + (*directory_ / "adapter").string());
    if (fs::exists(*directory_ / "model"))
      console_.line("weights, as Hugging Face's libraries read them: " +
                    (*directory_ / "model").string());
    console_.line("run directory: " + directory_->path().string() +
                  " (config.yml, plan.txt: what each layer keeps and computes again, "
                  "metrics.jsonl, summary.json)");
  }

  void finish_trace() {
    if (!world_.is_first()) return;
    write_trace(trace_, *directory_ / "trace.json");
    offload::Overlap times = offload::overlap(trace_.back().events);
    std::string copies = times.copying == 0
                             ? "nothing was moved"
                             : fmt::format("copies {:.4f} s, {:.0f} % of it behind kernels",
                                           times.copying, 100 * times.hidden / times.copying);
    console_.line(fmt::format("trace.json: {} steps; in the last, kernels {:.4f} s of {:.4f} s, {}",
                              trace_.size(), times.computing, times.total, copies));
  }

  World& world_;
  Console console_;
  const std::function<void(const std::string&)> say_ = [this](const std::string& text) {
    console_.line(text);
  };
  Config config_;
  std::unique_ptr<offload::Backend> backend_;
  TrainingPlans plans_;
  const offload::ParameterLayout whole_;  // of all processes together
  models::DecoderConfig model_;
  double flops_;  // of a step
  TrainingData data_;
  std::optional<RunDirectory> directory_;
  std::optional<Checkpoint> start_;  // what the run goes on from
  Peak peak_;
  std::vector<data::Batch> batch_;  // of the step at hand, by micro-batch
  std::vector<StepMetrics> steps_;
  std::vector<RecordedStep> trace_;
  Clock::time_point trace_start_;
  std::vector<SaveReport> saves_;
  int64_t saved_step_ = -1;  // of the newest checkpoint, or of a save begun since
  bool is_stopping_ = false;
  int non_finite_ = 0;  // steps
  std::string metrics_trouble_;
  double stall_seconds_ = 0;  // of a save since the last step
  std::optional<TrainingSession> session_;
  std::optional<CheckpointSaver> saver_;
};

}  // namespace

namespace {

// Every process must have been given the same, and a device of the same kind.
void require_same_config(const Config& config, models::Target target, World& world) {
  const std::vector<std::string> all = world.gather(fmt::format(
      "{}device: {}\n", resolved_text(config), models::is_cuda(target) ? "cuda" : "cpu"));
  for (int64_t rank = 1; rank < world.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    std::istringstream first(all[0]), other(all[rank]);
    std::string here, there;
    while (std::getline(first, here) && std::getline(other, there) && here == there) {
    }
    throw ConfigError(
        fmt::format("rank {} was given another config than rank 0: '{}' there, '{}' "
                    "here",
                    rank, there, here));
  }
}

}  // namespace

void train(const Config& config) {
  if (is_toy(config))
    throw ConfigError(location(config, "model_type") +
                      ": found a toy, which is there for plan; expected a decoder");
  const StopSignal listening;
  const Launch launch = find_launch();
  const ChosenBackend backend = choose_backend(config, launch.local_rank);
  const std::unique_ptr<World> world = connect(launch, backend.target);
  require_same_config(config, backend.target, *world);
  const Config adapted = with_devices(with_adapter(config), world->size());
  std::string account;
  const Config chosen = with_chosen_policy(adapted, backend.target, account);
  Run run(chosen, backend, account, *world, world->size() > 1 ? text(launch) : "");
  run();
}

}  // namespace longshore::trainer
