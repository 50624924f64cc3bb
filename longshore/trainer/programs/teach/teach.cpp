#include "longshore/trainer/programs/teach/teach.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/base/print.h"
#include "longshore/base/printable.h"
#include "longshore/base/progress.h"
#include "longshore/base/stop_signal.h"
#include "longshore/base/text.h"
#include "longshore/data/rows/batch.h"
#include "longshore/data/rows/token_beyond.h"
#include "longshore/data/rows/token_file.h"
#include "longshore/data/tokenizers/tokenizer.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/execution/executor.h"
#include "longshore/offload/lowering/pass_operands.h"
#include "longshore/trainer/config/backend_choice.h"
#include "longshore/trainer/config/config_text.h"
#include "longshore/trainer/config/help.h"
#include "longshore/trainer/config/hf_config.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/config/trainable_mask.h"
#include "longshore/trainer/config/unused_keys.h"
#include "longshore/trainer/config/validate.h"
#include "longshore/trainer/planner/room.h"
#include "longshore/trainer/step/batch_arguments.h"
#include "longshore/trainer/step/memory_report.h"
#include "longshore/trainer/step/training_plans.h"
#include "longshore/trainer/weights/folder_model.h"
#include "longshore/trainer/weights/load_parameters.h"
#include "longshore/trainer/weights/stored_as.h"
#include "longshore/trainer/weights/stored_formats.h"

namespace longshore::trainer {
namespace {

using data::TokenFile;

const std::vector<std::string> kKeys{"max_target_length",
                                     "per_device_batch_size",
                                     "dtype",
                                     "backend",
                                     "frozen_weight_dtype",
                                     "frozen_weight_double_quantization",
                                     "parameter_memory_host_offload",
                                     "parameter_layers_on_device",
                                     "prefetch_layers",
                                     "allow_unknown_config_keys"};

// The most likely tokens at each position of a batch, and their log-probabilities [B,T,K].
struct Said {
  std::vector<int32_t> tokens;
  std::vector<float> log_probs;
};

class Teacher {
 public:
  Teacher(const TeachRequest& request, const Config& config, models::DecoderConfig model,
          models::Target target)
      : folder_(request.teacher),
        model_(std::move(model)),
        top_k_(request.top_k),
        backend_(make_backend(target)),
        arguments_(*backend_, ledger_) {
    models::Model stored = models::decoder(model_);
    set_trainable(stored, [](const std::string&) { return false; });
    Config storing = config;
    storing.stored_formats = stored_formats(folder_, model_);
    quantize_frozen(storing, model_.dtype, stored);
    layout_ = offload::lay_out(stored, layout_options(config));
    asked_ = stored_as(
        layout_, models::decoder(model_, {.head = models::Head::top_log_probs, .top_k = top_k_}));
    offload::Transfers transfers;
    if (config.prefetch_layers) transfers.prefetch_layers = *config.prefetch_layers;
    plan_ = plan_forward(asked_, layout_, "teacher", transfers, target);
    if (const std::string table = shortage(analyze({&*plan_}), *backend_); !table.empty())
      throw PlanError(fmt::format("{} does not fit on this machine:\n{}Nearest: {}",
                                  path_text(folder_), table, smaller(config)));
    print(stderr, fmt::format("{}: {}\n", path_text(folder_), memory_text()));
    print(stderr,
          load_weights({.folder = folder_}, model_, layout_, arguments_, Copies::compute) + "\n");
    arenas_.emplace(*backend_, std::vector<const offload::Plan*>{&*plan_});
    executable_.emplace(*plan_, *backend_, arguments_, *arenas_);
  }

  data::BatchSchema schema() const { return batch_schema(asked_, {model_.batch, model_.length}); }

  Said ask(const data::Batch& batch) {
    write_batch(batch, arguments_);
    executable_->run(ledger_);
    backend_->synchronize();
    const auto count = static_cast<size_t>(model_.batch * model_.length * top_k_);
    Said said{.tokens = std::vector<int32_t>(count), .log_probs = std::vector<float>(count)};
    read("output.0", said.tokens);
    read("output.1", said.log_probs);
    return said;
  }

