#include "longshore/data/tokenizers/tokenizer_json_parts.h"

#include "longshore/base/error.h"
#include "longshore/base/json_tree.h"
#include "longshore/base/printable.h"

namespace longshore::data {
namespace {

using Json = nlohmann::json;

// Far above what real tokenizers have; they bound time and memory.
constexpr size_t kMaxMerges = size_t{1} << 22;
constexpr size_t kMaxValues = size_t{1} << 20;  // apart from vocabulary and merges
constexpr size_t kMaxDepth = 16;

class PartsReader : public StrictJson {
 public:
  TokenizerJsonParts take() { return std::move(parts_); }

  bool null() override { return add(nullptr, "null"); }
  bool boolean(bool value) override { return add(value, "a boolean"); }
  bool number_integer(number_integer_t value) override {
    if (part_ == Part::score) return add_score(static_cast<double>(value), std::to_string(value));
    return add(value, std::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (part_ == Part::score) return add_score(static_cast<double>(value), std::to_string(value));
    if (part_ != Part::vocab) return add(value, std::to_string(value));
    if (value >= kMaxTokenizerTokens) refuse(std::to_string(value));
    if (parts_.vocab.size() == kMaxTokenizerTokens) refuse("one more");
    parts_.vocab.push_back({std::move(key_), static_cast<int64_t>(value)});
    return true;
  }
  bool number_float(number_float_t value, const string_t& text) override {
    if (part_ == Part::score) return add_score(value, excerpt(text));
    return add(json_number(value, text), excerpt(text));
  }

  bool string(string_t& value) override {
    if (part_ == Part::merges) {
      // In the older form a merge is "left right".
      const size_t space = value.find(' ');
      if (space == value.npos || value.find(' ', space + 1) != value.npos) refuse(in_quotes(value));
      add_merge(value.substr(0, space), value.substr(space + 1));
      return true;
    }
    if (part_ == Part::merge) {
      if (pair_.size() == 2) refuse("a third string");
      pair_.push_back(std::move(value));
      return true;
    }
    if (part_ == Part::score) {
      if (has_token_) refuse("a second string");
      has_token_ = true;
      token_ = std::move(value);
      return true;
    }
    return add(std::move(value), "a string");
  }

  bool start_object(size_t) override {
    if (is_at("vocab") && !parts_.has_vocab && !parts_.has_scores) {
      part_ = Part::vocab;
      parts_.has_vocab = true;
      return true;
    }
    return open(Json::object(), "an object");
  }

  bool key(string_t& value) override {
    if (part_ != Part::vocab && open_.back()->contains(value))
      refuse("a second " + in_quotes(value));
    key_ = std::move(value);
    return true;
  }

  bool end_object() override {
    if (part_ == Part::vocab)
      part_ = Part::other;
    else
      close();
    return true;
  }

  bool start_array(size_t) override {
    if (part_ == Part::merges) {
      part_ = Part::merge;
      pair_.clear();
      return true;
    }
    if (is_at("merges") && !parts_.has_merges) {
      part_ = Part::merges;
      parts_.has_merges = true;
      return true;
    }
    if (part_ == Part::scores) {
      part_ = Part::score;
      has_token_ = has_score_ = false;
      return true;
    }
    if (is_at("vocab") && !parts_.has_vocab && !parts_.has_scores) {
      part_ = Part::scores;
      parts_.has_scores = true;
      return true;
    }
    return open(Json::array(), "an array");
  }

  bool end_array() override {
    if (part_ == Part::merge) {
      if (pair_.size() != 2) refuse("the end after " + std::to_string(pair_.size()));
      add_merge(std::move(pair_[0]), std::move(pair_[1]));
      part_ = Part::merges;
    } else if (part_ == Part::score) {
      if (!has_score_) refuse("the end without a score");
      parts_.scores.emplace_back(std::move(token_), score_);
      part_ = Part::scores;
    } else if (part_ == Part::merges || part_ == Part::scores) {
      part_ = Part::other;
    } else {
      close();
    }
    return true;
  }

 protected:
  std::string expectation() const override {
    if (part_ == Part::vocab)
      return std::string(kVocabPlace) + "/" + in_quotes(key_) + ": expected an id below " +
             std::to_string(kMaxTokenizerTokens);
    if (part_ == Part::merges || part_ == Part::merge)
      return std::string(kMergesPlace) + "/" + std::to_string(parts_.merges.size()) +
             ": expected a merge, \"left right\" or [\"left\", \"right\"]";
    if (part_ == Part::scores || part_ == Part::score)
      return std::string(kVocabPlace) + "/" + std::to_string(parts_.scores.size()) +
             ": expected [\"token\", score], fewer than " + std::to_string(kMaxTokenizerTokens);
    if (open_.empty()) return "expected an object";
    return "at " + in_quotes(key_) + ": expected what a tokenizer.json holds";
  }

 private:
  enum class Part { other, vocab, merges, merge, scores, score };

  bool is_at(std::string_view key) const {
    return part_ == Part::other && open_.size() == 2 && in_model_ && key_ == key;
  }

  void add_merge(std::string left, std::string right) {
    if (parts_.merges.size() == kMaxMerges) refuse("one more than " + std::to_string(kMaxMerges));
    parts_.merges.emplace_back(std::move(left), std::move(right));
  }

  bool add_score(double score, const std::string& what) {
    if (!has_token_ || has_score_ || parts_.scores.size() + 1 >= kMaxTokenizerTokens) refuse(what);
    has_score_ = true;
    score_ = score;
    return true;
  }

  bool add(Json value, const std::string& what) {
    if (part_ != Part::other || open_.empty()) refuse(what);
    insert(std::move(value));
    return true;
  }

  bool open(Json container, const char* what) {
    if (part_ != Part::other) refuse(what);
    if (open_.empty()) {
      if (container.is_array()) refuse(what);
      parts_.document = std::move(container);
      open_.push_back(&parts_.document);
      return true;
    }
    if (open_.size() == kMaxDepth) refuse("deeper nesting");
    in_model_ = open_.size() == 1 ? key_ == "model" : in_model_;
    open_.push_back(insert(std::move(container)));
    return true;
  }

  void close() {
    open_.pop_back();
    if (open_.size() == 1) in_model_ = false;
  }

  Json* insert(Json value) {
    if (++value_count_ > kMaxValues) refuse("too many values");
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }

  TokenizerJsonParts parts_;
  Part part_ = Part::other;
  std::vector<Json*> open_;
  bool in_model_ = false;
  std::string key_;
  std::vector<std::string> pair_;
  std::string token_;
  double score_ = 0;
  bool has_token_ = false, has_score_ = false;
  size_t value_count_ = 0;
};

}  // namespace

TokenizerJsonParts split_tokenizer_json(std::string_view text) {
  PartsReader reader;
  reader.read(text);
  return reader.take();
}

}  // namespace longshore::data
