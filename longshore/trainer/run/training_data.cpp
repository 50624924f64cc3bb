#include "longshore/trainer/run/training_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/nearest.h"
#include "longshore/base/parallel.h"
#include "longshore/base/pieces.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/data/files/text_format.h"
#include "longshore/data/rows/document_rows.h"
#include "longshore/data/rows/joined_rows.h"
#include "longshore/data/rows/token_beyond.h"
#include "longshore/data/rows/unigram.h"
#include "longshore/data/rows/window_rows.h"
#include "longshore/data/text/example.h"
#include "longshore/data/text/text_input.h"
#include "longshore/data/text/tokenized_file.h"
#include "longshore/trainer/config/data_paths.h"
#include "longshore/trainer/config/eval_datasets.h"
#include "longshore/trainer/config/key_values.h"
#include "longshore/trainer/config/objective.h"
#include "longshore/trainer/config/row_images.h"
#include "longshore/trainer/run/prompt_writer.h"
#include "longshore/trainer/step/training_plans.h"
#include "longshore/trainer/weights/chat_template.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using SharedFile = std::shared_ptr<const data::TokenFile>;

// Returns read(). What that says of a file comes after `where`.
template <class F>
auto read_at(const std::string& where, F read) {
  try {
    return read();
  } catch (const data::NoRowsError& error) {
    throw data::NoRowsError(where + ": " + error.what());
  } catch (const DataError& error) {
    throw DataError(where + ": " + error.what());
  }
}

// Opens files as the config says. Any number of threads may ask at a time.
class Opener {
 public:
  Opener(const Config& config, std::shared_ptr<const data::Tokenizer> tokenizer, const Log& log)
      : config_(config), images_(row_images(config)), tokenizer_(std::move(tokenizer)), log_(log) {}

  SharedFile file(const char* key, const fs::path& path, std::stop_token stop = {}) {
    return read_at(location(config_, key), [&] { return checked_file(key, path, stop); });
  }

  // `path` is what the user knows the file by.
  std::shared_ptr<const data::Rows> rows(const char* key, const SharedFile& file,
                                         const fs::path& path,
                                         data::WindowRows::Remainder remainder,
                                         const data::DocumentChoice& choice = {}) const {
    return read_at(location(config_, key) + ": " + path_text(path),
                   [&] { return make_rows(file, path, remainder, choice); });
  }

  // A file of dataset_path for StreamedRows; of one without rows, why, is said.
  data::OpenedShard shard(const fs::path& path, std::stop_token stop) {
    constexpr const char* kKey = "dataset_path";
    data::OpenedShard opened{
        .name = location(config_, kKey) + ": " + path_text(path), .rows = {}, .identity = {}};
    try {
      const SharedFile tokens = file(kKey, path, stop);
      if (config_.verify_token_files)
        read_at(location(config_, kKey), [&] { tokens->verify(stop); });
      opened.identity = tokens->identity();
      if (data::is_text(path) && !config_.keep_tokens)
        opened.when_closed = [made = tokens->path()] { data::remove_tokenized(made); };
      opened.rows = rows(kKey, tokens, path, data::WindowRows::Remainder::dropped);
    } catch (const data::NoRowsError& error) {
      log_(std::string(error.what()) + "; left out");
    }
    return opened;
  }

  // Of a file that is not opened yet, without reading all of it.
  std::string identity(const fs::path& path) {
    return read_at(location(config_, "dataset_path"), [&] {
      if (!data::is_text(path)) return data::TokenFile(path).identity();
      data::TokenizeOptions options = tokenize_options();
      options.encode.chat_template = used_template();
      return data::text_identity(path, *tokenizer_, options, cache());
    });
  }