 private:
  // What would take less, of what is not so yet.
  std::string smaller(const Config& config) const {
    std::vector<std::string> ways;
    if (!config.parameter_memory_host_offload) ways.push_back("parameter_memory_host_offload=true");
    if (model_.batch > 1) ways.push_back("a smaller per_device_batch_size");
    ways.push_back("a smaller max_target_length");
    if (config.frozen_weight_dtype == FrozenWeightDtype::automatic)
      ways.push_back("frozen_weight_dtype=nf4");
    return join(ways);
  }

  // Of each kind, as planned.
  std::string memory_text() const {
    std::vector<std::string> kinds;
    const MemoryByKind memory = analyze({&*plan_});
    for (const offload::MemoryKind kind : offload::kMemoryKinds)
      if (const offload::MemoryAnalysis& one = memory[kind]; one.peak_bytes > 0)
        kinds.push_back(fmt::format("{} of {} memory", offload::bytes_text(one.peak_bytes),
                                    offload::name(kind)));
    return join(kinds);
  }

  template <class T>
  void read(const char* output, std::vector<T>& values) const {
    arguments_.read(offload::host_name(output), values.data(),
                    std::ssize(values) * static_cast<int64_t>(sizeof(T)));
  }

  std::filesystem::path folder_;
  models::DecoderConfig model_;
  int64_t top_k_;
  std::unique_ptr<offload::Backend> backend_;
  offload::ParameterLayout layout_;
  models::Model asked_;
  std::optional<offload::Plan> plan_;
  offload::Ledger ledger_;
  offload::Arguments arguments_;
  std::optional<offload::Arenas> arenas_;
  std::optional<offload::Executable> executable_;
};

// Some tokens of a document, whose first is an input alone, at a place of a batch.
struct Piece {
  TokenFile::Range tokens;
  int64_t row = 0, at = 0;

  int64_t positions() const { return tokens.count - 1; }
};

// The pieces of a file's documents in their order, as many as a batch has room for at a time.
class Pieces {
 public:
  Pieces(const TokenFile& file, data::BatchShape shape) : file_(file), shape_(shape) {}

  // None when all have been given.
  std::vector<Piece> next() {
    std::vector<Piece> pieces;
    int64_t row = 0, at = 0;
    for (; document_ < file_.document_count(); ++document_, done_ = 0) {
      const TokenFile::Range range = file_.document(document_);
      for (; done_ + 1 < range.count; done_ += shape_.length) {
        Piece piece{
            .tokens = {range.first + done_, std::min(shape_.length + 1, range.count - done_)}};
        if (at + piece.positions() > shape_.length) {
          ++row;
          at = 0;
        }
        if (row == shape_.rows) return pieces;
        piece.row = row;
        piece.at = at;
        at += piece.positions();
        pieces.push_back(piece);
      }
    }
    return pieces;
  }

 private:
  const TokenFile& file_;
  const data::BatchShape shape_;
  int64_t document_ = 0, done_ = 0;  // tokens of it
};

// Documents, and what stands beside their tokens.
class TaughtFile {
 public:
  // A teacher may know ids that the tokenizer has not: it has room for more.
  TaughtFile(const TokenFile& from, const std::filesystem::path& out, int64_t top_k,
             int64_t vocabulary)
      : from_(from),
        top_k_(static_cast<size_t>(top_k)),
        beside_(2 * top_k_),
        writer_(out, std::max(from.vocab_size(), static_cast<int32_t>(vocabulary)),
                from.tokenizer_fingerprint(), from.loss_mask(), data::Pairing::absent,
                {{data::kTeacherTokens, top_k, data::TokenColumn::Element::int32},
                 {data::kTeacherLogProbs, top_k}}) {}

  // Of the token of that number, whose forerunners have been set or have nothing. Throws Error
  // where it is no log-probability.
  void set(int64_t token, const int32_t* tokens, const float* log_probs) {
    if (!std::isfinite(log_probs[0]))
      throw Error(fmt::format("{}: token {}: the teacher gives no finite number there",
                              path_text(from_.path()), token));
    pass_to(token);
    for (size_t i = 0; i < top_k_; ++i) put(i, tokens[i], log_probs[i]);
    append();
  }

