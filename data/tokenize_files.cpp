#include "data/tokenize_files.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/document_reader.h"
#include "data/encode_example.h"
#include "data/line_reader.h"
#include "data/text_format.h"
#include "data/token_shard.h"

namespace longshore::data {
namespace {

namespace fs = std::filesystem;

// Large enough that handing it to a thread costs nothing beside encoding it.
constexpr size_t kChunkBytes = size_t{256} << 10;

struct Text {
  std::string text;
  int64_t line_number = 0;  // of an example
};
using Texts = std::vector<Text>;

struct Encoded {
  std::vector<Document> documents;
  int64_t skipped_lines = 0;
  std::string first_fault;  // why the first of these was skipped
};

// Encodes chunks on all cores and appends them in the order of their coming.
class OrderedEncoder {
 public:
  explicit OrderedEncoder(TokenShardWriter& writer)
      : writer_(writer), most_at_work_(std::max(1u, std::thread::hardware_concurrency())) {}

  void add(std::function<Encoded()> encode_chunk) {
    if (at_work_.size() == most_at_work_) append_first();
    at_work_.push_back(std::async(std::launch::async, std::move(encode_chunk)));
  }

  void finish() {
    while (!at_work_.empty()) append_first();
  }

  int64_t skipped_lines() const { return skipped_lines_; }
  const std::string& first_fault() const { return first_fault_; }

 private:
  void append_first() {
    const Encoded encoded = at_work_.front().get();
    at_work_.pop_front();
    for (const Document& document : encoded.documents)
      writer_.append(document.tokens, document.carries_loss);
    skipped_lines_ += encoded.skipped_lines;
    if (first_fault_.empty()) first_fault_ = encoded.first_fault;
  }

  TokenShardWriter& writer_;
  size_t most_at_work_;
  int64_t skipped_lines_ = 0;
  std::string first_fault_;
  std::deque<std::future<Encoded>> at_work_;
};

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

// A file, its documents one after the other, and what makes tokens of them.
class Input {
 public:
  Input(fs::path path, const Tokenizer& tokenizer, const TokenizeOptions& options)
      : path_(std::move(path)), tokenizer_(tokenizer), options_(options) {
    if (!options.chat_template.empty()) template_ = ChatTemplate::named(options.chat_template);
    if (is_jsonl(path_)) find_form();
  }

  LossMarks loss_marks() const {
    return form_.empty() || form_ == form_of(TextExample{}) ? LossMarks::absent
                                                            : LossMarks::present;
  }

  void read(OrderedEncoder& encoder) const {
    if (!is_jsonl(path_)) {
      DocumentReader reader(path_);
      read(encoder, [&](Text& next) { return reader.next(next.text); });
      return;
    }
    LineReader reader(path_);
    read(encoder, [&](Text& next) {
      const bool is_there = next_line(reader, next.text);
      next.line_number = reader.line_number();
      return is_there;
    });
  }

 private:
  template <class Next>
  void read(OrderedEncoder& encoder, Next next) const {
    Texts chunk;
    size_t chunk_bytes = 0;
    auto hand_over = [&] {
      encoder.add([this, texts = std::exchange(chunk, {})] {
        return is_jsonl(path_) ? encode_lines(texts) : encode_texts(texts);
      });
      chunk_bytes = 0;
    };
    for (Text text; next(text);) {
      chunk_bytes += text.text.size();
      chunk.push_back(std::move(text));
      if (chunk_bytes >= kChunkBytes) hand_over();
    }
    hand_over();
  }

  // The next line that is not blank. One too long is an error even where bad lines are skipped:
  // whoever wrote it hardly meant lines.
  static bool next_line(LineReader& reader, std::string& line) {
    while (reader.next(line))
      if (!is_blank(line)) return true;
    return false;
  }

  // What the first line that can be read looks like.
  void find_form() {
    LineReader reader(path_);
    for (std::string line; form_.empty() && next_line(reader, line);) {
      try {
        form_ = form_of(parse_example(line));
        form_line_ = reader.line_number();
      } catch (const DataError& error) {
        if (!options_.skip_bad_lines)
          throw DataError(at_line(path_, reader.line_number(), error.what()));
      }
    }
  }

  Encoded encode_texts(const Texts& texts) const {
    Encoded encoded;
    for (const Text& text : texts) {
      encoded.documents.push_back({tokenizer_.encode(text.text), {}});
      encoded.documents.back().tokens.push_back(tokenizer_.eos_id());
    }
    return encoded;
  }

  Encoded encode_lines(const Texts& lines) const {
    Encoded encoded;
    for (const Text& line : lines) {
      try {
        const Example example = parse_example(line.text);
        if (form_of(example) != form_)
          throw DataError("found " + form_of(example) + ", expected " + form_ + " as on line " +
                          std::to_string(form_line_));
        encoded.documents.push_back(encode(example, tokenizer_, template_));
      } catch (const DataError& error) {
        const std::string fault = at_line(path_, line.line_number, error.what());
        if (!options_.skip_bad_lines) throw DataError(fault);
        if (++encoded.skipped_lines == 1) encoded.first_fault = fault;
      }
    }
    return encoded;
  }

  fs::path path_;
  const Tokenizer& tokenizer_;
  const TokenizeOptions& options_;
  std::optional<ChatTemplate> template_;
  std::string form_;  // of an example; empty: plain text, or no example
  int64_t form_line_ = 0;
};

void check_output(std::span<const fs::path> inputs, const fs::path& output) {
  for (const fs::path& input : inputs)
    if (std::error_code error; fs::equivalent(input, output, error))
      throw DataError(output.string() + ": the output is also an input");
}

}  // namespace

TokenizeSummary tokenize_files(const Tokenizer& tokenizer, std::span<const fs::path> inputs,
                               const fs::path& output, const TokenizeOptions& options) {
  if (tokenizer.eos_id() < 0)
    throw DataError(tokenizer.path().string() +
                    ": the tokenizer has no eos; it is expected to end each document");
  check_output(inputs, output);
  std::deque<Input> files;  // they stay where they are
  for (const fs::path& input : inputs) files.emplace_back(input, tokenizer, options);
  const bool has_marks = std::ranges::any_of(
      files, [](const Input& file) { return file.loss_marks() == LossMarks::present; });

  TokenShardWriter writer(output, tokenizer.vocab_size(), tokenizer.content_hash(),
                          has_marks ? LossMarks::present : LossMarks::absent);
  OrderedEncoder encoder(writer);
  for (const Input& file : files) file.read(encoder);
  encoder.finish();
  if (writer.document_count() == 0)
    throw DataError(inputs.empty() ? output.string() + ": no input files"
                                   : inputs.front().string() + ": found no text to tokenize" +
                                         (encoder.skipped_lines() == 0
                                              ? ""
                                              : ": all lines were skipped, the first since " +
                                                    encoder.first_fault()));
  writer.finish(encoder.skipped_lines());
  return {.documents = writer.document_count(),
          .tokens = writer.token_count(),
          .skipped_lines = encoder.skipped_lines()};
}

}  // namespace longshore::data