  // Does what can be done before the file is opened. Whether its documents begin with bos.
  bool look_at(const fs::path& path) {
    constexpr const char* kKey = "dataset_path";
    if (!data::is_text(path)) {
      const SharedFile tokens = file(kKey, path);
      return tokenizer_ && begins_with_bos(*tokens, *tokenizer_);
    }
    check_vocabulary("tokenizer_path", tokenizer_->path(), tokenizer_->ordinary_vocab_size());
    if (data::has_records(path) && read_at(location(config_, kKey), [&] {
          return data::first_example(path, tokenize_options()).takes_template;
        }))
      use_template();
    const data::Document document =
        data::encode_text("a", *tokenizer_, config_.add_bos_eos, std::nullopt);
    return !document.tokens.empty() && document.tokens.front() == tokenizer_->bos_id();
  }

  // Where a file was read that one writes.
  std::optional<data::ChatTemplate> used_template() const {
    std::lock_guard lock(mutex_);
    return template_ ? *template_ : std::nullopt;
  }

  // Of a token file: it does not say what it was made of, but prompts are not learnt.
  void note_tokens(const SharedFile& file) {
    if (tokenizer_ && file->loss_mask() == data::LossMask::present) use_template();
  }

 private:
  std::shared_ptr<const data::Rows> make_rows(const SharedFile& file, const fs::path& path,
                                              data::WindowRows::Remainder remainder,
                                              const data::DocumentChoice& choice) const {
    const int64_t together = file->has_pairs() ? 2 : 1;
    std::string note = fmt::format(
        "{}: {}, {}", path_text(path),
        plural(file->document_count() / together, file->has_pairs() ? "pair" : "document"),
        plural(file->token_count(), "token"));
    if (choice.held_out)
      note += fmt::format(", of which {} are held out{}", choice.held_out->count() / together,
                          choice.takes_held_out ? ": these" : "");
    if (file->skipped_lines() > 0)
      note += fmt::format(", {} skipped", plural(file->skipped_lines(), "bad line"));
    if (config_.dataset_type == DatasetType::documents)
      return document_rows(file, choice, std::move(note));
    if (file->loss_mask() == data::LossMask::present)
      throw ConfigError(location(config_, "dataset_type") + ": found tokens, but " +
                        path_text(path) +
                        " has prompts, which are not trained on; expected dataset_type=documents");
    log_(note);
    return std::make_shared<const data::WindowRows>(file, config_.max_target_length, remainder);
  }

  void require_tokenizer(const char* key, const data::TokenFile& file, uint64_t fingerprint,
                         const std::string& owner) const {
    try {
      file.require_tokenizer(fingerprint, owner);
    } catch (const ConfigError& error) {
      throw ConfigError(location(config_, key) + ": " + error.what());
    }
  }

  SharedFile checked_file(const char* key, const fs::path& path, const std::stop_token& stop) {
    SharedFile file =
        data::is_text(path) ? tokenized(path, stop) : std::make_shared<const data::TokenFile>(path);
    if (tokenizer_)
      require_tokenizer(key, *file, tokenizer_->fingerprint(), path_text(tokenizer_->path()));
    if (!data::is_text(path)) {
      require_kind(*file);
      note_tokens(file);
    }
    require_reference(path, *file);
    require_teacher(path, *file);
    check_vocabulary(key, path,
                     tokenizer_ ? std::min(file->vocab_size(), tokenizer_->ordinary_vocab_size())
                                : file->vocab_size());
    if (file->vocab_size() > config_.model.vocabulary) check_ids(key, *file);
    warn_of_bos(path, *file);
    std::lock_guard lock(mutex_);
    if (!first_) first_ = {path_text(file->path()), file->tokenizer_fingerprint()};
    require_tokenizer(key, *file, first_->tokenizer_fingerprint, first_->name);
    return file;
  }

