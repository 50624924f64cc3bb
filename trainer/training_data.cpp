#include "trainer/training_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/pieces.h"
#include "base/text.h"
#include "data/document_rows.h"
#include "data/text_format.h"
#include "data/tokenized_file.h"
#include "data/unigram.h"
#include "data/window_rows.h"
#include "trainer/step/training_plans.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using SharedFile = std::shared_ptr<const data::TokenFile>;

// Returns read(). What that says of a file comes after the key by which the file was found.
template <class F>
auto read_file_of(const Config& config, const char* key, F read) {
  try {
    return read();
  } catch (const DataError& error) {
    throw DataError(location(config, key) + ": " + error.what());
  }
}

// Opens files as the config says.
class Opener {
 public:
  Opener(const Config& config, const data::Tokenizer* tokenizer, const Log& log)
      : config_(config), tokenizer_(tokenizer), log_(log) {}

  SharedFile file(const char* key, const fs::path& path) {
    return read_file_of(config_, key, [&] { return checked_file(key, path); });
  }

  std::shared_ptr<const data::Rows> rows(const SharedFile& file, const fs::path& path,
                                         data::WindowRows::Remainder remainder) {
    std::string note =
        fmt::format("{}: {}, {}", path.string(), plural(file->document_count(), "document"),
                    plural(file->token_count(), "token"));
    if (file->skipped_lines() > 0)
      note += fmt::format(", {} skipped", plural(file->skipped_lines(), "bad line"));
    if (config_.dataset_type == DatasetType::documents) return document_rows(file, std::move(note));
    if (file->loss_marks() == data::LossMarks::present)
      throw ConfigError(location(config_, "dataset_type") + ": found tokens, but " + path.string() +
                        " has prompts, which are not learnt; expected dataset_type=documents");
    log_(note);
    return std::make_shared<const data::WindowRows>(file, config_.max_target_length, remainder);
  }

 private:
  SharedFile checked_file(const char* key, const fs::path& path) {
    SharedFile file =
        data::is_text(path) ? tokenized(path) : std::make_shared<const data::TokenFile>(path);
    check_vocabulary(key, path,
                     tokenizer_ ? std::min(file->vocab_size(), tokenizer_->ordinary_vocab_size())
                                : file->vocab_size());
    if (tokenizer_) file->require_tokenizer(tokenizer_->fingerprint(), tokenizer_->path().string());
    if (file->vocab_size() > config_.vocab_size) check_ids(key, *file);
    if (first_) file->require_tokenizer(first_->tokenizer_fingerprint(), first_->path().string());
    if (!first_) first_ = file;
    return file;
  }

  SharedFile tokenized(const fs::path& path) const {
    check_vocabulary("tokenizer_path", tokenizer_->path(), tokenizer_->ordinary_vocab_size());
    fs::path cache = config_.base_output_directory / kTokensFolder;
    log_(fmt::format("{}: reading it, tokenized into {}", path.string(), cache.string()));
    return data::open_tokenized(
        path, *tokenizer_,
        {.chat_template = config_.chat_template, .skip_bad_lines = config_.skip_bad_lines}, cache);
  }

  std::shared_ptr<const data::Rows> document_rows(const SharedFile& file, std::string note) {
    auto rows = std::make_shared<const data::DocumentRows>(
        file, data::DocumentRowsOptions{.length = config_.max_target_length,
                                        .packing = config_.packing,
                                        .excess_length = config_.excess_length_strategy});
    const data::DocumentRows::Counts& counts = rows->counts();
    if (counts.too_long > 0) {
      constexpr std::array kDone = {"truncated", "split", "skipped"};
      note += fmt::format(", {} of them too long and {}", counts.too_long,
                          kDone[static_cast<size_t>(config_.excess_length_strategy)]);
    }
    if (counts.untrained > 0)
      note +=
          fmt::format(", {} with nothing to learn left out", plural(counts.untrained, "sequence"));
    double capacity = static_cast<double>(rows->count() * config_.max_target_length);
    log_(note + fmt::format("; {}, {:.1f} % full", plural(rows->count(), "row"),
                            100 * static_cast<double>(counts.positions) / capacity));
    return rows;
  }

  void check_vocabulary(const char* key, const fs::path& path, int32_t vocab_size) const {
    if (vocab_size <= config_.vocab_size) return;
    throw ConfigError(location(config_, key) + ": " + path.string() + " has token ids up to " +
                      std::to_string(vocab_size - 1) + ", but vocab_size is " +
                      std::to_string(config_.vocab_size) + " (" + origin(config_, "vocab_size") +
                      "); nearest: vocab_size=" + std::to_string(vocab_size));
  }

  // That none occurs of a tokenizer's special tokens that the model does not know.
  void check_ids(const char* key, const data::TokenFile& file) const {
    std::vector<int32_t> ids;
    for_each_piece(file.token_count(), int64_t{1} << 20, [&](int64_t first, int64_t count) {
      ids.resize(static_cast<size_t>(count));
      file.read(first, ids);
      const auto beyond =
          std::ranges::find_if(ids, [&](int32_t id) { return id >= config_.vocab_size; });
      if (beyond == ids.end()) return;
      throw ConfigError(fmt::format(
          "{}: {}: token {} is {}, a special token of the tokenizer; expected ids below {}, the "
          "vocab_size ({})",
          location(config_, key), file.path().string(), first + (beyond - ids.begin()), *beyond,
          config_.vocab_size, origin(config_, "vocab_size")));
    });
  }

