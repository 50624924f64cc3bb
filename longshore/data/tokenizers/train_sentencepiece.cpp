#include <sentencepiece_trainer.h>

#include <algorithm>
#include <exception>
#include <string>
#include <unordered_map>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/data/tokenizers/sentencepiece_file.h"
#include "longshore/data/tokenizers/tokenizer_model.h"
#include "longshore/data/tokenizers/train_tokenizer.h"

namespace longshore::data {
namespace {

// The lines of the texts that have something, one by one. What the texts' source throws is kept:
// the library is not made to be left by an exception.
class Lines final : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const NextText& next) : next_(next) { Next(); }

  bool done() const override { return done_; }
  void Next() override {
    do {
      if (at_ >= text_.size()) {
        done_ = !next_text();
        if (done_) return;
        at_ = 0;
      }
      const size_t end = std::min(text_.find('\n', at_), text_.size());
      line_ = text_.substr(at_, end - at_);
      at_ = end + 1;
    } while (line_.empty());
  }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  bool next_text() {
    try {
      return next_(text_);
    } catch (...) {
      error_ = std::current_exception();
      return false;
    }
  }

  const NextText& next_;
  std::string text_, line_;
  size_t at_ = 0;  // behind the line within the text
  bool done_ = false;
  std::exception_ptr error_;
};

}  // namespace

std::string train_sentencepiece(const NextText& next, size_t vocab_size) {
  Lines lines(next);
  std::string model;
  // What is not said here is sentencepiece's default: <unk>, <s> and </s> come first, spaces are
  // written as U+2581, and one is put before a text.
  const std::unordered_map<std::string, std::string> options{
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(vocab_size)},
      {"byte_fallback", "true"},
      {"character_coverage", "0.9999"},
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"max_sentence_length", std::to_string(kMaxTextBytes)},
      {"num_threads", "16"},  // written into the model, so the same on every machine
      {"minloglevel", "2"}};
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &lines, &model);
  lines.rethrow();
  if (!status.ok())
    throw DataError("cannot train a sentencepiece model: " + library_message(status.message()));
  return model;
}

}  // namespace longshore::data
