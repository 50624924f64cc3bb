#include "longshore/data/tokenizers/tekken.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/strict_json.h"
#include "longshore/data/images/base64.h"
#include "longshore/data/tokenizers/ranked_tokens.h"

namespace longshore::data {
namespace {

// Far above what real files have; they bound time and memory.
constexpr size_t kMaxTokens = size_t{1} << 22;
constexpr size_t kMaxSpecialTokens = size_t{1} << 16;
constexpr size_t kMaxDepth = 16;

// Those of the versions up to v7, which do not list them.
constexpr std::array kOlderSpecialTokens{"<unk>",
                                         "<s>",
                                         "</s>",
                                         "[INST]",
                                         "[/INST]",
                                         "[AVAILABLE_TOOLS]",
                                         "[/AVAILABLE_TOOLS]",
                                         "[TOOL_RESULTS]",
                                         "[/TOOL_RESULTS]",
                                         "[TOOL_CALLS]",
                                         "[IMG]",
                                         "<pad>",
                                         "[IMG_BREAK]",
                                         "[IMG_END]",
                                         "[PREFIX]",
                                         "[MIDDLE]",
                                         "[SUFFIX]",
                                         "[SYSTEM_PROMPT]",
                                         "[/SYSTEM_PROMPT]",
                                         "[TOOL_CONTENT]"};
constexpr std::array<std::string_view, 4> kVersionsWithoutList{"v1", "v2", "v3", "v7"};

struct TekkenFile {
  std::string pattern, version;
  std::optional<uint64_t> vocab_size, special_count;
  std::vector<std::string> tokens;  // bytes, by rank
  std::optional<std::vector<SpecialToken>> special;
};

class TekkenReader : public StrictJson {
 public:
  TekkenFile take() { return std::move(file_); }

  bool null() override {
    const bool is_no_list = keys_.size() == 1 && at() == "special_tokens";
    if (!is_no_list && !is_any() && !(is_entry() && at() == "token_str")) refuse("null");
    return true;
  }
  bool boolean(bool value) override {
    if (is_any()) return true;
    if (list() != "special_tokens" || at() != "is_control") refuse(value ? "true" : "false");
    is_control_ = value;
    return true;
  }
  bool number_integer(number_integer_t value) override {
    if (!is_any()) refuse(std::to_string(value));
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (is_any()) return true;
    if (list() == "config" && at() == "default_vocab_size")
      file_.vocab_size = value;
    else if (list() == "config" && at() == "default_num_special_tokens")
      file_.special_count = value;
    else if (at() == "rank" && is_entry())
      rank_ = value;
    else if (list() != "config" || at() != "num_vocab_tokens")
      refuse(std::to_string(value));
    return true;
  }
  bool number_float(number_float_t, const string_t& text) override {
    if (!is_any()) refuse(excerpt(text));
    return true;
  }
  bool string(string_t& value) override {
    if (is_any()) return true;
    if (list() == "config" && at() == "pattern")
      file_.pattern = value;
    else if (list() == "config" && at() == "version")
      file_.version = value;
    else if (at() == "token_bytes" && list() == "vocab" && is_entry())
      bytes_ = value;
    else if (at() == "token_str" && is_entry())
      text_ = value;
    else
      refuse("a string");
    return true;
  }

  bool start_object(size_t) override {
    const bool is_root = keys_.empty();
    if (!is_root && !is_any() && !(at() == "config" && keys_.size() == 1) && !is_in_list())
      refuse("an object");
    push();
    bytes_.reset();
    text_.reset();
    rank_.reset();
    return true;
  }
  bool key(string_t& name) override {
    keys_.back() = std::move(name);
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    if (is_in_list() && !is_any()) finish_entry();
    return true;
  }
  bool start_array(size_t) override {
    if (keys_.empty()) refuse("an array");
    if (!is_any() && (keys_.size() != 1 || (at() != "vocab" && at() != "special_tokens")))
      refuse("an array");
    if (at() == "special_tokens" && keys_.size() == 1) file_.special.emplace();
    push();
    return true;
  }
  bool end_array() override {
    keys_.pop_back();
    return true;
  }

 protected:
  std::string expectation() const override {
    std::string place;
    for (const std::string& key : keys_) place += (place.empty() ? "" : "/") + excerpt(key);
    if (list() == "vocab") return entry_place("vocab", file_.tokens.size());
    if (list() == "special_tokens")
      return entry_place("special_tokens", file_.special ? file_.special->size() : 0);
    return (place.empty() ? "the file" : place) + ": expected what a tekken.json holds";
  }