  // That it holds examples of the kind that is learnt.
  void require_kind(const data::TokenFile& file) const {
    struct Kind {
      const char *name, *objective, *option;
    };
    static constexpr Kind kKinds[] = {
        {"documents", "objective: sft", "tokenize"},
        {"pairs of answers", "objective: dpo", "tokenize --preference"},
        {"rollouts", "objective: policy_gradient", "tokenize --rollouts"}};
    const auto found = file.has_pairs()                     ? data::ExampleKind::preference
                       : file.has_column(data::kAdvantages) ? data::ExampleKind::rollout
                                                            : data::ExampleKind::text;
    const data::ExampleKind wanted = example_kind(config_);
    if (found == wanted) return;
    const Kind &here = kKinds[static_cast<size_t>(found)],
               &expected = kKinds[static_cast<size_t>(wanted)];
    throw DataError(path_text(file.path()) + ": found " + here.name + ", expected " +
                    expected.name + "; nearest: " +
                    (found == data::ExampleKind::text
                         ? expected.option + std::string(" writes them")
                         : here.objective));
  }

  // That a file has what a teacher says of it, and enough of that.
  void require_teacher(const fs::path& path, const data::TokenFile& file) const {
    if (config_.objective != Objective::distill) return;
    const data::TokenColumn* const tokens = file.column(data::kTeacherTokens);
    if (!tokens || !file.has_column(data::kTeacherLogProbs))
      throw DataError(path_text(path) +
                      ": found nothing that a teacher says of its text, expected a token file with "
                      "that; nearest: tokenize --teacher, which writes it");
    if (tokens->width < config_.distill_top_k)
      throw DataError(
          fmt::format("{}: found {} of a teacher at each place, expected at least {}; nearest: "
                      "distill_top_k={}",
                      path_text(path), plural(tokens->width, "token"),
                      described(config_, "distill_top_k"), tokens->width));
  }

  // That rollouts have what a divergence is from.
  void require_reference(const fs::path& path, const data::TokenFile& file) const {
    if (config_.policy_kl_weight > 0 && example_kind(config_) == data::ExampleKind::rollout &&
        !file.has_column(data::kReferenceLogProbs))
      throw DataError(path_text(path) + ": found no " + data::kReferenceLogProbs +
                      ", expected them for " + described(config_, "policy_kl_weight"));
  }

  // tokenize once wrote paragraphs without.
  void warn_of_bos(const fs::path& path, const data::TokenFile& file) const {
    const bool may_lack =
        !data::is_text(path) && file.has_documents() && file.loss_mask() == data::LossMask::absent;
    if (!may_lack || !tokenizer_ || tokenizer_->bos_id() < 0 || begins_with_bos(file, *tokenizer_))
      return;
    log_(
        fmt::format("{}: its texts begin without {}, which generate and other programs put before "
                    "a prompt; tokenize writes it",
                    path_text(path), excerpt(tokenizer_->spelling(tokenizer_->bos_id()))));
  }

  fs::path cache() const { return config_.base_output_directory / kTokensFolder; }

  // Without a chat template.
  data::TokenizeOptions tokenize_options() const {
    return {.encode = {.train_on = config_.train_on,
                       .add_bos_eos = config_.add_bos_eos,
                       .image_text = images_ ? std::optional(images_->text) : std::nullopt},
            .columns = config_.train_data_columns,
            .kind = example_kind(config_),
            .skip_bad_lines = config_.skip_bad_lines,
            .max_image_pixels = config_.max_image_pixels,
            .say = log_};
  }

  SharedFile tokenized(const fs::path& path, const std::stop_token& stop) {
    if (config_.objective == Objective::distill)
      throw DataError(
          path_text(path) +
          ": found text, expected a token file with what a teacher says of it; nearest: "
          "tokenize --out, and then tokenize --teacher");
    check_vocabulary("tokenizer_path", tokenizer_->path(), tokenizer_->ordinary_vocab_size());
    data::TokenizeOptions options = tokenize_options();
    options.stop = stop;
    options.shows_progress = !stop.stop_possible();  // not beside steps
    std::string what;
    if (data::has_records(path)) {
      const data::FirstExample first = data::first_example(path, options);
      what = first.form;
      if (first.takes_template) options.encode.chat_template = use_template();
      if (options.encode.chat_template)
        what += ", by the chat template " + options.encode.chat_template->name();
    }
    log_(fmt::format("{}: reading it{}, tokenized into {}", path_text(path),
                     what.empty() ? "" : " (" + what + ")", path_text(cache())));
    return data::open_tokenized(path, *tokenizer_, options, cache());
  }

