#include "longshore/data/text/tokenize_files.h"

#include <algorithm>
#include <deque>
#include <future>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/processors.h"
#include "longshore/base/progress.h"
#include "longshore/base/stop_signal.h"
#include "longshore/base/text.h"
#include "longshore/data/files/text_format.h"
#include "longshore/data/rows/rows.h"
#include "longshore/data/rows/token_file.h"

namespace longshore::data {
namespace {

namespace fs = std::filesystem;

// Encodes chunks on all cores and appends them in the order of their coming.
class OrderedEncoder {
 public:
  explicit OrderedEncoder(TokenFileWriter& writer)
      : writer_(writer), most_at_work_(static_cast<size_t>(usable_processors())) {}

  void add(TextInput::EncodeChunk encode_chunk) {
    if (at_work_.size() == most_at_work_) append_first();
    at_work_.push_back(std::async(std::launch::async, std::move(encode_chunk)));
  }

  void finish() {
    while (!at_work_.empty()) append_first();
  }

  int64_t skipped_lines() const { return skipped_lines_; }
  const std::string& first_fault() const { return first_fault_; }
  int64_t with_own_bos_eos() const { return with_own_bos_eos_; }
  int64_t rewritten() const { return rewritten_; }
  int64_t made_of_these() const { return made_of_these_; }

 private:
  void append_first() {
    const EncodedTexts encoded = at_work_.front().get();
    at_work_.pop_front();
    for (const Document& document : encoded.documents) {
      writer_.append(document.tokens, document.carries_loss, document.images);
      writer_.append_beside(std::as_bytes(std::span(document.beside)));
    }
    skipped_lines_ += encoded.skipped_lines;
    with_own_bos_eos_ += encoded.with_own_bos_eos;
    rewritten_ += encoded.rewritten;
    made_of_these_ += encoded.made_of_these;
    if (first_fault_.empty()) first_fault_ = encoded.first_fault;
  }

