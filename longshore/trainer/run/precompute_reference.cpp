#include "longshore/trainer/run/precompute_reference.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/base/file_inside.h"
#include "longshore/base/printable.h"
#include "longshore/base/progress.h"
#include "longshore/base/text.h"
#include "longshore/base/timing.h"
#include "longshore/data/files/content_hash.h"
#include "longshore/data/rows/prefetched_batches.h"
#include "longshore/trainer/checkpoint/frozen_weights.h"
#include "longshore/trainer/config/key_values.h"
#include "longshore/trainer/config/run_files.h"
#include "longshore/trainer/step/answers.h"
#include "longshore/trainer/step/batch_arguments.h"
#include "longshore/trainer/step/step_inputs.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Whether the value of a key may change a log-probability, were it by a bit.
bool decides_log_probs(const Key& key) {
  static const std::set<std::string> kOfObjective{"objective",
                                                  "preference_beta",
                                                  "preference_label_smoothing",
                                                  "dpo_loss",
                                                  "preference_length_normalization",
                                                  "preference_sft_weight",
                                                  "simpo_gamma",
                                                  "kto_desirable_weight",
                                                  "kto_undesirable_weight",
                                                  "gradient_accumulation_steps",
                                                  "reference_parameters_path",
                                                  "reference_memory_host_offload",
                                                  "reference_weight_dtype",
                                                  "lora_dropout",
                                                  "loraplus_lr_ratio"};
  static const std::set<std::string> kOfRows{"packing", "excess_length_strategy"};
  switch (key.section) {
    case Section::model:
    case Section::training:
    case Section::batch:
      return !kOfObjective.contains(key.name);
    case Section::data:
      return kOfRows.contains(key.name);
    default:
      return false;
  }
}

// What runs have in common that have the same reference.
std::string origin_of(const PlannedRun& run, const Manifest& described,
                      const std::string& weights) {
  std::string text = fmt::format("{}\n{}\n", name(run.backend.target()), weights);
  for (const Key& key : config_keys())
    if (const auto value = described.config.find(key.name);
        value != described.config.end() && decides_log_probs(key))
      text += key.name + ": " + value->second + "\n";
  return data::content_hash(text);
}

// What any of the processes has; the first that has it counts.
ReferenceValues of_all(const ReferenceValues& values, World& world) {
  if (world.size() == 1) return values;
  ReferenceValues all(values.origin());
  for (const std::string& one : world.gather(values.bytes())) all.add_bytes(one);
  return all;
}

// What the first process reads of a file, if it is there; `nearest` is what to do about one that is
// damaged or of another reference.
ReferenceValues read_by_first(const fs::path& file, const std::string& origin, const char* nearest,
                              World& world) {
  ReferenceValues values(origin);
  if (world.is_first() && fs::exists(fs::symlink_status(file))) {
    try {
      require_regular_file(file);
      values = ReferenceValues::read(file);
      if (values.origin() != origin)
        throw DataError(path_text(file) +
                        ": found log-probabilities by another reference, or of other rows");
    } catch (const DataError& error) {
      throw DataError(std::string(error.what()) + "; nearest: " + nearest);
    }
  }
  return of_all(values, world);
}

// Keeps them for other runs; a folder that takes none ends no run.
void share(const ReferenceValues& values, const fs::path& file, Console& console) {
  try {
    make_folder(file.parent_path());
    values.write(file, Links::followed);
  } catch (const FileError& error) {
    console.notice(std::string("reference: ") + error.what() + "; other runs compute it again");
  }
}

std::vector<RowsInOrder> of_validation(const TrainingData& data) {
  return {data.validation.begin(), data.validation.end()};
}

// Those with the answers of others by themselves.
std::vector<RowsInOrder> flat(const std::vector<RowsInOrder>& all) {
  std::vector<RowsInOrder> result;
  for (const RowsInOrder& rows : all) {
    result.push_back({.batches = rows.batches, .of_others = {}, .count = rows.count});
    if (rows.of_others)
      result.push_back({.batches = rows.of_others, .of_others = {}, .count = rows.count});
  }
  return result;
}

class Precomputation {
 public:
  Precomputation(const PlannedRun& run, TrainingSession& session, ReferenceValues values)
      : run_(run),
        session_(session),
        plan_(session.executable(*run.plans.precompute)),
        values_(std::move(values)) {}