  // Looks for it but once.
  const std::optional<data::ChatTemplate>& use_template() {
    std::lock_guard lock(mutex_);
    if (!template_) template_ = find_chat_template(config_, *tokenizer_);
    return *template_;
  }

  std::shared_ptr<const data::Rows> document_rows(const SharedFile& file,
                                                  const data::DocumentChoice& choice,
                                                  std::string note) const {
    auto rows = std::make_shared<const data::DocumentRows>(
        file, data::DocumentRowsOptions{.length = config_.max_target_length,
                                        .packing = config_.packing,
                                        .excess_length = config_.excess_length_strategy,
                                        .images = images_,
                                        .choice = choice});
    const data::DocumentRows::Counts& counts = rows->counts();
    if (counts.too_long > 0) {
      constexpr std::array kDone = {"truncated", "split", "skipped"};
      note += fmt::format(", {} of them too long and {}", counts.too_long,
                          kDone[static_cast<size_t>(config_.excess_length_strategy)]);
    }
    if (counts.images_cut > 0)
      note += fmt::format(", {} of these left out, since an image would be cut", counts.images_cut);
    if (counts.too_many_images > 0)
      note += fmt::format(", {} left out with more images than max_num_images_per_example = {}",
                          counts.too_many_images, config_.max_num_images_per_example);
    if (counts.untrained > 0)
      note += fmt::format(", {} with nothing to learn left out",
                          plural(counts.untrained, file->has_pairs() ? "pair" : "sequence"));
    if (counts.one_sided > 0) {
      if (!estimates_kl(config_))
        throw DataError(fmt::format(
            "found {} without another to the same prompt, expected pairs of a chosen and a "
            "rejected one; nearest: objective: kto",
            plural(counts.one_sided, "answer")));
      note += fmt::format(", {} of them one answer alone", counts.one_sided);
    }
    double capacity = static_cast<double>(rows->count() * config_.max_target_length);
    log_(note +
         fmt::format("; {}, {:.1f} % full", plural(rows->count(), "row"),
                     100 * static_cast<double>(counts.positions) / capacity) +
         (images_ ? ", " + plural(counts.images, "image") : ""));
    return rows;
  }

  void check_vocabulary(const char* key, const fs::path& path, int32_t vocab_size) const {
    if (vocab_size <= config_.model.vocabulary) return;
    throw ConfigError(fmt::format("{}: {} has token ids up to {}, but vocab_size is {} ({}){}",
                                  location(config_, key), path_text(path), vocab_size - 1,
                                  config_.model.vocabulary, origin(config_, "vocab_size"),
                                  config_.load_parameters_path.empty()
                                      ? nearest_help(fmt::format("vocab_size={}", vocab_size))
                                      : ", that of the weights; expected their tokenizer"));
  }

  // That none occurs of a tokenizer's special tokens that the model does not know.
  void check_ids(const char* key, const data::TokenFile& file) const {
    if (config_.objective == Objective::distill) check_teacher_ids(key, file);
    if (const auto beyond = data::token_beyond(file, config_.model.vocabulary))
      throw ConfigError(fmt::format(
          "{}: {}: token {} is {}, a special token of the tokenizer; expected ids below {}, the "
          "vocab_size ({})",
          location(config_, key), path_text(file.path()), beyond->number, beyond->id,
          config_.model.vocabulary, origin(config_, "vocab_size")));
  }

