#include "data/tokenizers/bpe_tokenizer.h"

#include <unicode/unistr.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "data/tokenizers/added_tokens.h"
#include "data/tokenizers/bpe.h"
#include "data/tokenizers/split_pattern.h"
#include "data/tokenizers/tokenizer_json.h"

namespace longshore::data {
namespace {

// A space becomes three bytes where it is written as a letter, and no character more in NFC.
constexpr size_t kMaxNormalizedBytes = 4 * kMaxTextBytes;

class Splitter {
 public:
  explicit Splitter(const Split& split) : behavior_(split.behavior), invert_(split.invert) {
    if (const auto* pattern = std::get_if<std::string>(&split.pattern))
      pattern_.emplace(*pattern);
    else
      set_ = std::get<std::span<const CharacterRange>>(split.pattern);
  }

  void split(std::string_view text, std::vector<std::string_view>& pieces) const {
    std::vector<SplitPart> parts;
    if (pattern_)
      pattern_->split(text, parts);
    else
      split_by_set(text, parts);
    if (invert_)
      for (SplitPart& part : parts) part.matches = !part.matches;
    append_pieces(parts, behavior_, pieces);
  }

 private:
  void split_by_set(std::string_view text, std::vector<SplitPart>& parts) const {
    size_t begin = 0;  // of what is not yet in a part
    for (size_t at = 0; at < text.size();) {
      const Character character = first_character(text.substr(at));
      if (contains(set_, character.code_point)) {
        if (begin < at) parts.push_back({text.substr(begin, at - begin)});
        parts.push_back({text.substr(at, character.bytes), true});
        begin = at + character.bytes;
      }
      at += character.bytes;
    }
    if (begin < text.size()) parts.push_back({text.substr(begin)});
  }

  std::optional<SplitPattern> pattern_;
  std::span<const CharacterRange> set_;
  SplitBehavior behavior_;
  bool invert_;
};

class BpeTokenizer : public TokenizerModel {
 public:
  explicit BpeTokenizer(TokenizerJson file)
      : normalizer_(std::move(file.normalizer)),
        metaspace_(std::move(file.metaspace)),
        raw_tokens_(select(file.added_tokens, false)),
        normalized_tokens_(select(file.added_tokens, true)),
        bpe_(file.model),
        decoded_(std::move(file.decoded)),
        strips_space_(file.decoder_strips_space),
        is_special_(decoded_.size()),
        byte_of_(decoded_.size(), kNoByte),
        bos_id_(file.bos_id),
        eos_id_(file.eos_id),
        ids_(std::move(file.ids)) {
    for (const Split& split : file.splits) splitters_.emplace_back(split);
    for (const Split& split : file.byte_splits) byte_splitters_.emplace_back(split);
    for (const AddedToken& token : file.added_tokens) {
      is_special_[static_cast<size_t>(token.id)] = token.special;
      added_.insert(token.content);
    }
    is_byte_level_ = file.model.alphabet == BpeModel::Alphabet::bytes;
    for (int byte = 0; byte < 256 && !is_byte_level_; ++byte)
      byte_of_[static_cast<size_t>(file.model.byte_tokens[static_cast<size_t>(byte)])] =
          static_cast<int16_t>(byte);
    if (eos_id_ < 0) eos_id_ = eos_by_name();
  }

  std::vector<int32_t> encode(std::string_view text, TextPosition position) const override {
    std::string valid;
    if (valid_utf8_prefix(text) != text.size()) text = valid = replace_invalid_utf8(text);
    std::vector<int32_t> ids;
    std::vector<TextPart> parts;
    raw_tokens_.split(text, parts);
    for (const TextPart& part : parts) {
      if (part.id >= 0)
        ids.push_back(part.id);
      else
        encode_raw(part.text, position == TextPosition::start && part.text.data() == text.data(),
                   ids);
    }
    return ids;
  }

  void split(std::string_view text, std::vector<TextPart>& parts) const override {
    raw_tokens_.split(text, parts);
  }