  void finish() {
    pass_to(from_.token_count());
    for (int64_t i = 0; i < from_.document_count(); ++i) {
      const TokenFile::Range range = from_.document(i);
      std::vector<int32_t> tokens(static_cast<size_t>(range.count));
      std::vector<uint8_t> carries_loss(tokens.size());
      from_.read(range.first, tokens);
      from_.read_loss_mask(range.first, carries_loss);
      writer_.append(tokens, carries_loss);
    }
    writer_.finish(from_.skipped_lines());
  }

 private:
  // Over tokens that nothing is said of.
  void pass_to(int64_t token) {
    while (known_ < token) {
      for (size_t i = 0; i < top_k_; ++i) put(i, -1, data::kLeastLogProb);
      append();
    }
  }

  void put(size_t i, int32_t token, float log_prob) {
    beside_[i] = std::bit_cast<uint32_t>(token);
    beside_[top_k_ + i] = std::bit_cast<uint32_t>(std::max(log_prob, data::kLeastLogProb));
  }

  void append() {
    writer_.append_beside(std::as_bytes(std::span(beside_)));
    ++known_;
  }

  const TokenFile& from_;
  const size_t top_k_;
  std::vector<uint32_t> beside_;  // one token
  data::TokenFileWriter writer_;
  int64_t known_ = 0;  // of so many tokens all is written
};

data::Batch batch_of(const std::vector<Piece>& pieces, const TokenFile& file,
                     const data::BatchSchema& schema) {
  data::Batch batch = data::padding(schema);
  std::vector<int32_t> segments(static_cast<size_t>(schema.shape.rows), data::kPadding);
  for (const Piece& piece : pieces) {
    std::vector<int32_t> tokens(static_cast<size_t>(piece.tokens.count));
    file.read(piece.tokens.first, tokens);
    const data::Row row(batch, piece.row);
    row.put(piece.at, ++segments[static_cast<size_t>(piece.row)], tokens,
            std::vector<uint8_t>(tokens.size(), 1));
  }
  return batch;
}

void require_documents(const TokenFile& file) {
  const std::string found = !file.has_documents()       ? "a token file of version 1"
                            : file.has_pairs()          ? "pairs of answers"
                            : !file.columns().empty()   ? "numbers beside its tokens already"
                            : file.image_count() > 0    ? "images"
                            : file.document_count() < 1 ? "nothing"
                                                        : "";
  if (!found.empty())
    throw DataError(path_text(file.path()) + ": found " + found +
                    ", expected documents of text alone, as tokenize writes them");
}

// That all of it is as it was written, and that the teacher knows its tokens. It takes as long as
// it takes to read the file.
void check_contents(const TokenFile& file, const TeachRequest& request, int64_t vocabulary) {
  const double bytes = static_cast<double>(std::filesystem::file_size(file.path()));
  std::atomic<int64_t> bytes_read = 0;
  {
    const Progress progress("verifying the token file",
                            [&] { return static_cast<double>(bytes_read) / bytes; });
    file.verify({}, &bytes_read);
  }
  for (int64_t i = 0; i < file.document_count(); ++i)
    file.document(i);  // throws where it is damaged
  if (const auto beyond = data::token_beyond(file, vocabulary))
    throw DataError(fmt::format("{}: token {} is {}, expected less than {}, the vocab_size of {}",
                                path_text(request.tokens), beyond->number, beyond->id, vocabulary,
                                path_text(request.teacher)));
}

// Until it is whole, what stands beside tokens is there twice.
void require_disk(const TokenFile& file, const TeachRequest& request) {
  constexpr uint64_t kValueBytes = 4, kColumns = 2;
  const uint64_t bytes = 2 * kColumns * kValueBytes * static_cast<uint64_t>(request.top_k) *
                         static_cast<uint64_t>(file.token_count());
  const std::filesystem::path folder = std::filesystem::absolute(request.out).parent_path();
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  if (error || space.available >= bytes) return;  // writing it says the rest
  throw FileError(fmt::format(
      "{}: found {} free in its folder, expected {}: {} of a teacher beside each of {}, 8 bytes "
      "each, and as much until it is whole; nearest: a smaller --top-k, or text in several files",
      path_text(request.out), offload::bytes_text(static_cast<int64_t>(space.available)),
      offload::bytes_text(static_cast<int64_t>(bytes)), plural(request.top_k, "token"),
      plural(file.token_count(), "token")));
}

// Where the folder has a tokenizer. Two files of one tokenizer may differ, and a teacher needs
// none, so nothing of that is an error.
void warn_of_tokenizer(const TokenFile& file, const TeachRequest& request) try {
  const std::optional<std::filesystem::path> found = data::tokenizer_file(request.teacher);
  if (!found || data::Tokenizer(*found).fingerprint() == file.tokenizer_fingerprint()) return;
  print(stderr, fmt::format("warning: {}: its tokens are of another tokenizer file than {}; "
                            "expected the ids that the teacher was trained with\n",
                            path_text(file.path()), path_text(*found)));
} catch (const DataError& error) {
  print(stderr, std::string("warning: ") + error.what() + "\n");
}

void warn_of_length(const TeachRequest& request, const models::DecoderConfig& model) {
  if (const std::optional<int64_t> most = model.max_position_embeddings;
      most && model.length > *most)
    print(stderr,
          fmt::format("warning: max_target_length: {} is more than max_position_embeddings = {} of "
                      "{}: the model was not trained for it\n",
                      model.length, *most, path_text(request.teacher / "config.json")));
}

}  // namespace

void teach(const TeachRequest& request) {
  for (const std::string& text : request.overrides)
    if (std::error_code error;
        text.find('=') == std::string::npos && std::filesystem::exists(text, error))
      throw ConfigError("command line: found " + path_text(text) + " beside " +
                        path_text(request.tokens) +
                        ", expected one token file; nearest: tokenize --out, of all texts");
  const Config config = override_config({}, request.overrides, kKeys);
  const models::Target target = choose_backend(config).target;
  require_dtype(config, target);
  const std::filesystem::path inputs[] = {request.tokens};
  require_no_input(request.out, inputs);
  models::DecoderConfig model = read_folder_model(request.teacher, {}, unknown_keys(config));
  require_tokens_of_batch(config);
  model.dtype = compute_dtype(config, target);
  model.batch = config.per_device_batch_size;
  model.length = config.max_target_length;
  model.segments = true;
  require_layers_on_device(config, request.teacher, model.layers);
  for (const std::string& line :
       unused_keys_of(config, {"parameter_memory_host_offload", "frozen_weight_dtype"}))
    print(stderr, "warning: " + line + "\n");
  const int64_t most = std::min(models::kMaxTargets, model.vocabulary);
  if (request.top_k < 1 || request.top_k > most)
    throw ConfigError(fmt::format("--top-k: found {}, expected 1 to {}", request.top_k, most));
  const TokenFile file(request.tokens);
  require_documents(file);
  require_disk(file, request);
  warn_of_tokenizer(file, request);
  warn_of_length(request, model);
  check_contents(file, request, model.vocabulary);

  const StopSignal listening;
  TaughtFile taught(file, request.out, request.top_k, model.vocabulary);
  Teacher teacher(request, config, model, target);
  const data::BatchSchema schema = teacher.schema();
  Pieces all(file, schema.shape);
  Progress progress("asking the teacher", file.token_count());
  int64_t done = 0;
  for (std::vector<Piece> pieces; !(pieces = all.next()).empty();) {
    if (StopSignal::is_there())
      throw Error(path_text(request.out) + ": " + StopSignal::name() +
                  " while it was written; nothing is left of it");
    const Said said = teacher.ask(batch_of(pieces, file, schema));
    for (const Piece& piece : pieces)
      for (int64_t i = 0; i < piece.positions(); ++i) {
        const int64_t at = (piece.row * schema.shape.length + piece.at + i) * request.top_k;
        taught.set(piece.tokens.first + i + 1, said.tokens.data() + at, said.log_probs.data() + at);
      }
    const int64_t end = pieces.back().tokens.first + pieces.back().tokens.count;
    progress.add(end - std::exchange(done, end));
  }
  taught.finish();
  print(stdout, fmt::format("{}: {}, {}, of each the {} that {} finds most likely\n",
                            path_text(request.out), plural(file.token_count(), "token"),
                            plural(file.document_count(), "document"), request.top_k,
                            path_text(request.teacher)));
}

std::string teach_footer() {
  return "Keys, with what is taken by default; parameter_layers_on_device is a number here:\n" +
         config_help(Config{}, kKeys);
}

}  // namespace longshore::trainer