  void check_teacher_ids(const char* key, const data::TokenFile& file) const {
    const auto is_beyond = [&](int32_t id) { return id >= config_.model.vocabulary; };
    std::vector<int32_t> ids;
    for_each_piece(file.token_count(), int64_t{1} << 16, [&](int64_t first, int64_t count) {
      ids.resize(static_cast<size_t>(count * config_.distill_top_k));
      file.read_column(data::kTeacherTokens, first, config_.distill_top_k, std::span(ids));
      const auto beyond = std::ranges::find_if(ids, is_beyond);
      if (beyond == ids.end()) return;
      throw ConfigError(
          fmt::format("{}: {}: found the token {}, which the teacher finds likely, expected ids "
                      "below {}, the vocab_size ({}): the teacher has a larger vocabulary; "
                      "nearest: a smaller distill_top_k",
                      location(config_, key), path_text(file.path()), *beyond,
                      config_.model.vocabulary, origin(config_, "vocab_size")));
    });
  }

  struct FirstFile {
    std::string name;
    uint64_t tokenizer_fingerprint;
  };

  const Config config_;
  const std::optional<data::RowImages> images_;
  const std::shared_ptr<const data::Tokenizer> tokenizer_;
  const Log log_;
  mutable std::mutex mutex_;                                   // of what follows
  std::optional<std::optional<data::ChatTemplate>> template_;  // once it was looked for
  std::optional<FirstFile> first_;                             // all must be by one tokenizer
};

// A prompt would be written as the model was not taught.
void require_use_of_template(const Config& config, bool is_used) {
  if (!chat_template_choice(config).is_named() || is_used) return;
  throw ConfigError(
      location(config, "chat_template") + ": found " + config.chat_template +
      ", expected none: no file has messages, and other text is trained on as it stands");
}

int64_t rows_per_step(const Config& config, int64_t world_size) {
  return config.per_device_batch_size * config.gradient_accumulation_steps * world_size;
}

// Where the rows of all epochs end, if num_epoch says how many there are.
std::optional<int64_t> end_of_epochs(const Config& config,
                                     std::span<const data::WeightedRows> sources) {
  if (config.num_epoch == 0) return std::nullopt;
  int64_t rows = 0;
  for (const data::WeightedRows& source : sources) rows += source.rows->count();
  return std::max<int64_t>(1, std::llround(config.num_epoch * static_cast<double>(rows)));
}

// How often the run goes through its files: "600 steps of 8 rows are 0.51 epochs".
std::string epochs_text(const Config& config, std::span<const data::WeightedRows> sources,
                        std::optional<int64_t> end, int64_t steps, int64_t rows_of_step) {
  std::string text = plural(steps, "step") + " of " + plural(rows_of_step, "row") +
                     (steps == 1 ? " is " : " are ");
  if (end)
    return text + fmt::format("{:g} epochs, {} in the last", config.num_epoch,
                              plural(*end - (steps - 1) * rows_of_step, "row"));
  double weights = 0;
  auto weight = [](const data::WeightedRows& source) {
    return source.weight.value_or(static_cast<double>(source.rows->count()));
  };
  for (const data::WeightedRows& source : sources) weights += weight(source);
  std::vector<std::string> epochs;
  for (const data::WeightedRows& source : sources) {
    const double rows =
        static_cast<double>(steps) * static_cast<double>(rows_of_step) * weight(source) / weights;
    epochs.push_back(fmt::format("{:.2f}", rows / static_cast<double>(source.rows->count())));
    if (!source.weight) break;  // without weights it is the same number for each
  }
  return text + join(epochs) + " epochs" + (epochs.size() > 1 ? " of these files" : "");
}

using Parts = std::vector<std::shared_ptr<const data::Rows>>;

std::shared_ptr<const data::Rows> joined(Parts parts) {
  if (parts.size() == 1) return parts[0];
  return std::make_shared<const data::JoinedRows>(std::move(parts));
}

std::string weight_text(const DatasetFile& entry) {
  return entry.weight ? fmt::format(" x {}", *entry.weight) : "";
}