  std::string decode(std::span<const int32_t> ids, SpecialTokens special) const override {
    std::string text, bytes;
    for (int32_t id : ids) {
      const auto at = static_cast<size_t>(id);
      if (special == SpecialTokens::skip && is_special_[at]) continue;
      if (byte_of_[at] != kNoByte) {
        bytes += static_cast<char>(byte_of_[at]);
        continue;
      }
      append_bytes(text, bytes);
      text += decoded_[at];
    }
    append_bytes(text, bytes);
    if (strips_space_ && text.starts_with(' ')) text.erase(0, 1);
    return is_byte_level_ ? replace_invalid_utf8(text) : text;
  }

  int64_t text_bytes(int32_t id) const override {
    const auto at = static_cast<size_t>(id);
    return byte_of_[at] != kNoByte ? 1 : std::ssize(decoded_[at]);
  }

  int32_t vocab_size() const override { return static_cast<int32_t>(decoded_.size()); }
  int32_t ordinary_vocab_size() const override {
    size_t size = is_special_.size();
    while (size > 0 && is_special_[size - 1]) --size;
    return static_cast<int32_t>(size);
  }
  int32_t bos_id() const override { return bos_id_; }
  int32_t eos_id() const override { return eos_id_; }

  std::optional<int32_t> id_of(const std::string& token) const override {
    const auto found = ids_.find(token);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
  }
  bool is_added(const std::string& token) const override { return added_.contains(token); }
  bool has_gaps() const override { return ids_.size() != decoded_.size(); }
  std::string spelling(int32_t id) const override {
    const auto found = std::ranges::find(ids_, id, [](const auto& each) { return each.second; });
    return found == ids_.end() ? "" : found->first;
  }
  std::optional<uint8_t> byte_of(int32_t id) const override {
    const int16_t byte = byte_of_[static_cast<size_t>(id)];
    return byte == kNoByte ? std::nullopt : std::optional(static_cast<uint8_t>(byte));
  }

 private:
  static constexpr int16_t kNoByte = -1;

  static std::vector<AddedToken> select(const std::vector<AddedToken>& tokens, bool normalized) {
    std::vector<AddedToken> selected;
    std::ranges::copy_if(tokens, std::back_inserter(selected),
                         [&](const AddedToken& token) { return token.normalized == normalized; });
    // Not std::ranges', which clang 14 cannot compile with this library.
    std::stable_partition(selected.begin(), selected.end(),
                          [](const AddedToken& token) { return token.special; });
    return selected;
  }

  int32_t eos_by_name() const {
    int32_t eos = -1;
    for (const char* name : {"<|end_of_text|>", "<|endoftext|>", "<eos>", "</s>"}) {
      const std::optional<int32_t> id = id_of(name);
      if (!id || !is_special_[static_cast<size_t>(*id)]) continue;
      if (eos >= 0) return -1;
      eos = *id;
    }
    return eos;
  }

  // `text` lies between added tokens that are found before normalisation.
  void encode_raw(std::string_view text, bool is_first, std::vector<int32_t>& ids) const {
    std::string normal;
    if (!normalizer_.empty()) text = normal = normalized(normalizer_, text, kMaxNormalizedBytes);
    std::vector<TextPart> parts;
    normalized_tokens_.split(text, parts);
    for (const TextPart& part : parts) {
      if (part.id >= 0) {
        ids.push_back(part.id);
      } else if (metaspace_) {
        const std::string spaced_text =
            spaced(part.text, is_first && part.text.data() == text.data());
        bpe_.encode(metaspace_->split ? marked_pieces(spaced_text)
                                      : std::vector<std::string_view>{spaced_text},
                    ids);
      } else {
        bpe_.encode(split(part.text), ids);
      }
    }
  }

  std::string spaced(std::string_view text, bool is_first) const {
    const std::string& mark = metaspace_->replacement;
    std::optional<std::string> result = replaced(text, {" ", mark}, kMaxNormalizedBytes);
    if (!result)
      throw DataError("pre_tokenizer: Metaspace: found more than " +
                      std::to_string(kMaxNormalizedBytes) + " bytes, made of a text of " +
                      std::to_string(text.size()) + "; expected no more");
    const bool wants_mark = metaspace_->prepend == Metaspace::Prepend::always ||
                            (metaspace_->prepend == Metaspace::Prepend::first && is_first);
    if (wants_mark && !result->starts_with(mark)) result->insert(0, mark);
    return *std::move(result);
  }

