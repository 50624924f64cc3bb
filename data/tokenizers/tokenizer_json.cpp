#include "data/tokenizers/tokenizer_json.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "data/files/json_place.h"
#include "data/tokenizers/other_tokenizers.h"
#include "data/tokenizers/tokenizer_json_parts.h"
#include "data/tokenizers/unicode_sets.h"

namespace longshore::data {
namespace {

// Far above what real tokenizers have; they bound time and memory.
constexpr size_t kMaxTokenBytes = 4096;
constexpr size_t kMaxAddedTokenBytes = 256;
constexpr size_t kMaxSteps = 16;
constexpr size_t kMaxReplacementBytes = 256;
constexpr size_t kMaxDecodedBytes = size_t{256} << 20;   // of all tokens
constexpr size_t kMaxNormalizedBytes = size_t{4} << 20;  // of all added tokens

std::string type_of(const JsonPlace& place) { return place.at("type").string(); }

int32_t token_id_of(const JsonPlace& place) {
  const uint64_t id = place.integer();
  if (id >= kMaxTokenizerTokens) place.refuse("an id below " + std::to_string(kMaxTokenizerTokens));
  return static_cast<int32_t>(id);
}

// What a step of type Sequence holds under `key`, or the step itself.
std::vector<JsonPlace> steps_of(const JsonPlace& place, const char* key) {
  if (type_of(place) != "Sequence") return {place};
  place.expect_keys({"type", key});
  std::vector<JsonPlace> steps = place.at(key).elements();
  if (steps.size() > kMaxSteps) place.refuse("at most " + std::to_string(kMaxSteps) + " steps");
  return steps;
}

// Each step may lengthen what the one before it made, so each is held to little.
std::string short_string(const JsonPlace& place) {
  std::string text = place.string();
  if (text.size() > kMaxReplacementBytes)
    throw DataError(place.path() + ": expected at most " + std::to_string(kMaxReplacementBytes) +
                    " bytes, found " + std::to_string(text.size()));
  return text;
}

Replace replace_of(const JsonPlace& place) {
  place.expect_keys({"type", "pattern", "content"});
  const JsonPlace pattern = place.at("pattern");
  pattern.expect_keys({"String"});
  Replace replace{short_string(pattern.at("String")), short_string(place.at("content"))};
  if (replace.from.empty()) pattern.refuse("a pattern that is not empty");
  return replace;
}

std::vector<NormalizerStep> normalizer_of(const JsonPlace& place) {
  std::vector<NormalizerStep> normalizer;
  for (const JsonPlace& step : steps_of(place, "normalizers")) {
    const std::string type = type_of(step);
    if (type == "NFC") {
      step.expect_keys({"type"});
      normalizer.push_back(Nfc{});
    } else if (type == "Prepend") {
      step.expect_keys({"type", "prepend"});
      normalizer.push_back(Prepend{short_string(step.at("prepend"))});
    } else if (type == "Replace") {
      normalizer.push_back(replace_of(step));
    } else {
      step.at("type").refuse("NFC, Prepend, Replace or Sequence");
    }
  }
  return normalizer;
}

// GPT-2's pattern, which a ByteLevel step applies when use_regex says so.
constexpr const char* kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

bool normalizer_removes(const std::vector<NormalizerStep>& normalizer, const std::string& text) {
  if (normalizer.empty()) return false;
  const auto* last = std::get_if<Replace>(&normalizer.back());
  return last && last->from == text && last->to.find(text) == std::string::npos;
}

Metaspace metaspace_of(const JsonPlace& place) {
  // The older keys add_prefix_space and str_rep say nothing that the others do not.
  place.expect_keys(
      {"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  Metaspace metaspace{.replacement = short_string(place.at("replacement"))};
  if (metaspace.replacement.empty()) place.at("replacement").refuse("a character");
  metaspace.split = place.boolean("split", true);
  const std::string scheme =
      place.has("prepend_scheme") ? place.at("prepend_scheme").string() : "always";
  if (!place.boolean("add_prefix_space", true) && scheme != "never")
    place.at("add_prefix_space").refuse("true, or \"never\" as prepend_scheme");
  if (scheme == "never")
    metaspace.prepend = Metaspace::Prepend::never;
  else if (scheme == "first")
    metaspace.prepend = Metaspace::Prepend::first;
  else if (scheme != "always")
    place.at("prepend_scheme").refuse("always, first or never");
  return metaspace;
}

SplitBehavior behavior_of(const JsonPlace& place) {
  constexpr std::array<const char*, 5> kNames{"Removed", "Isolated", "MergedWithPrevious",
                                              "MergedWithNext", "Contiguous"};
  const auto name = std::ranges::find(kNames, place.string());
  if (name == kNames.end())
    place.refuse("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
  return static_cast<SplitBehavior>(name - kNames.begin());
}

// A regular expression that matches just `text`.
std::string matching(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    if (std::ispunct(static_cast<unsigned char>(c))) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

// Nothing where it has no effect.
std::optional<Split> split_of(const JsonPlace& place,
                              const std::vector<NormalizerStep>& normalizer) {
  const std::string type = type_of(place);
  Split split;
  if (type == "Digits") {
    place.expect_keys({"type", "individual_digits"});
    split.pattern = numeric_characters();
    if (!place.boolean("individual_digits", false)) split.behavior = SplitBehavior::contiguous;
  } else if (type == "Punctuation") {
    place.expect_keys({"type", "behavior"});
    split.pattern = punctuation_characters();
    if (place.has("behavior")) split.behavior = behavior_of(place.at("behavior"));
  } else if (type == "Split") {
    place.expect_keys({"type", "pattern", "behavior", "invert"});
    const JsonPlace pattern = place.at("pattern");
    pattern.expect_keys({"String", "Regex"});
    if (pattern.has("String")) {
      const std::string text = short_string(pattern.at("String"));
      // As in Gemma's files.
      if (normalizer_removes(normalizer, text)) return std::nullopt;
      split.pattern = matching(text);
    } else {
      split.pattern = pattern.at("Regex").string();
    }
    split.behavior = behavior_of(place.at("behavior"));
    split.invert = place.boolean("invert", false);
  } else {
    place.at("type").refuse(
        "Split, Digits, Punctuation, ByteLevel, or Sequence of them, or Metaspace alone");
  }
  return split;
}

struct PreTokenizer {
  std::optional<Metaspace> metaspace;
  std::vector<Split> splits, byte_splits;
  bool byte_level = false;
};

PreTokenizer pre_tokenizer_of(const JsonPlace& place,
                              const std::vector<NormalizerStep>& normalizer) {
  PreTokenizer result;
  if (type_of(place) == "Metaspace") {
    result.metaspace = metaspace_of(place);
    return result;
  }
  for (const JsonPlace& step : steps_of(place, "pretokenizers")) {
    if (type_of(step) == "ByteLevel") {
      if (result.byte_level) step.at("type").refuse("no second ByteLevel");
      step.expect_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
      if (step.boolean("add_prefix_space", true)) step.at("add_prefix_space").refuse("false");
      if (step.boolean("use_regex", true)) result.splits.push_back({kByteLevelPattern});
      result.byte_level = true;
    } else if (std::optional<Split> split = split_of(step, normalizer)) {
      (result.byte_level ? result.byte_splits : result.splits).push_back(*std::move(split));
    }
  }
  return result;
}

void expect_byte_level_decoder(const JsonPlace& place) {
  place.expect_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  if (type_of(place) != "ByteLevel") place.at("type").refuse("ByteLevel, as the pre_tokenizer");
}

struct CharacterDecoder {
  Replace replace;
  bool strips_space = false;
};

CharacterDecoder character_decoder_of(const JsonPlace& place) {
  constexpr const char* kExpected =
      "Replace, ByteFallback, Fuse and, where there is one, Strip of one space";
  const std::vector<JsonPlace> steps = steps_of(place, "decoders");
  std::vector<std::string> types;
  for (const JsonPlace& step : steps) types.push_back(type_of(step));
  const std::vector<std::string> without_strip = {"Replace", "ByteFallback", "Fuse"};
  std::vector<std::string> with_strip = without_strip;
  with_strip.push_back("Strip");
  if (types != without_strip && types != with_strip) place.refuse(kExpected);
  CharacterDecoder decoder{replace_of(steps[0]), types == with_strip};
  steps[1].expect_keys({"type"});
  steps[2].expect_keys({"type"});
  if (decoder.strips_space) {
    steps[3].expect_keys({"type", "content", "start", "stop"});
    if (steps[3].at("content").string() != " " || steps[3].at("start").integer() != 1 ||
        steps[3].at("stop").integer() != 0)
      steps[3].refuse("one space stripped from the start");
  }
  return decoder;
}

// The bytes that a byte-level token stands for; none when a character stands for no byte.
std::optional<std::string> bytes_of(std::string_view token) {
  static const auto alphabet = [] {
    std::unordered_map<char32_t, uint8_t> bytes;
    for (const char32_t character : byte_level_alphabet())
      bytes.emplace(character, static_cast<uint8_t>(bytes.size()));
    return bytes;
  }();
  std::string bytes;
  while (!token.empty()) {
    const Character character = first_character(token);
    const auto byte = alphabet.find(character.code_point);
    if (byte == alphabet.end()) return std::nullopt;
    bytes += static_cast<char>(byte->second);
    token.remove_prefix(character.bytes);
  }
  return bytes;
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

std::string byte_token(int byte) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  return std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">";
}

// Tokens with their ids, and nothing else.
bool is_vocabulary(const nlohmann::json& object) {
  constexpr size_t kFewest = 256;
  return object.size() >= kFewest && std::ranges::all_of(object, [](const nlohmann::json& value) {
           return value.is_number_unsigned();
         });
}

void expect_model(const JsonPlace& place) {
  // The older files of GPT-2 do not say.
  const std::string type = place.has("type") ? type_of(place) : "BPE";
  if (type == "Unigram") throw DataError(kUnigramRefusal);
  if (type != "BPE")
    place.at("type").refuse("BPE, or a sentencepiece model: models that write text have no other");
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

BpeModel byte_level_model(const Spelling& spelling) {
  BpeModel model;
  model.alphabet = BpeModel::Alphabet::bytes;
  model.byte_tokens.fill(-1);
  for (const auto& token : spelling.tokens()) {
    model.tokens.push_back(token ? bytes_of(*token).value_or("") : "");
    const std::string& bytes = model.tokens.back();
    if (bytes.size() == 1)
      model.byte_tokens[static_cast<uint8_t>(bytes[0])] =
          static_cast<int32_t>(model.tokens.size()) - 1;
  }
  if (std::ranges::count(model.byte_tokens, -1) == std::ssize(model.byte_tokens))
    throw DataError(std::string(kVocabPlace) + ": no byte has a token");
  return model;
}

// Nothing where a byte without a token is left out of the text.
int32_t unknown_token_of(const JsonPlace& model, const Spelling& spelling) {
  if (!model.has("unk_token") || model.at("unk_token").string().empty()) return -1;
  const int32_t id = spelling.id(model.at("unk_token").string());
  if (id < 0) model.at("unk_token").refuse("a token, as some bytes have none");
  return id;
}

BpeModel character_model(const Spelling& spelling) {
  BpeModel model;
  model.alphabet = BpeModel::Alphabet::characters;
  for (const auto& token : spelling.tokens()) model.tokens.push_back(token.value_or(""));
  for (int byte = 0; byte < 256; ++byte) {
    const int32_t id = spelling.id(byte_token(byte));
    if (id < 0)
      throw DataError(std::string(kVocabPlace) + ": byte_fallback needs " +
                      in_quotes(byte_token(byte)));
    model.byte_tokens[static_cast<size_t>(byte)] = id;
  }
  return model;
}

// Looked for in normalised text, they must be so themselves.
void normalize(std::vector<AddedToken>& tokens, std::span<const NormalizerStep> normalizer) {
  size_t bytes = 0;
  for (AddedToken& token : tokens) {
    if (!token.normalized) continue;
    try {
      token.content = normalized(normalizer, token.content, kMaxTokenBytes);
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

std::vector<std::string> decoded_bytes(std::vector<std::string> tokens) {
  for (std::string& token : tokens)
    if (std::optional<std::string> bytes = bytes_of(token)) token = *std::move(bytes);
  return tokens;
}

std::vector<std::string> decoded_text(const std::vector<std::string>& tokens,
                                      const Replace& replace) {
  std::vector<std::string> decoded;
  size_t bytes = 0;
  for (const std::string& token : tokens) {
    std::optional<std::string> text = replaced(token, replace, kMaxTokenBytes);
    if (!text)
      throw DataError("decoder: expected Replace to make at most " +
                      std::to_string(kMaxTokenBytes) + " bytes of a token, found more of " +
                      in_quotes(token));
    if ((bytes += text->size()) > kMaxDecodedBytes)
      throw DataError("decoder: expected Replace to make at most " +
                      std::to_string(kMaxDecodedBytes) + " bytes of all tokens, found more");
    decoded.push_back(*std::move(text));
  }
  return decoded;
}

}  // namespace

// Printable characters of Latin-1 for themselves, and U+0100 and following for the other bytes in
// their order.
std::array<char32_t, 256> byte_level_alphabet() {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    characters[byte] = printable ? byte : next++;
  }
  return characters;
}

TokenizerJson parse_tokenizer_json(std::string_view text) {
  const TokenizerJsonParts file = split_tokenizer_json(text);
  const JsonPlace root(file.document, "");
  if (root.has("config") && root.has("vocab")) throw DataError(kTekkenRefusal);
  if (!file.document.contains("model") && is_vocabulary(file.document))
    throw DataError(kVocabularyRefusal);
  if (root.has("tokenizer_class"))
    throw DataError("found a tokenizer_config.json, expected the tokenizer.json beside it");
  // Truncation and padding are settings of a caller's, which were saved along.
  root.expect_keys({"version", "truncation", "padding", "added_tokens", "normalizer",
                    "pre_tokenizer", "post_processor", "decoder", "model"});
  if (root.at("version").string() != "1.0") root.at("version").refuse("\"1.0\"");
  const JsonPlace model = root.at("model");
  expect_model(model);
  if (!file.has_vocab) throw DataError(std::string(kVocabPlace) + ": expected an object");
  if (!file.has_merges) throw DataError(std::string(kMergesPlace) + ": expected an array");

  TokenizerJson tokenizer;
  if (root.has("normalizer")) tokenizer.normalizer = normalizer_of(root.at("normalizer"));
  PreTokenizer pre_tokenizer;
  if (root.has("pre_tokenizer"))
    pre_tokenizer = pre_tokenizer_of(root.at("pre_tokenizer"), tokenizer.normalizer);
  const bool byte_level = pre_tokenizer.byte_level;
  if (byte_level == model.boolean("byte_fallback", false))
    model.at("byte_fallback")
        .refuse(byte_level ? "false beside a ByteLevel pre_tokenizer"
                           : "true, or a ByteLevel pre_tokenizer");
  tokenizer.metaspace = std::move(pre_tokenizer.metaspace);
  tokenizer.splits = std::move(pre_tokenizer.splits);
  tokenizer.byte_splits = std::move(pre_tokenizer.byte_splits);

  Spelling spelling;
  for (const NamedId& each : file.vocab) spelling.add(kVocabPlace, each.token, each.id);
  tokenizer.model = byte_level ? byte_level_model(spelling) : character_model(spelling);
  if (std::ranges::count(tokenizer.model.byte_tokens, -1) > 0) {
    tokenizer.model.unknown_token = unknown_token_of(model, spelling);
    tokenizer.model.fuse_unknown = model.boolean("fuse_unk", false);
  }
  tokenizer.model.merges = merges_of(file, spelling);
  tokenizer.model.ignore_merges = model.boolean("ignore_merges", false);
  tokenizer.added_tokens = added_tokens_of(root.at("added_tokens"), spelling);
  normalize(tokenizer.added_tokens, tokenizer.normalizer);

  CharacterDecoder decoder;
  if (byte_level)
    expect_byte_level_decoder(root.at("decoder"));
  else
    decoder = character_decoder_of(root.at("decoder"));
  tokenizer.decoder_strips_space = decoder.strips_space;
  std::vector<std::string> tokens = spelled_tokens(spelling, tokenizer.added_tokens);
  tokenizer.decoded =
      byte_level ? decoded_bytes(std::move(tokens)) : decoded_text(tokens, decoder.replace);
  if (root.has("post_processor"))
    read_post_processor(root.at("post_processor"), spelling, tokenizer);
  tokenizer.ids = spelling.ids();
  return tokenizer;
}

}  // namespace longshore::data