// The rows of an entry of dataset_path; those of documents that are held out go to `held_out`.
std::shared_ptr<const data::Rows> open_entry(const Config& config, const DatasetFile& entry,
                                             Opener& opener, TrainingData& result,
                                             Parts& held_out) {
  constexpr const char* kKey = "dataset_path";
  constexpr auto kDropped = data::WindowRows::Remainder::dropped;
  Parts parts;
  for (const fs::path& path : data_paths(entry.path, config.train_split)) {
    const SharedFile& file = result.files.emplace_back(opener.file(kKey, path));
    result.identity.push_back(file->identity() + weight_text(entry));
    data::DocumentChoice choice;
    if (config.eval_fraction > 0 && file->has_documents())
      choice.held_out = std::make_shared<const data::HeldOutDocuments>(*file, config.eval_fraction);
    const int64_t held = choice.held_out ? choice.held_out->count() : 0;
    if (held < file->document_count() || !choice.held_out)
      parts.push_back(opener.rows(kKey, file, path, kDropped, choice));
    choice.takes_held_out = true;
    if (held > 0) held_out.push_back(opener.rows(kKey, file, path, kDropped, choice));
  }
  if (parts.empty())
    throw DataError(location(config, kKey) + ": " + path_text(entry.path) +
                    ": all its documents are held out; nearest: a smaller eval_fraction");
  return joined(std::move(parts));
}

struct HeldOutSet {
  std::string name;
  Parts parts;
};

// What an entry of eval_dataset_path stands for.
HeldOutSet open_set(const Config& config, const EvalDataset& set, Opener& opener,
                    TrainingData& result) {
  constexpr const char* kKey = "eval_dataset_path";
  HeldOutSet held_out{set.name, {}};
  for (const fs::path& path : data_paths(set.path, config.eval_split)) {
    const SharedFile& file = result.files.emplace_back(opener.file(kKey, path));
    held_out.parts.push_back(opener.rows(kKey, file, path, data::WindowRows::Remainder::padded));
  }
  return held_out;
}

data::BatchSchema of_others(data::BatchSchema schema) {
  schema.answers = data::Answers::of_others;
  return schema;
}

RowsInOrder in_order(const Config& config, const std::shared_ptr<const data::Rows>& rows,
                     const data::BatchSchema& schema, const data::Rank& rank, int64_t count) {
  RowsInOrder result{
      .batches = data::sequential_batches(rows, schema, rank), .of_others = {}, .count = count};
  if (estimates_kl(config))
    result.of_others = data::sequential_batches(rows, of_others(schema), rank);
  return result;
}

void open_validation(const Config& config, const data::BatchSchema& schema, const data::Rank& rank,
                     Parts held_out, Opener& opener, TrainingData& result) {
  const std::vector<SharedFile> trained = result.files;
  std::vector<HeldOutSet> sets;
  if (config.eval_fraction > 0) {
    if (held_out.empty())
      throw DataError(
          location(config, "eval_fraction") +
          fmt::format(": found {}, which holds out none of the documents; expected more",
                      config.eval_fraction));
    sets.push_back({"", std::move(held_out)});
  }
  for (const EvalDataset& set : named_eval_datasets(config))
    sets.push_back(open_set(config, set, opener, result));
  const data::BatchShape shape = schema.shape;
  std::vector<data::EvaluatedRows> evaluated;
  for (HeldOutSet& set : sets) {
    std::shared_ptr<const data::Rows> rows = joined(std::move(set.parts));
    int64_t count = data::sequential_batch_count(*rows, shape, rank.world_size);
    if (config.eval_steps) count = std::min(count, *config.eval_steps);
    evaluated.push_back({.rows = rows,
                         .count = std::min(rows->count(), count * shape.rows * rank.world_size),
                         .length = shape.length});
    result.validation.push_back({in_order(config, rows, schema, rank, count), set.name});
  }
  if (config.objective != Objective::sft || config.shuffle_window > 0) return;
  int32_t vocab_size = 0;
  for (const SharedFile& one : result.files) vocab_size = std::max(vocab_size, one->vocab_size());
  result.unigram_loss = data::unigram_cross_entropy(trained, evaluated, vocab_size);
}