 private:
  static std::string entry_place(const std::string& list, size_t count) {
    return list + "/" + std::to_string(count) + ": expected rank " + std::to_string(count) +
           (list == "vocab" ? ", token_bytes and token_str" : ", token_str and is_control");
  }

  std::string_view at() const { return keys_.empty() ? std::string_view() : keys_.back(); }
  // The key of the file under which the present value stands.
  std::string_view list() const { return keys_.size() < 2 ? std::string_view() : keys_[0]; }
  bool is_in_list() const {
    return keys_.size() == 2 && (keys_[0] == "vocab" || keys_[0] == "special_tokens");
  }
  bool is_entry() const {
    return keys_.size() == 3 && (keys_[0] == "vocab" || keys_[0] == "special_tokens");
  }
  // Within what says nothing of text.
  bool is_any() const {
    constexpr std::array<std::string_view, 6> kOthers{
        "image", "multimodal", "audio", "model_settings_builder", "type", "version"};
    return !keys_.empty() && std::ranges::find(kOthers, keys_[0]) != kOthers.end();
  }

  void push() {
    if (keys_.size() == kMaxDepth) refuse("deeper nesting");
    keys_.emplace_back();
  }

  void finish_entry() {
    const bool is_token = keys_[0] == "vocab";
    const size_t count = is_token ? file_.tokens.size() : file_.special->size();
    if (!rank_ || *rank_ != count) refuse(rank_ ? "rank " + std::to_string(*rank_) : "no rank");
    if (is_token ? !bytes_ : !text_) refuse(is_token ? "no token_bytes" : "no token_str");
    if (count == (is_token ? kMaxTokens : kMaxSpecialTokens)) refuse("one more than can be");
    if (!is_token) {
      file_.special->push_back({*std::move(text_), std::exchange(is_control_, true)});
      return;
    }
    try {
      const std::vector<std::byte> token = decode_base64(*bytes_);
      file_.tokens.emplace_back(reinterpret_cast<const char*>(token.data()), token.size());
    } catch (const DataError& error) {
      throw DataError("vocab/" + std::to_string(count) + "/token_bytes: " + error.what());
    }
  }

  TekkenFile file_;
  std::vector<std::string> keys_;  // of the open objects and arrays; "" for an array's
  std::optional<std::string> bytes_, text_;
  std::optional<uint64_t> rank_;
  bool is_control_ = true;
};

std::vector<SpecialToken> special_tokens_of(TekkenFile& file) {
  if (!file.special &&
      std::ranges::find(kVersionsWithoutList, file.version) == kVersionsWithoutList.end())
    throw DataError("special_tokens: expected a list, as version is " + in_quotes(file.version) +
                    ", found none");
  std::vector<SpecialToken> special;
  if (file.special)
    special = *std::move(file.special);
  else
    for (const char* name : kOlderSpecialTokens) special.push_back({name});
  const uint64_t count = file.special_count.value_or(0);
  if (count < special.size() || count > kMaxSpecialTokens)
    throw DataError("config/default_num_special_tokens: expected " +
                    std::to_string(special.size()) + " to " + std::to_string(kMaxSpecialTokens) +
                    ", found " + std::to_string(count));
  for (size_t i = special.size(); i < count; ++i)
    special.push_back({"<SPECIAL_" + std::to_string(i) + ">"});
  return special;
}

}  // namespace

bool is_tekken(std::string_view bytes) {
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  return first != bytes.npos && bytes[first] == '{' &&
         bytes.find("\"default_num_special_tokens\"") != bytes.npos;
}

std::string tokenizer_json_of_tekken(std::string_view bytes) {
  TekkenReader reader;
  reader.read(bytes);
  TekkenFile file = reader.take();
  if (file.pattern.empty()) throw DataError("config/pattern: expected an expression, found none");
  RankedTokens ranked{.special = special_tokens_of(file),
                      .special_first = true,
                      .split = std::move(file.pattern),
                      .bos = "<s>"};
  const uint64_t size = file.vocab_size.value_or(0), special = ranked.special.size();
  if (size < special || size - special > file.tokens.size())
    throw DataError("config/default_vocab_size: expected " + std::to_string(special) + " to " +
                    std::to_string(special + file.tokens.size()) + ", found " +
                    std::to_string(size));
  file.tokens.resize(size - special);  // what lies behind is of larger vocabularies
  ranked.tokens = std::move(file.tokens);
  return tokenizer_json_of_ranked(std::move(ranked));
}

}  // namespace longshore::data
