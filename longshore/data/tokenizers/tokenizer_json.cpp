#include "longshore/data/tokenizers/tokenizer_json.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/utf8.h"
#include "longshore/data/files/json_place.h"
#include "longshore/data/tokenizers/byte_level.h"
#include "longshore/data/tokenizers/other_tokenizers.h"
#include "longshore/data/tokenizers/tokenizer_json_parts.h"
#include "longshore/data/tokenizers/tokenizer_json_steps.h"

namespace longshore::data {
namespace {

// Far above what real tokenizers have; they bound time and memory.
constexpr size_t kMaxTokenBytes = 4096;
constexpr size_t kMaxAddedTokenBytes = 256;
// A place of a text is compared with all of a token.
constexpr size_t kMaxUnigramTokenBytes = 1024;
constexpr size_t kMaxNormalizedBytes = size_t{4} << 20;  // of all added tokens

int32_t token_id_of(const JsonPlace& place) {
  const uint64_t id = place.integer();
  if (id >= kMaxTokenizerTokens) place.refuse("an id below " + std::to_string(kMaxTokenizerTokens));
  return static_cast<int32_t>(id);
}

// Tokens as the file spells them, by id and by content.
class Spelling {
 public:
  void add(const std::string& place, const std::string& token, int64_t id) {
    if (token.size() > kMaxTokenBytes)
      throw DataError(place + ": expected a token of at most " + std::to_string(kMaxTokenBytes) +
                      " bytes, found " + std::to_string(token.size()));
    const auto [other, is_new] = ids_.emplace(token, static_cast<int32_t>(id));
    if (!is_new)
      throw DataError(place + ": " + in_quotes(token) + " has id " + std::to_string(id) +
                      " and, before, " + std::to_string(other->second));
    const auto at = static_cast<size_t>(id);
    if (at >= tokens_.size()) tokens_.resize(at + 1);
    if (tokens_[at])
      throw DataError(place + ": " + in_quotes(token) + " has id " + std::to_string(id) +
                      ", which is that of " + in_quotes(*tokens_[at]));
    tokens_[at] = token;
  }

  // -1 when there is none.
  int32_t id(const std::string& token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? -1 : found->second;
  }

  std::span<const std::optional<std::string>> tokens() const { return tokens_; }
  const std::unordered_map<std::string, int32_t>& ids() const { return ids_; }