  std::vector<std::string_view> split(std::string_view text) const {
    std::vector<std::string_view> pieces{text};
    for (const Splitter& splitter : splitters_) {
      std::vector<std::string_view> smaller;
      for (std::string_view piece : pieces) splitter.split(piece, smaller);
      pieces = std::move(smaller);
    }
    if (byte_splitters_.empty()) return pieces;
    std::vector<std::string_view> smaller;
    for (std::string_view piece : pieces) split_bytes(piece, smaller);
    return smaller;
  }

  // Splits by what the piece is in the byte-level alphabet.
  void split_bytes(std::string_view piece, std::vector<std::string_view>& smaller) const {
    static const std::array<std::string, 256> alphabet = [] {
      std::array<std::string, 256> spellings;
      for (size_t byte = 0; byte < 256; ++byte)
        icu::UnicodeString(static_cast<UChar32>(byte_level_alphabet()[byte]))
            .toUTF8String(spellings[byte]);
      return spellings;
    }();
    std::string spelled;
    std::vector<size_t> byte_at;  // of each byte of `spelled`, and of its end
    for (size_t i = 0; i < piece.size(); ++i) {
      spelled += alphabet[static_cast<uint8_t>(piece[i])];
      byte_at.resize(spelled.size(), i);
    }
    byte_at.push_back(piece.size());
    std::vector<std::string_view> pieces{spelled};
    for (const Splitter& splitter : byte_splitters_) {
      std::vector<std::string_view> parts;
      for (std::string_view each : pieces) splitter.split(each, parts);
      pieces = std::move(parts);
    }
    for (std::string_view each : pieces) {
      const auto at = static_cast<size_t>(each.data() - spelled.data());
      smaller.push_back(piece.substr(byte_at[at], byte_at[at + each.size()] - byte_at[at]));
    }
  }

  // A mark belongs to what is behind it, unless that is a mark.
  std::vector<std::string_view> marked_pieces(std::string_view text) const {
    const std::string& mark = metaspace_->replacement;
    std::vector<SplitPart> parts;
    for (size_t at = 0; at < text.size();) {
      const size_t found = std::min(text.find(mark, at), text.size());
      if (at < found) parts.push_back({text.substr(at, found - at)});
      if (found < text.size()) parts.push_back({text.substr(found, mark.size()), true});
      at = found + mark.size();
    }
    std::vector<std::string_view> pieces;
    append_pieces(parts, SplitBehavior::merged_with_next, pieces);
    return pieces;
  }

  // Appends the bytes of consecutive byte tokens: as characters where they are valid UTF-8
  // together.
  static void append_bytes(std::string& text, std::string& bytes) {
    if (valid_utf8_prefix(bytes) == bytes.size())
      text += bytes;
    else
      for (size_t i = 0; i < bytes.size(); ++i) text += kReplacementCharacter;
    bytes.clear();
  }

  std::vector<NormalizerStep> normalizer_;
  std::optional<Metaspace> metaspace_;
  AddedTokens raw_tokens_, normalized_tokens_;
  std::vector<Splitter> splitters_, byte_splitters_;
  Bpe bpe_;
  std::vector<std::string> decoded_;  // by id
  bool is_byte_level_ = false;
  bool strips_space_ = false;
  std::vector<bool> is_special_;  // by id
  std::vector<int16_t> byte_of_;  // by id, with byte fallback: the byte that it is the token of
  int32_t bos_id_ = -1, eos_id_ = -1;
  std::unordered_map<std::string, int32_t> ids_;
  std::set<std::string> added_;
};

}  // namespace

std::unique_ptr<TokenizerModel> make_bpe_tokenizer(std::string_view bytes) {
  return std::make_unique<BpeTokenizer>(parse_tokenizer_json(bytes));
}

}  // namespace longshore::data
