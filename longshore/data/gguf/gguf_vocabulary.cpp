#include "longshore/data/gguf/gguf_vocabulary.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <variant>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/data/tokenizers/known_splits.h"
#include "longshore/data/tokenizers/tokenizer_json.h"
#include "longshore/data/tokenizers/unicode_sets.h"

namespace longshore::data {
namespace {

constexpr const char* kSpace = "\u2581";
constexpr int32_t kNoRank = -1;

// As llama.cpp numbers them.
enum TokenType : int32_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

// How a text is cut, as llama.cpp names it. "" stands for each digit by itself.
struct KnownSplit {
  const char* name;
  std::vector<std::string> expressions;
  bool ignores_merges = false;
};

const std::vector<KnownSplit>& known_splits() {
  static const std::vector<KnownSplit> all{{"llama-bpe", {kLlama3Split}, true},
                                           {"dbrx", {kLlama3Split}},
                                           {"qwen2", {kQwenSplit}},
                                           {"gpt-4o", {kLlama4Split}},
                                           {"tekken", {kTekkenSplit}, true},
                                           {"gpt-2", {kGpt2Split}},
                                           {"smollm", {"", kGpt2Split}}};
  return all;
}

// The expression of a step that cuts at each match; nothing for another step.
std::optional<std::string> expression_of(const PreTokenizerStep& step) {
  const auto* split = std::get_if<Split>(&step);
  if (!split || split->behavior != SplitBehavior::isolated || split->invert) return std::nullopt;
  if (const auto* text = std::get_if<std::string>(&split->pattern)) return *text;
  const auto set = std::get<std::span<const CharacterRange>>(split->pattern);
  if (set.data() == numeric_characters().data()) return "";
  return std::nullopt;
}

// A step as messages name it: its type in a tokenizer.json, and the expression.
std::string described(const PreTokenizerStep& step) {
  if (std::holds_alternative<Metaspace>(step)) return "Metaspace";
  if (std::holds_alternative<PrefixSpace>(step)) return "ByteLevel with add_prefix_space";
  const auto* text = std::get_if<std::string>(&std::get<Split>(step).pattern);
  if (text) return "Split at " + in_quotes(*text);
  return expression_of(step) ? "Digits" : "a step that splits at kinds of characters";
}

std::string described(const NormalizerStep& step) {
  static constexpr const char* kForms[] = {"NFC", "NFD", "NFKC", "NFKD"};
  if (const auto* form = std::get_if<UnicodeForm>(&step)) return kForms[static_cast<size_t>(*form)];
  if (const auto* prepend = std::get_if<Prepend>(&step))
    return "Prepend of " + in_quotes(prepend->text);
  if (const auto* replace = std::get_if<Replace>(&step)) {
    const auto* from = std::get_if<std::string>(&replace->from);
    return "Replace of " + (from ? in_quotes(*from) : "an expression") + " by " +
           in_quotes(replace->to);
  }
  if (std::holds_alternative<Lowercase>(step)) return "Lowercase";
  if (std::holds_alternative<StripAccents>(step)) return "StripAccents";
  return std::holds_alternative<Strip>(step) ? "Strip" : "Precompiled";
}

std::string name_of_split(const TokenizerJson& tokenizer, bool ignores_merges) {
  std::vector<std::string> expressions;
  std::string steps;
  bool is_known = tokenizer.byte_splits.empty();
  for (const PreTokenizerStep& step : tokenizer.pre_tokenizer) {
    const std::optional<std::string> expression = expression_of(step);
    is_known = is_known && expression.has_value();
    expressions.push_back(expression.value_or(""));
    steps += (steps.empty() ? "" : ", ") + described(step);
  }
  if (!tokenizer.byte_splits.empty())
    steps += (steps.empty() ? "" : ", ") + std::string("ByteLevel");
  // Where all pairs that make a token are merged, it is the same whether merges are ignored.
  const KnownSplit* found = nullptr;
  for (const KnownSplit& split : known_splits())
    if (is_known && split.expressions == expressions &&
        (!found || split.ignores_merges == ignores_merges))
      found = &split;
  if (found) return found->name;
  std::string names;
  for (const KnownSplit& split : known_splits())
    names += (names.empty() ? "" : ", ") + std::string(split.name);
  throw DataError("pre_tokenizer: found " + (steps.empty() ? "none" : steps) +
                  ", expected one that llama.cpp has a name for: " + names);
}

// Whether a space is put before a text that becomes characters.
bool adds_space(const TokenizerJson& tokenizer) {
  bool adds = false, has_spaces = false;
  for (const NormalizerStep& step : tokenizer.normalizer) {
    const auto* prepend = std::get_if<Prepend>(&step);
    const auto* replace = std::get_if<Replace>(&step);
    const auto* from = replace ? std::get_if<std::string>(&replace->from) : nullptr;
    if (prepend && prepend->text == kSpace)
      adds = true;
    else if (from && *from == " " && replace->to == kSpace)
      has_spaces = true;
    else
      throw DataError(
          "normalizer: found " + described(step) +
          ", which llama.cpp has no equal of, expected at most Prepend and Replace of a "
          "space by \"\u2581\"");
  }
  for (const PreTokenizerStep& step : tokenizer.pre_tokenizer) {
    const auto* metaspace = std::get_if<Metaspace>(&step);
    if (!metaspace || metaspace->replacement != kSpace)
      throw DataError("pre_tokenizer: found " + described(step) +
                      ", which llama.cpp has no equal of, expected none, or Metaspace with "
                      "\"\u2581\"");
    has_spaces = true;
    adds = adds || metaspace->prepend != Metaspace::Prepend::never;
  }
  if (!has_spaces)
    throw DataError("normalizer: found none that replaces spaces by \"\u2581\", as llama.cpp does");
  return adds;
}

void expect_known_normalizer(const TokenizerJson& tokenizer) {
  for (const NormalizerStep& step : tokenizer.normalizer) {
    const auto* form = std::get_if<UnicodeForm>(&step);
    if (!form || *form != UnicodeForm::nfc)
      throw DataError("normalizer: found " + described(step) +
                      ", which llama.cpp has no equal of, expected none or NFC");
  }
}

// By id, of tokens that a merge makes: how many such tokens have a better first merge.
std::vector<int32_t> ranks_of(const BpeModel& model) {
  std::vector<int32_t> ranks(model.tokens.size(), kNoRank);
  int32_t next = 0;
  for (const BpeMerge& merge : model.merges)
    if (int32_t& rank = ranks[static_cast<size_t>(merge.result)]; rank == kNoRank) rank = next++;
  return ranks;
}

// A space in a token would part it from the other; llama.cpp's converter writes it as byte-level
// tokens do.
std::string without_spaces(const std::string& token) {
  std::string text;
  for (const char c : token)
    if (c == ' ')
      text += "\u0120";
    else
      text += c;
  return text;
}

class Vocabulary {
 public:
  Vocabulary(const TokenizerJson& tokenizer, const BpeModel& model, int64_t size)
      : tokenizer_(tokenizer), model_(model), size_(static_cast<size_t>(size)) {
    types_.resize(size_, unused);
    for (size_t id = 0; id < size_ && id < tokenizer.spelled.size(); ++id)
      if (!tokenizer.spelled[id].empty()) types_[id] = normal;
    if (model.alphabet == BpeModel::Alphabet::characters) mark_bytes();
    mark_added();
    if (model.unknown_token >= 0 && model.alphabet == BpeModel::Alphabet::characters)
      if (const auto id = static_cast<size_t>(model.unknown_token); id < size_)
        types_[id] = unknown;
    find_left_out();
  }