  const Config& config_;
  const data::Tokenizer* tokenizer_;
  const Log& log_;
  SharedFile first_;  // all must be by one tokenizer
};

// How often the run goes through its files: "600 steps of 8 rows are 0.51 epochs".
std::string epochs_text(const Config& config, std::span<const data::WeightedRows> sources,
                        int64_t world_size) {
  const int64_t rows_per_step =
      config.per_device_batch_size * config.gradient_accumulation_steps * world_size;
  double weights = 0;
  auto weight = [](const data::WeightedRows& source) {
    return source.weight.value_or(static_cast<double>(source.rows->count()));
  };
  for (const data::WeightedRows& source : sources) weights += weight(source);
  std::vector<std::string> epochs;
  for (const data::WeightedRows& source : sources) {
    const double rows = static_cast<double>(config.steps) * static_cast<double>(rows_per_step) *
                        weight(source) / weights;
    epochs.push_back(fmt::format("{:.2f}", rows / static_cast<double>(source.rows->count())));
    if (!source.weight) break;  // without weights it is the same number for each
  }
  return fmt::format("{} of {} {} {} epochs{}", plural(config.steps, "step"),
                     plural(rows_per_step, "row"), config.steps == 1 ? "is" : "are", join(epochs),
                     epochs.size() > 1 ? " of these files" : "");
}

// What stands before the text of a document: bos, or the end of another document.
int32_t opening(const data::TokenFile& file, const data::Tokenizer& tokenizer) {
  if (file.has_documents() && file.document_count() > 0) {
    int32_t first;
    file.read(file.document(0).first, {&first, 1});
    if (first == tokenizer.bos_id()) return first;
  }
  return std::max(tokenizer.eos_id(), 0);
}

std::vector<int32_t> sample_prompt(const Config& config, const data::TokenFile& file,
                                   const data::Tokenizer& tokenizer) {
  std::vector<int32_t> prompt{opening(file, tokenizer)};
  for (int32_t token : tokenizer.encode(config.sample_prompt)) prompt.push_back(token);
  if (const int32_t largest = std::ranges::max(prompt); largest >= config.vocab_size)
    throw ConfigError(fmt::format("{}: found the token {}, expected ids below {}, the vocab_size",
                                  location(config, "sample_prompt"), largest, config.vocab_size));
  if (std::ssize(prompt) > sample_capacity(config))
    throw ConfigError(fmt::format("{}: found {}, expected at most {}, for max_target_length = {}",
                                  location(config, "sample_prompt"),
                                  plural(std::ssize(prompt) - 1, "token"),
                                  sample_capacity(config) - 1, config.max_target_length));
  return prompt;
}

void open_validation(const Config& config, const std::vector<SharedFile>& trained_on,
                     const data::BatchShape& shape, const data::Rank& rank, Opener& opener,
                     TrainingData& result) {
  SharedFile file = opener.file("eval_dataset_path", config.eval_dataset_path);
  auto rows = opener.rows(file, config.eval_dataset_path, data::WindowRows::Remainder::padded);
  result.validation_batches = data::sequential_batch_count(*rows, shape, rank.world_size);
  if (config.eval_steps >= 0)
    result.validation_batches = std::min(result.validation_batches, config.eval_steps);
  const data::EvaluatedRows evaluated{
      .rows = rows,
      .count = std::min(rows->count(), result.validation_batches * shape.rows * rank.world_size),
      .length = shape.length};
  result.validation = data::sequential_batches(std::move(rows), shape, rank);
  int32_t vocab_size = file->vocab_size();
  for (const SharedFile& one : trained_on) vocab_size = std::max(vocab_size, one->vocab_size());
  result.unigram_loss = data::unigram_cross_entropy(trained_on, evaluated, vocab_size);
}

}  // namespace

TrainingData open_data(const Config& config, const Log& log, data::Rank rank) {
  TrainingData result;
  data::BatchShape shape{config.per_device_batch_size, config.max_target_length};
  uint64_t seed = static_cast<uint64_t>(config.seed);
  if (config.dataset_type == DatasetType::synthetic) {
    result.training =
        data::synthetic_batches(shape, static_cast<int32_t>(config.vocab_size), seed, rank);
    return result;
  }
  if (!config.tokenizer_path.empty())
    result.tokenizer = read_file_of(config, "tokenizer_path", [&] {
      return std::make_unique<data::Tokenizer>(config.tokenizer_path);
    });
  Opener opener(config, result.tokenizer.get(), log);
  std::vector<SharedFile> files;
  std::vector<data::WeightedRows> sources;
  for (const DatasetFile& file : config.dataset_path) {
    files.push_back(opener.file("dataset_path", file.path));
    sources.push_back(
        {opener.rows(files.back(), file.path, data::WindowRows::Remainder::dropped), file.weight});
    result.identity.push_back(files.back()->identity() +
                              (file.weight ? fmt::format(" x {}", *file.weight) : ""));
  }
  log(epochs_text(config, sources, rank.world_size));
  result.training = data::shuffled_batches(std::move(sources), shape, seed, rank);
  if (evaluates(config)) open_validation(config, files, shape, rank, opener, result);
  if (samples(config))
    result.sample_prompt = sample_prompt(config, *files.front(), *result.tokenizer);
  return result;
}

}  // namespace longshore::trainer
