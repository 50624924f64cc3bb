#include "trainer/loop.h"

#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/timing.h"
#include "base/write_file.h"
#include "data/prefetched_batches.h"
#include "trainer/config/backend_choice.h"
#include "trainer/config/model_config.h"
#include "trainer/console.h"
#include "trainer/generate/continuation.h"
#include "trainer/metrics.h"
#include "trainer/planning/auto_policy.h"
#include "trainer/planning/peak.h"
#include "trainer/planning/room.h"
#include "trainer/step/evaluate.h"
#include "trainer/step/flops.h"
#include "trainer/step/learning_rate.h"
#include "trainer/step/trace_file.h"
#include "trainer/step/training_plans.h"
#include "trainer/step/training_session.h"
#include "trainer/training_data.h"
#include "trainer/weights/adapter.h"
#include "trainer/weights/export_parameters.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using offload::MemoryKind;

fs::path make_run_directory(const Config& config) {
  std::string name = config.run_name;
  if (name.empty()) {
    std::time_t now = std::time(nullptr);
    char time[32];
    std::strftime(time, sizeof time, "%Y%m%d-%H%M%S", std::localtime(&now));
    name = fs::path(config.config_file).stem().string() + "-" + time;
  }
  fs::path directory = config.base_output_directory / name;
  if (fs::exists(directory / "metrics.jsonl"))
    throw ConfigError(location(config, "run_name") + ": " + directory.string() +
                      " holds a run already. Nearest: another run_name, or none");
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) throw Error(directory.string() + ": cannot be made: " + error.message());
  return directory;
}

std::string parameters_text(const models::ParameterCount& count) {
  std::string text = fmt::format("{:.1f} M parameters", count.all / 1e6);
  if (count.trainable < count.all)
    text += fmt::format(", of which {:.4g} M train", count.trainable / 1e6);
  return text;
}

class Run {
 public:
  // `account` is of how a policy was chosen.
  Run(const Config& config, const ChosenBackend& chosen, const std::string& account)
      : config_(config),
        backend_(make_backend(chosen.target)),
        plans_(plan_training(config, backend_->target())) {
    console_.line("backend: " + chosen.description);
    if (!account.empty()) console_.line(account);
    require_room(config, plans_, *backend_);
    data_ = open_data(config, [&](const std::string& text) { console_.line(text); });
    directory_ = make_run_directory(config);
    write_resolved(config, directory_ / "config.yml");
    write_file(directory_ / "plan.txt", account + text(plans_));
  }