  const std::vector<int32_t>& types() const { return types_; }
  const std::vector<AddedToken>& left_out() const { return left_out_; }

  // Each once, none empty, or llama.cpp ends the program.
  std::vector<std::string> tokens() const {
    std::vector<std::string> tokens(size_);
    std::unordered_set<std::string> seen;
    std::vector<size_t> nameless;
    for (size_t id = 0; id < size_; ++id) {
      if (types_[id] != unused) tokens[id] = text_of(id);
      if (tokens[id].empty() || !seen.insert(tokens[id]).second) nameless.push_back(id);
    }
    for (const size_t id : nameless) {
      std::string name = "[PAD" + std::to_string(id) + "]";
      while (!seen.insert(name).second) name += "_";
      tokens[id] = name;
    }
    return tokens;
  }

  std::vector<float> scores() const {
    const std::vector<int32_t> ranks = ranks_of(model_);
    std::vector<float> scores(size_);
    for (size_t id = 0; id < size_ && id < ranks.size(); ++id)
      if (ranks[id] != kNoRank) scores[id] = -static_cast<float>(ranks[id]);
    return scores;
  }

  std::vector<std::string> merges() const {
    std::vector<std::string> merges;
    for (const BpeMerge& merge : model_.merges)
      merges.push_back(without_spaces(tokenizer_.spelled[static_cast<size_t>(merge.left)]) + " " +
                       without_spaces(tokenizer_.spelled[static_cast<size_t>(merge.right)]));
    return merges;
  }