  const ReferenceValues& values() const { return values_; }
  bool is_missing(const data::Batch& batch) const {
    return run_.world.sum(values_.has(batch) ? 0 : 1) > 0;
  }

  int64_t answers() const { return run_.world.sum(answers_); }  // that were looked at

  // Whether all was done.
  bool add(const std::vector<RowsInOrder>& all, const std::function<bool()>& stops) {
    int64_t total = 0;
    for (const RowsInOrder& rows : all) total += rows.count;
    Progress progress("asking the reference", total);
    for (const RowsInOrder& rows : all) {
      data::PrefetchedBatches batches(rows.batches, 0, rows.count);
      for (int64_t i = 0; i < rows.count; ++i) {
        if (stops()) return false;
        const data::Batch batch = batches.next();
        if (is_missing(batch)) add(batch);
        answers_ += std::ssize(answers_of(batch));
        progress.add();
      }
    }
    return true;
  }

 private:
  // Processes that have parts of the weights run it together.
  void add(const data::Batch& batch) {
    write_batch(batch, session_.arguments());
    plan_->run(session_.ledger());
    run_.backend.synchronize();
    values_.add(batch, read_log_probs(session_.arguments(), batch.shape.rows * batch.shape.length));
  }

  const PlannedRun& run_;
  TrainingSession& session_;
  std::unique_ptr<offload::Executable> plan_;
  ReferenceValues values_;
  int64_t answers_ = 0;
};

// The model as the run began is gone.
void require_all(const PlannedRun& run, const ReferenceValues& values) {
  int64_t missing = 0;
  for (const RowsInOrder& rows : flat(of_validation(run.opened.data)))
    for (int64_t i = 0; i < rows.count; ++i) missing += values.has(rows.batches(i)) ? 0 : 1;
  if (run.world.sum(missing) > 0)
    throw ConfigError(location(run.spec.config(), "eval_dataset_path") +
                      ": found answers of which the precomputed reference says nothing, expected "
                      "no other validation text than the run began with, and no more eval_steps");
}

ReferenceValues resumed(const PlannedRun& run) {
  const fs::path file = run.opened.directory->path() / kReferenceFile;
  if (run.world.sum(run.world.is_first() && !fs::exists(fs::symlink_status(file))) > 0)
    throw DataError(path_text(file) +
                    ": is not there, expected the log-probabilities that the run's precomputed "
                    "reference gave before its first step; nearest: put it back, or begin another "
                    "run");
  ReferenceValues values = read_by_first(file, run.opened.start->manifest.reference,
                                         "the run's own, or another run", run.world);
  require_all(run, values);
  return values;
}

}  // namespace

std::optional<ReferenceValues> precompute_reference(const PlannedRun& run, TrainingSession& session,
                                                    const Manifest& described,
                                                    const std::function<bool()>& stops) {
  if (run.opened.start) return resumed(run);
  const Clock::time_point start = Clock::now();
  const std::string origin =
      origin_of(run, described, weights_hash(run.plans.layout, session.arguments(), run.world));
  const fs::path file = run.spec.config().base_output_directory / kTokensFolder /
                        fmt::format("reference-{}.safetensors", origin);
  const fs::path own = run.opened.directory->path() / kReferenceFile;
  // That it can be written, before anything is computed for it.
  if (run.world.is_first()) AtomicFile(own, Links::refused);
  const ReferenceValues before = read_by_first(file, origin, "remove it", run.world);
  std::vector<RowsInOrder> all = of_validation(run.opened.data);
  all.push_back(*run.opened.data.each_row);
  Precomputation found(run, session, before);
  const bool is_complete = found.add(flat(all), stops);
  ReferenceValues values = of_all(found.values(), run.world);
  if (run.world.is_first()) {
    if (is_complete) values.write(own, Links::refused);
    if (values.count() > before.count()) share(values, file, run.console);
  }
  const std::string computed =
      values.count() > before.count()
          ? fmt::format("{} of them computed in {:.1f} s", values.count() - before.count(),
                        seconds_since(start))
          : "computed before";
  const std::string answers = plural(found.answers(), "answer");
  run.console.line(fmt::format("reference: log-probabilities of {}, {}, in {}", answers, computed,
                               path_text(file)));
  return is_complete ? std::optional(std::move(values)) : std::nullopt;
}

}  // namespace longshore::trainer