  void operator()() {
    models::DecoderConfig model = decoder_config(config_, backend_->target());
    console_.line(fmt::format("model: {}, {}, {}, remat_policy {}",
                              config_.model_name.empty() ? config_.config_file : config_.model_name,
                              parameters_text(count_parameters(plans_.model)), name(model.dtype),
                              config_.remat_policy));
    for (const std::string& path : kernel_paths(plans_.model, backend_->target()))
      console_.line(path);
    Peak peak = find_peak(config_, model.dtype, *backend_);
    console_.line("MFU is against " + peak.description);

    TrainingSession session(config_, plans_, *backend_);
    if (!session.loaded().empty()) console_.line(session.loaded());
    auto evaluation = plans_.evaluate ? session.executable(*plans_.evaluate) : nullptr;
    auto decoding = plans_.sample ? session.decoding(*plans_.sample) : nullptr;
    auto validate = [&](const std::string& when) {
      Validation validation{
          .loss = evaluate(*evaluation, data_.validation, data_.validation_batches, *backend_,
                           session.arguments(), session.ledger()),
          .unigram_loss = data_.unigram_loss};
      console_.line(fmt::format(
          "validation loss {}: {:.4f}, {:.2f} nats below the unigram cross-entropy of {:.4f}", when,
          validation.loss, validation.unigram_loss - validation.loss, validation.unigram_loss));
      return validation;
    };

    int64_t micro_batches = config_.gradient_accumulation_steps;
    data::PrefetchedBatches batches(data_.training, 0, config_.steps * micro_batches);
    double flops = training_flops(plans_.model, micro_batches);
    double tokens = static_cast<double>(model.batch * model.length * micro_batches);
    LearningRate learning_rate = learning_rate_schedule(config_);
    MetricsFile file(directory_ / "metrics.jsonl");
    std::vector<StepMetrics> steps;
    double training_seconds = 0;
    std::vector<RecordedStep> trace;
    Clock::time_point trace_start;
    for (int64_t i = 0; i < config_.steps; ++i) {
      auto start = Clock::now();
      std::vector<data::Batch> batch;
      for (int64_t m = 0; m < micro_batches; ++m) batch.push_back(batches.next());
      StepScalars scalars{.learning_rate = learning_rate.at(i), .number = i + 1};
      int64_t recorded = i - config_.skip_first_n_steps_for_profiler;
      bool records = recorded >= 0 && recorded < config_.profiler_steps;
      StepResult result;
      if (records) {
        if (trace.empty()) trace_start = start;
        trace.push_back({.step = i, .begin = seconds_since(trace_start), .events = {}});
        result = session.step().record(batch, scalars, session.ledger(), trace.back().events);
      } else {
        result = session.step().run(batch, scalars, session.ledger());
      }
      bool is_last = i + 1 == config_.steps;
      bool is_evaluated = evaluation && !is_last && config_.eval_interval > 0 &&
                          (i + 1) % config_.eval_interval == 0;
      if (is_last || is_evaluated) session.step().flush(session.ledger());
      StepMetrics metrics{.step = i, .seconds = seconds_since(start)};
      metrics.loss = result.loss;
      metrics.gradient_norm = result.gradient_norm;
      metrics.learning_rate = scalars.learning_rate;
      metrics.total_weights = result.total_weights;
      metrics.tokens_per_second_per_device = tokens / metrics.seconds;
      metrics.tflops_per_device = flops / metrics.seconds / 1e12;
      metrics.mfu = flops / metrics.seconds / peak.flops_per_second;
      metrics.device_peak_bytes = session.peak_bytes(MemoryKind::device);
      metrics.pinned_host_peak_bytes = session.peak_bytes(MemoryKind::pinned_host);
      console_.line(text(metrics));
      file.write(metrics);
      steps.push_back(metrics);
      training_seconds += metrics.seconds;
      console_.progress(i + 1, config_.steps, training_seconds / (i + 1) * (config_.steps - i - 1));
      if (records && recorded + 1 == config_.profiler_steps) finish_trace(trace);
      if (is_evaluated) validate(fmt::format("after step {}", i));
    }

    Summary summary = summarize(steps);
    summary.data_wait_fraction = batches.seconds_waited() / training_seconds;
    if (evaluation) summary.validation = validate("at the end");
    if (decoding) console_.line("sample: " + sample(*decoding, session.ledger()));
    summary.memory = session.memory();
    write(summary, directory_ / "summary.json");
    console_.line(text(summary));
    if (config_.enable_checkpointing) write_weights(model, session.arguments());
    console_.line("run directory: " + directory_.string() +
                  " (config.yml, plan.txt: what each layer keeps and computes again, "
                  "metrics.jsonl, summary.json)");
  }

 private:
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

  // Adapters by themselves; all weights where others than an adapter's were trained.
  void write_weights(const models::DecoderConfig& model, const offload::Arguments& arguments) {
    if (config_.lora_rank > 0) {
      write_adapter(directory_ / "adapter", model.lora, config_.load_parameters_path.string(),
                    plans_.layout, arguments);
      console_.line("adapter, as peft reads it: " + (directory_ / "adapter").string());
    }
    if (config_.lora_rank > 0 && config_.trainable_parameters_mask.empty()) return;
    export_parameters(directory_ / "model",
                      {.model = model,
                       .layout = plans_.layout,
                       .arguments = arguments,
                       .source = config_.load_parameters_path,
                       .tokenizer = config_.tokenizer_path},
                      config_.weight_dtype == WeightDtype::bfloat16 ? models::Dtype::bfloat16
                                                                    : models::Dtype::float32);
    console_.line("weights, as Hugging Face's libraries read them: " +
                  (directory_ / "model").string());
  }

  void finish_trace(const std::vector<RecordedStep>& trace) {
    write_trace(trace, directory_ / "trace.json");
    offload::Overlap times = offload::overlap(trace.back().events);
    std::string copies = times.copying == 0
                             ? "nothing was moved"
                             : fmt::format("copies {:.4f} s, {:.0f} % of it behind kernels",
                                           times.copying, 100 * times.hidden / times.copying);
    console_.line(fmt::format("trace.json: {} steps; in the last, kernels {:.4f} s of {:.4f} s, {}",
                              trace.size(), times.computing, times.total, copies));
  }

  Console console_;
  const Config& config_;
  std::unique_ptr<offload::Backend> backend_;
  TrainingPlans plans_;
  TrainingData data_;
  fs::path directory_;
};

}  // namespace

void train(const Config& config) {
  if (is_toy(config))
    throw ConfigError(location(config, "model_type") +
                      ": found a toy, which is there for plan; expected a decoder");
  const Config adapted = with_adapter(config);
  ChosenBackend backend = choose_backend(adapted);
  std::string account;
  const Config chosen = with_chosen_policy(adapted, backend.target, account);
  Run run(chosen, backend, account);
  run();
}

}  // namespace longshore::trainer