// Opens all files, whose rows are shuffled together. Whether documents begin with bos, by the
// first.
bool open_files(const Config& config, Opener& opener, const data::BatchSchema& schema,
                const data::Rank& rank, const Log& log, TrainingData& result, Parts& held_out) {
  std::vector<data::WeightedRows> sources;
  for (const DatasetFile& entry : config.dataset_path)
    sources.push_back({open_entry(config, entry, opener, result, held_out), entry.weight});
  const int64_t rows_of_step = rows_per_step(config, rank.world_size);
  const std::optional<int64_t> end = end_of_epochs(config, sources);
  if (end) result.steps = (*end - 1) / rows_of_step + 1;
  log(epochs_text(config, sources, end, result.steps, rows_of_step));
  if (is_precomputed(config)) {
    Parts parts;
    for (const data::WeightedRows& source : sources) parts.push_back(source.rows);
    const auto rows = joined(std::move(parts));
    result.each_row = in_order(config, rows, schema, rank,
                               data::sequential_batch_count(*rows, schema.shape, rank.world_size));
  }
  const auto seed = static_cast<uint64_t>(config.seed);
  if (estimates_kl(config))
    result.training_of_others = data::shuffled_batches(sources, of_others(schema), seed, rank, end);
  result.training = data::shuffled_batches(std::move(sources), schema, seed, rank, end);
  return result.tokenizer && begins_with_bos(*result.files.front(), *result.tokenizer);
}

// How the files are read: "600 steps of 8 rows, from 12 files one after the other, shuffled in
// windows of 1000 rows".
std::string streams_text(const Config& config, size_t files, int64_t rows_of_step) {
  return fmt::format("{} of {}, from {} one after the other, {}", plural(config.steps, "step"),
                     plural(rows_of_step, "row"), plural(static_cast<int64_t>(files), "file"),
                     config.shuffle_window == 1
                         ? "as they stand"
                         : "shuffled in windows of " + plural(config.shuffle_window, "row"));
}

// Has files opened as their rows are needed: those of each entry by themselves where entries have
// weights, all together otherwise. Whether documents begin with bos, by the first.
bool open_streams(const Config& config, const std::shared_ptr<Opener>& opener,
                  const data::BatchSchema& schema, const data::Rank& rank, const Log& log,
                  TrainingData& result) {
  // A checkpoint's manifest has a record of each, and must not become too long to be read.
  constexpr size_t kMostFiles = 10'000;
  std::vector<fs::path> paths;
  std::vector<std::string> weights;
  std::vector<size_t> ends;  // of entries, among the paths
  for (const DatasetFile& entry : config.dataset_path) {
    std::ranges::move(data_paths(entry.path, config.train_split), std::back_inserter(paths));
    ends.push_back(paths.size());
    weights.resize(paths.size(), weight_text(entry));
  }
  if (paths.size() > kMostFiles)
    throw ConfigError(fmt::format("{}: found {} files, expected at most {} with {}",
                                  location(config, "dataset_path"), paths.size(), kMostFiles,
                                  described(config, "shuffle_window")));
  std::optional<bool> has_bos;
  size_t begin = 0;
  for (const size_t end : ends) {
    const bool first_has_bos = opener->look_at(paths[begin]);
    if (!has_bos) has_bos = first_has_bos;
    begin = end;
  }
  result.identity.resize(paths.size());
  parallel_for(paths.size(),
               [&](size_t i) { result.identity[i] = opener->identity(paths[i]) + weights[i]; });
  log(streams_text(config, paths.size(), rows_per_step(config, rank.world_size)));

  const bool is_mixed = config.dataset_path.front().weight.has_value();
  if (!is_mixed) ends = {paths.size()};
  std::vector<data::WeightedSequence> sequences;
  begin = 0;
  for (size_t i = 0; i < ends.size(); begin = ends[i++]) {
    data::StreamedRowsOptions options{
        .shards = {}, .window = config.shuffle_window, .seed = static_cast<uint64_t>(config.seed)};
    for (size_t shard = begin; shard < ends[i]; ++shard)
      options.shards.push_back(static_cast<int64_t>(shard));
    result.streams.push_back(std::make_shared<data::StreamedRows>(
        [opener, paths](int64_t shard, const std::stop_token& stop) {
          return opener->shard(paths[static_cast<size_t>(shard)], stop);
        },
        std::move(options)));
    sequences.push_back({result.streams.back(), config.dataset_path[i].weight.value_or(1)});
  }
  if (estimates_kl(config))
    result.training_of_others = data::mixed_batches(sequences, of_others(schema), rank);
  result.training = data::mixed_batches(std::move(sequences), schema, rank);
  return *has_bos;
}