 private:
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<std::optional<std::string>> tokens_;
};

std::vector<BpeMerge> merges_of(const TokenizerJsonParts& file, const Spelling& spelling) {
  std::vector<BpeMerge> merges;
  std::unordered_set<uint64_t> seen;
  for (size_t i = 0; i < file.merges.size(); ++i) {
    const auto& [left, right] = file.merges[i];
    const std::string place = std::string(kMergesPlace) + "/" + std::to_string(i) + ": ";
    auto id_of = [&](const std::string& token) {
      const int32_t id = spelling.id(token);
      // The empty token would merge with any other, and change nothing, for ever.
      if (id < 0 || token.empty())
        throw DataError(place + in_quotes(token) + " is not in the vocabulary");
      return id;
    };
    const BpeMerge merge{id_of(left), id_of(right), id_of(left + right)};
    if (!seen.insert(uint64_t{static_cast<uint32_t>(merge.left)} << 32 |
                     static_cast<uint32_t>(merge.right))
             .second)
      throw DataError(place + in_quotes(left) + " and " + in_quotes(right) +
                      " are merged a second time");
    merges.push_back(merge);
  }
  return merges;
}

// Tokens with their ids, and nothing else.
bool is_vocabulary(const nlohmann::json& object) {
  constexpr size_t kFewest = 256;
  return object.size() >= kFewest && std::ranges::all_of(object, [](const nlohmann::json& value) {
           return value.is_number_unsigned();
         });
}

// Of what the model is; files of GPT-2's time do not say.
std::string model_type(const JsonPlace& place) {
  std::string type = place.has("type") ? type_of(place) : "BPE";
  if (type != "BPE" && type != "Unigram")
    place.at("type").refuse(
        "BPE, Unigram, or a sentencepiece model: models that write text have no other");
  return type;
}

void expect_bpe(const JsonPlace& place) {
  place.expect_keys({"type", "dropout", "unk_token", "continuing_subword_prefix",
                     "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges"});
  if (place.has("dropout")) place.at("dropout").refuse("null");
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (place.has(affix) && !place.at(affix).string().empty())
      place.at(affix).refuse("null or an empty string");
}

AddedToken added_token_of(const JsonPlace& place) {
  place.expect_keys({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  AddedToken token;
  token.id = token_id_of(place.at("id"));
  token.content = place.at("content").string();
  if (token.content.empty() || token.content.size() > kMaxAddedTokenBytes)
    place.at("content").refuse("1 to " + std::to_string(kMaxAddedTokenBytes) + " bytes");
  token.single_word = place.boolean("single_word", false);
  token.lstrip = place.boolean("lstrip", false);
  token.rstrip = place.boolean("rstrip", false);
  token.special = place.boolean("special", false);
  token.normalized = place.boolean("normalized", !token.special);
  return token;
}

std::vector<AddedToken> added_tokens_of(const JsonPlace& place, Spelling& spelling) {
  std::vector<AddedToken> tokens;
  std::set<std::string> contents;
  for (const JsonPlace& each : place.elements()) {
    AddedToken token = added_token_of(each);
    if (!contents.insert(token.content).second) each.at("content").refuse("no token a second time");
    if (spelling.id(token.content) != token.id) spelling.add(each.path(), token.content, token.id);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// The ids that a template puts before and after a single text.
void read_template(const JsonPlace& place, const Spelling& spelling, TokenizerJson& tokenizer) {
  place.expect_keys({"type", "single", "pair", "special_tokens"});
  std::vector<int32_t> before, after;
  bool text_seen = false;
  for (const JsonPlace& item : place.at("single").elements()) {
    item.expect_keys({"SpecialToken", "Sequence"});
    if (item.has("Sequence")) {
      if (text_seen) item.refuse("one Sequence");
      text_seen = true;
      continue;
    }
    const std::string name = item.at("SpecialToken").at("id").string();
    const JsonPlace special = place.at("special_tokens").at(name.c_str());
    const std::vector<JsonPlace> ids = special.at("ids").elements();
    const std::vector<JsonPlace> tokens = special.at("tokens").elements();
    if (ids.size() != 1 || tokens.size() != 1) special.refuse("one id and its token");
    if (spelling.id(tokens[0].string()) != token_id_of(ids[0]))
      ids[0].refuse("the id of " + in_quotes(tokens[0].string()));
    (text_seen ? after : before).push_back(token_id_of(ids[0]));
  }
  if (!text_seen) place.at("single").refuse("a Sequence");
  if (before.size() > 1 || after.size() > 1)
    place.at("single").refuse("at most one token before the text and one after it");
  if (!before.empty()) tokenizer.bos_id = before[0];
  if (!after.empty()) tokenizer.eos_id = after[0];
}

void read_post_processor(const JsonPlace& place, const Spelling& spelling,
                         TokenizerJson& tokenizer) {
  for (const JsonPlace& step : steps_of(place, "processors")) {
    const std::string type = type_of(step);
    if (type == "TemplateProcessing")
      read_template(step, spelling, tokenizer);
    else if (type != "ByteLevel")  // it only moves offsets
      step.at("type").refuse("TemplateProcessing, ByteLevel or Sequence");
  }
}

// The tokens of the bytes, of which what is unknown is made; -1 for those that have none.
std::array<int32_t, 256> tokens_of_bytes(const Spelling& spelling) {
  std::array<int32_t, 256> tokens{};
  for (int byte = 0; byte < 256; ++byte)
    tokens[static_cast<size_t>(byte)] = spelling.id(byte_token(byte));
  return tokens;
}

BpeModel byte_level_model(const Spelling& spelling, bool byte_fallback) {
  BpeModel model;
  model.alphabet = BpeModel::Alphabet::bytes;
  model.byte_tokens.fill(-1);
  for (const auto& token : spelling.tokens()) {
    model.tokens.push_back(token ? bytes_of_level(*token).value_or("") : "");
    const std::string& bytes = model.tokens.back();
    if (bytes.size() == 1)
      model.byte_tokens[static_cast<uint8_t>(bytes[0])] =
          static_cast<int32_t>(model.tokens.size()) - 1;
  }
  if (std::ranges::count(model.byte_tokens, -1) == std::ssize(model.byte_tokens))
    throw DataError(std::string(kVocabPlace) + ": no byte has a token");
  if (!byte_fallback) return model;
  // What has no token is the character that spells the byte, so it is that one's bytes.
  const std::array<int32_t, 256> tokens = tokens_of_bytes(spelling);
  for (size_t byte = 0; byte < 256; ++byte) {
    std::vector<int32_t>& fallback = model.fallback_tokens[byte];
    for (const char each : byte_level_spelling(static_cast<uint8_t>(byte)))
      fallback.push_back(tokens[static_cast<uint8_t>(each)]);
    if (std::ranges::count(fallback, -1) > 0) fallback.clear();
  }
  return model;
}

BpeModel character_model(const Spelling& spelling, bool byte_fallback) {
  BpeModel model;
  model.alphabet = BpeModel::Alphabet::characters;
  for (const auto& token : spelling.tokens()) model.tokens.push_back(token.value_or(""));
  const std::array<int32_t, 256> tokens = tokens_of_bytes(spelling);
  for (size_t byte = 0; byte < 256; ++byte)
    if (byte_fallback && tokens[byte] >= 0) model.fallback_tokens[byte] = {tokens[byte]};
  return model;
}

// Nothing where what has no token is left out of the text. tokenizers looks it up when it needs it;
// where no text does, it may be missing.
int32_t unknown_token_of(const JsonPlace& model, const Spelling& spelling, bool is_needed) {
  if (!model.has("unk_token") || model.at("unk_token").string().empty()) return -1;
  const int32_t id = spelling.id(model.at("unk_token").string());
  if (id < 0 && is_needed)
    model.at("unk_token").refuse("a token, as some bytes or characters have none");
  return id;
}

// Whether some text has no tokens but that for the unknown.
bool needs_unknown_token(const BpeModel& model) {
  const bool is_byte_level = model.alphabet == BpeModel::Alphabet::bytes;
  for (size_t byte = 0; byte < 256; ++byte)
    if (model.fallback_tokens[byte].empty() && !(is_byte_level && model.byte_tokens[byte] >= 0))
      return true;
  return false;
}

BpeModel bpe_model_of(const JsonPlace& place, const TokenizerJsonParts& file,
                      const Spelling& spelling, bool byte_level) {
  expect_bpe(place);
  if (!file.has_vocab) throw DataError(std::string(kVocabPlace) + ": expected an object");
  if (!file.has_merges) throw DataError(std::string(kMergesPlace) + ": expected an array");
  const bool byte_fallback = place.boolean("byte_fallback", false);
  BpeModel model = byte_level ? byte_level_model(spelling, byte_fallback)
                              : character_model(spelling, byte_fallback);
  model.unknown_token = unknown_token_of(place, spelling, needs_unknown_token(model));
  model.fuse_unknown = place.boolean("fuse_unk", false);
  model.merges = merges_of(file, spelling);
  model.ignore_merges = place.boolean("ignore_merges", false);
  return model;
}

UnigramModel unigram_model_of(const JsonPlace& place, const TokenizerJsonParts& file,
                              const Spelling& spelling) {
  place.expect_keys({"type", "unk_id", "byte_fallback"});
  if (!file.has_scores)
    throw DataError(std::string(kVocabPlace) + ": expected an array of tokens and scores");
  if (file.has_merges) throw DataError(std::string(kMergesPlace) + ": expected none of a Unigram");
  UnigramModel model;
  for (const auto& [token, score] : file.scores) {
    if (token.size() > kMaxUnigramTokenBytes)
      throw DataError(std::string(kVocabPlace) + "/" + std::to_string(model.tokens.size()) +
                      ": expected a token of at most " + std::to_string(kMaxUnigramTokenBytes) +
                      " bytes, found " + std::to_string(token.size()));
    model.tokens.push_back(token);
    model.scores.push_back(score);
  }
  if (place.has("unk_id")) {
    if (place.at("unk_id").integer() >= model.tokens.size())
      place.at("unk_id").refuse("an id below " + std::to_string(model.tokens.size()));
    model.unknown_token = static_cast<int32_t>(place.at("unk_id").integer());
  }
  if (place.boolean("byte_fallback", false))
    model.fallback_tokens = tokens_of_bytes(spelling);
  else
    model.fallback_tokens.fill(-1);
  return model;
}

// Looked for in normalised text, they must be so themselves.
void normalize(std::vector<AddedToken>& tokens, std::span<const NormalizerStep> normalizer) {
  size_t bytes = 0;
  for (AddedToken& token : tokens) {
    if (!token.normalized) continue;
    try {
      token.content = normalized(normalizer, token.content, kMaxTokenBytes).text;
    } catch (const DataError& error) {
      throw DataError("added_tokens: " + in_quotes(token.content) + ": " + error.what());
    }
    if ((bytes += token.content.size()) > kMaxNormalizedBytes)
      throw DataError("added_tokens: expected at most " + std::to_string(kMaxNormalizedBytes) +
                      " bytes of them when they are normalised, found more");
  }
}

// What is decoded, by id: as the vocabulary has it, and added tokens normalised.
std::vector<std::string> spelled_tokens(const Spelling& spelling,
                                        std::span<const AddedToken> added_tokens) {
  std::vector<std::string> tokens;
  for (const auto& token : spelling.tokens()) tokens.push_back(token.value_or(""));
  for (const AddedToken& token : added_tokens)
    tokens[static_cast<size_t>(token.id)] = token.content;
  return tokens;
}

}  // namespace

TokenizerJson parse_tokenizer_json(std::string_view text) {
  const TokenizerJsonParts file = split_tokenizer_json(text);
  const JsonPlace root(file.document, "");
  if (!file.document.contains("model") && is_vocabulary(file.document))
    throw DataError(kVocabularyRefusal);
  if (root.has("tokenizer_class"))
    throw DataError("found a tokenizer_config.json, expected the tokenizer.json beside it");
  // Truncation and padding are settings of a caller's, which were saved along.
  root.expect_keys({"version", "truncation", "padding", "added_tokens", "normalizer",
                    "pre_tokenizer", "post_processor", "decoder", "model"});
  if (root.at("version").string() != "1.0") root.at("version").refuse("\"1.0\"");
  const JsonPlace model = root.at("model");
  const bool is_unigram = model_type(model) == "Unigram";

  TokenizerJson tokenizer;
  if (root.has("normalizer")) tokenizer.normalizer = normalizer_of(root.at("normalizer"));
  PreTokenizerSteps pre_tokenizer;
  if (root.has("pre_tokenizer"))
    pre_tokenizer = pre_tokenizer_of(root.at("pre_tokenizer"), tokenizer.normalizer);
  const bool byte_level = pre_tokenizer.byte_level;
  if (is_unigram && byte_level)
    root.at("pre_tokenizer").refuse("none with ByteLevel beside a Unigram model");
  tokenizer.pre_tokenizer = std::move(pre_tokenizer.steps);
  tokenizer.byte_splits = std::move(pre_tokenizer.byte_splits);

  Spelling spelling;
  for (const NamedId& each : file.vocab) spelling.add(kVocabPlace, each.token, each.id);
  for (size_t id = 0; id < file.scores.size(); ++id)
    spelling.add(kVocabPlace, file.scores[id].first, static_cast<int64_t>(id));
  if (is_unigram)
    tokenizer.model = unigram_model_of(model, file, spelling);
  else
    tokenizer.model = bpe_model_of(model, file, spelling, byte_level);
  tokenizer.added_tokens = added_tokens_of(root.at("added_tokens"), spelling);
  normalize(tokenizer.added_tokens, tokenizer.normalizer);

  tokenizer.decoder = decoder_of(root.at("decoder"), byte_level);
  tokenizer.spelled = spelled_tokens(spelling, tokenizer.added_tokens);
  if (root.has("post_processor"))
    read_post_processor(root.at("post_processor"), spelling, tokenizer);
  tokenizer.ids = spelling.ids();
  return tokenizer;
}

}  // namespace longshore::data