 private:
  void mark_bytes() {
    for (const std::vector<int32_t>& fallback : model_.fallback_tokens) {
      if (fallback.size() != 1 || static_cast<size_t>(fallback[0]) >= size_)
        throw DataError(
            "model/byte_fallback: found bytes without a token, expected all 256 of them, without "
            "which llama.cpp ends at the first unknown character");
      types_[static_cast<size_t>(fallback[0])] = byte;
    }
  }

  void mark_added() {
    for (const AddedToken& token : tokenizer_.added_tokens)
      if (const auto id = static_cast<size_t>(token.id); id < size_)
        types_[id] = token.special ? control : user_defined;
  }

  // Special tokens that only a text may have can be left out, as no text for this model has them.
  void find_left_out() {
    std::unordered_set<size_t> dispensable;
    for (const AddedToken& token : tokenizer_.added_tokens)
      if (token.special && static_cast<size_t>(token.id) >= size_ &&
          token.id != tokenizer_.bos_id && token.id != tokenizer_.eos_id &&
          token.id != model_.unknown_token &&
          dispensable.insert(static_cast<size_t>(token.id)).second)
        left_out_.push_back(token);
    for (size_t id = size_; id < tokenizer_.spelled.size(); ++id)
      if (!tokenizer_.spelled[id].empty() && !dispensable.contains(id))
        throw DataError("found a token " + in_quotes(tokenizer_.spelled[id]) + " of id " +
                        std::to_string(id) + ", expected ids below the " + std::to_string(size_) +
                        " of the model's vocabulary");
  }

  // Those that are found before any other are looked for in the text as it is.
  std::string text_of(size_t id) const {
    std::string text = tokenizer_.spelled[id];
    if (types_[id] != user_defined) return text;
    for (size_t at; (at = text.find(kSpace)) != text.npos;)
      text.replace(at, std::string_view(kSpace).size(), " ");
    return text;
  }

  const TokenizerJson& tokenizer_;
  const BpeModel& model_;
  size_t size_;
  std::vector<int32_t> types_;
  std::vector<AddedToken> left_out_;
};

GgufVocabulary vocabulary(const TokenizerJson& tokenizer, const GgufVocabularyOptions& options) {
  const auto* model = std::get_if<BpeModel>(&tokenizer.model);
  if (!model)
    throw DataError(
        "model/type: found Unigram, expected BPE, which the models that are converted have");
  const Vocabulary vocabulary(tokenizer, *model, options.size);
  const bool is_byte_level = model->alphabet == BpeModel::Alphabet::bytes;
  const std::string kind = is_byte_level ? "gpt2" : std::string(options.character_bpe);
  std::vector<GgufEntry> entries{{"tokenizer.ggml.model", kind}};
  auto add = [&](const char* key, GgufValue value) {
    entries.push_back({std::string("tokenizer.ggml.") + key, std::move(value)});
  };
  const bool is_sentencepiece = kind == "llama";
  if (is_byte_level) {
    expect_known_normalizer(tokenizer);
    add("pre", name_of_split(tokenizer, model->ignore_merges));
  } else {
    add("add_space_prefix", adds_space(tokenizer));
    if (is_sentencepiece) add("pre", std::string("default"));
  }
  add("tokens", vocabulary.tokens());
  add("token_type", vocabulary.types());
  if (!is_byte_level) add("scores", vocabulary.scores());
  if (!is_sentencepiece) add("merges", vocabulary.merges());
  if (model->unknown_token >= 0 && model->unknown_token < options.size)
    add("unknown_token_id", static_cast<uint32_t>(model->unknown_token));
  add("add_bos_token", tokenizer.bos_id >= 0);
  add("add_eos_token", tokenizer.eos_id >= 0);
  return {std::move(entries), vocabulary.left_out()};
}

}  // namespace

GgufVocabulary gguf_vocabulary(std::string_view tokenizer_json,
                               const GgufVocabularyOptions& options) {
  return vocabulary(parse_tokenizer_json(tokenizer_json), options);
}

}  // namespace longshore::data