// Of models that tell a row's sequences apart, rows are packed.
OpenedChoices open_choices(const Config& config, const data::BatchShape& shape, int32_t opening,
                           const data::Rank& rank, const Log& log, const TrainingData& data) {
  OpenedChoices opened{.asked = read_eval_choices(config, opening, *data.tokenizer,
                                                  has_segments(config) ? shape.length : 1),
                       .batches = {}};
  log(fmt::format("{}: {}, {}{}", path_text(config.eval_choices_path),
                  plural(std::ssize(opened.asked.questions), "question"),
                  plural(opened.asked.rows->count(), "row"),
                  opened.asked.cut > 0
                      ? fmt::format(", {} without the beginning of their prompt", opened.asked.cut)
                      : ""));
  opened.count = data::sequential_batch_count(*opened.asked.rows, shape, rank.world_size);
  opened.batches = data::sequential_batches(opened.asked.rows, data::BatchSchema(shape), rank);
  return opened;
}

}  // namespace

TrainingData open_data(const Config& config, const data::BatchSchema& schema, const Log& log,
                       data::Rank rank) {
  TrainingData result;
  result.steps = config.steps;
  const bool is_synthetic = config.dataset_type == DatasetType::synthetic;
  if (!config.tokenizer_path.empty() && (!is_synthetic || !config.add_tokens.empty()))
    result.tokenizer = read_at(location(config, "tokenizer_path"), [&] {
      return std::make_shared<const data::Tokenizer>(config.tokenizer_path, config.add_tokens);
    });
  if (is_synthetic) {
    result.training =
        data::synthetic_batches(schema, static_cast<int32_t>(config.model.vocabulary),
                                static_cast<uint64_t>(config.seed), rank, row_images(config));
    return result;
  }
  const auto opener = std::make_shared<Opener>(config, result.tokenizer, log);
  Parts held_out;
  const bool has_bos = config.shuffle_window > 0
                           ? open_streams(config, opener, schema, rank, log, result)
                           : open_files(config, *opener, schema, rank, log, result, held_out);
  if (evaluates(config))
    open_validation(config, schema, rank, std::move(held_out), *opener, result);
  result.chat_template = opener->used_template();
  require_use_of_template(config, result.chat_template.has_value());
  if (!samples(config) && !asks_choices(config)) return result;
  const PromptWriter writer(config, has_bos, *result.tokenizer, result.chat_template);
  if (samples(config)) result.sample_prompt = writer.sample_prompt();
  if (samples_prompts(config)) result.eval_prompts = writer.eval_prompts();
  if (asks_choices(config))
    result.choices = open_choices(config, schema.shape, writer.opening(), rank, log, result);
  return result;
}

std::vector<data::ShardRecord> shard_records(const TrainingData& data) {
  std::vector<data::ShardRecord> records;
  for (const std::shared_ptr<data::StreamedRows>& stream : data.streams)
    std::ranges::move(stream->records(), std::back_inserter(records));
  return records;
}

}  // namespace longshore::trainer