  TokenFileWriter& writer_;
  size_t most_at_work_;
  int64_t skipped_lines_ = 0;
  int64_t with_own_bos_eos_ = 0;
  int64_t rewritten_ = 0, made_of_these_ = 0;
  std::string first_fault_;
  std::deque<std::future<EncodedTexts>> at_work_;
};

void check_output(const Tokenizer& tokenizer, std::span<const fs::path> inputs,
                  const fs::path& output) {
  if (is_text(output))
    throw ConfigError(path_text(output) +
                      ": found the name of a text file, expected another to write "
                      "tokens to");
  std::error_code error;
  if (fs::is_regular_file(output, error) && fs::file_size(output, error) > 0 &&
      !begins_as_token_file(output))
    throw ConfigError(path_text(output) +
                      ": found a file that holds no tokens, expected a name that is not taken, or "
                      "a token file's");
  std::vector<fs::path> read = tokenizer.files();
  read.insert(read.end(), inputs.begin(), inputs.end());
  require_no_input(output, read);
}

// Of the numbers beside tokens, which all files have alike.
std::vector<TokenColumn> columns_of(const std::deque<TextInput>& files,
                                    std::span<const fs::path> inputs) {
  std::vector<TokenColumn> columns;
  for (size_t i = 0; i < files.size(); ++i) {
    if (files[i].beside() != files[0].beside())
      throw DataError(path_text(inputs[i]) + ": found " + join(files[i].beside()) +
                      " beside tokens, expected " + join(files[0].beside()) + ", as in " +
                      path_text(inputs[0]));
  }
  if (files.empty()) return columns;
  for (const std::string& name : files[0].beside()) columns.push_back({.name = name});
  return columns;
}

// Of all files; 0 where those of one cannot be told from its size.
int64_t text_bytes(std::span<const fs::path> inputs) {
  int64_t bytes = 0;
  for (const fs::path& input : inputs) {
    const auto format = text_format(input);
    const bool is_plain = compression_of(input) == Compression::none &&
                          (format == TextFormat::paragraphs || format == TextFormat::json_lines ||
                           format == TextFormat::json);
    std::error_code error;
    const auto size = fs::file_size(input, error);
    if (!is_plain || error) return 0;
    bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

// What became of texts that write bos or eos themselves.
std::string own_bos_eos_text(int64_t texts, const Tokenizer& tokenizer, AddBosEos add) {
  std::string names = in_quotes(tokenizer.spelling(tokenizer.eos_id()));
  if (tokenizer.bos_id() >= 0)
    names = in_quotes(tokenizer.spelling(tokenizer.bos_id())) + " or " + names;
  const bool one = texts == 1;
  const std::string found = plural(texts, "text") + (one ? " begins" : " begin") + " or " +
                            (one ? "ends" : "end") + " with " + names +
                            (one ? " itself" : " themselves");
  return add == AddBosEos::always
             ? found + " and " + (one ? "gets" : "get") +
                   " a second one (add_bos_eos: missing would put none there)"
             : found + ": no second one is put there (add_bos_eos: always would)";
}

// What became of conversations of which a template writes turns otherwise once others follow.
std::string rewritten_text(int64_t conversations, int64_t documents) {
  return "the chat template writes earlier turns otherwise than the last one: " +
         plural(conversations, "conversation") + " became " + plural(documents, "document") +
         ", each up to one turn of the assistant, which is learnt";
}

}  // namespace

TokenizeSummary tokenize_files(const Tokenizer& tokenizer, std::span<const fs::path> inputs,
                               const fs::path& output, const TokenizeOptions& options) {
  if (tokenizer.eos_id() < 0)
    throw DataError(path_text(tokenizer.path()) +
                    ": the tokenizer has no eos, which is expected to end each document; for a "
                    "tokenizer.json the eos_token of tokenizer_config.json beside it is one");
  check_output(tokenizer, inputs, output);
  std::deque<TextInput> files;  // they stay where they are
  for (const fs::path& input : inputs)
    files.emplace_back(input, tokenizer, options, output.parent_path());
  const bool has_marks = std::ranges::any_of(
      files, [](const TextInput& file) { return file.loss_mask() == LossMask::present; });

  const bool has_pairs = options.kind == ExampleKind::preference;
  TokenFileWriter writer(output, tokenizer.vocab_size(), tokenizer.fingerprint(),
                         has_marks || has_pairs ? LossMask::present : LossMask::absent,
                         has_pairs ? Pairing::present : Pairing::absent, columns_of(files, inputs));
  OrderedEncoder encoder(writer);
  std::optional<Progress> progress;
  if (options.shows_progress) progress.emplace("tokenizing", text_bytes(inputs));
  for (const TextInput& file : files)
    file.read([&](TextInput::EncodeChunk chunk, int64_t bytes) {
      if (StopSignal::is_there() || options.stop.stop_requested())
        throw Error(path_text(output) + ": " +
                    (StopSignal::is_there() ? StopSignal::name() : "the end of the run") +
                    " while it was written; nothing is left of it");
      encoder.add(std::move(chunk));
      if (progress) progress->add(bytes);
    });
  encoder.finish();
  progress.reset();
  if (writer.document_count() == 0)
    throw NoRowsError(inputs.empty() ? path_text(output) + ": no input files"
                                     : path_text(inputs.front()) + ": found no text to learn" +
                                           (encoder.skipped_lines() == 0
                                                ? ""
                                                : ": all lines were skipped, the first since " +
                                                      encoder.first_fault()));
  writer.finish(encoder.skipped_lines());
  if (options.say && encoder.with_own_bos_eos() > 0 &&
      options.encode.add_bos_eos != AddBosEos::never)
    options.say(
        path_text(inputs.size() == 1 ? inputs.front() : output) + ": " +
        own_bos_eos_text(encoder.with_own_bos_eos(), tokenizer, options.encode.add_bos_eos));
  if (options.say && encoder.rewritten() > 0)
    options.say(path_text(inputs.size() == 1 ? inputs.front() : output) + ": " +
                rewritten_text(encoder.rewritten(), encoder.made_of_these()));
  return {.documents = writer.document_count(),
          .tokens = writer.token_count(),
          .images = writer.image_count(),
          .skipped_lines = encoder.skipped_lines()};
}

}  // namespace longshore::data
