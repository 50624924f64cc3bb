#include "data/tokenizers/bpe_tokenizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uniset.h>

#include <algorithm>
#include <array>
#include <optional>
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

void expect_success(UErrorCode error) {
  if (U_FAILURE(error))
    throw DataError(std::string("cannot normalise the text: ") + u_errorName(error));
}

// Of characters that are newer than Unicode 9 none is changed or moved, as Hugging Face's
// tokenizers has it. What becomes of the others never changes, so it does not matter what the
// machine's ICU knows.
class Normalizers {
 public:
  static const Normalizers& get() {
    static const Normalizers normalizers;
    return normalizers;
  }
  const icu::Normalizer2& nfc() const { return nfc_; }
  const icu::Normalizer2& nfd() const { return nfd_; }

 private:
  Normalizers()
      : nfc_(whole(icu::Normalizer2::getNFCInstance), known_),
        nfd_(whole(icu::Normalizer2::getNFDInstance), known_) {
    UErrorCode error = U_ZERO_ERROR;
    known_.applyPropertyAlias("Age", "9.0", error);
    expect_success(error);
    known_.freeze();
  }

  static const icu::Normalizer2& whole(const icu::Normalizer2* (*instance)(UErrorCode&)) {
    UErrorCode error = U_ZERO_ERROR;
    const icu::Normalizer2* normalizer = instance(error);
    expect_success(error);
    return *normalizer;
  }

  icu::UnicodeSet known_;
  icu::FilteredNormalizer2 nfc_, nfd_;
};

// Puts long runs of combining marks in their canonical order. ICU sorts them by insertion, which
// takes time by the square of their number.
std::string with_marks_in_order(const std::string& text) {
  constexpr size_t kLongRun = 64;
  const icu::Normalizer2& decomposer = Normalizers::get().nfd();
  std::string ordered;
  size_t copied = 0, begin = 0, marks = 0;  // of the run at hand
  auto end_run = [&](size_t end) {
    if (marks > kLongRun) {
      std::vector<std::pair<uint8_t, UChar32>> run;  // by combining class
      for (size_t at = begin; at < end;) {
        const Character mark = first_character(std::string_view(text).substr(at));
        icu::UnicodeString parts;
        if (!decomposer.getDecomposition(static_cast<UChar32>(mark.code_point), parts))
          parts = static_cast<UChar32>(mark.code_point);
        for (int32_t i = 0; i < parts.length(); i = parts.moveIndex32(i, 1))
          run.emplace_back(decomposer.getCombiningClass(parts.char32At(i)), parts.char32At(i));
        at += mark.bytes;
      }
      std::ranges::stable_sort(run, {}, &std::pair<uint8_t, UChar32>::first);
      ordered.append(text, copied, begin - copied);
      for (const auto& [combining_class, mark] : run)
        icu::UnicodeString(mark).toUTF8String(ordered);
      copied = end;
    }
    marks = 0;
  };
  for (size_t at = 0; at < text.size();) {
    const Character character = first_character(std::string_view(text).substr(at));
    if (decomposer.getCombiningClass(static_cast<UChar32>(character.code_point)) == 0) {
      end_run(at);
    } else if (marks++ == 0) {
      begin = at;
    }
    at += character.bytes;
  }
  end_run(text.size());
  if (copied == 0) return text;
  return ordered.append(text, copied);
}

std::string nfc(std::string text) {
  // What lies below U+0300 is in this form always.
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0xcc; }))
    return text;
  text = with_marks_in_order(text);
  UErrorCode error = U_ZERO_ERROR;
  std::string normalized;
  icu::StringByteSink<std::string> sink(&normalized);
  Normalizers::get().nfc().normalizeUTF8(0, {text.data(), static_cast<int32_t>(text.size())}, sink,
                                         nullptr, error);
  expect_success(error);
  return normalized;
}

// A space becomes three bytes where it is written as a letter, and no character more in NFC.
constexpr size_t kMaxNormalizedBytes = 4 * kMaxTextBytes;
constexpr size_t kMaxAddedTokenBytes = 4096;              // normalised
constexpr size_t kMaxAddedTokensBytes = size_t{4} << 20;  // all together

const char* name_of(const NormalizerStep& step) {
  constexpr std::array kNames{"NFC", "Prepend", "Replace"};
  return kNames[step.index()];
}

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
        normalized_tokens_(normalized(select(file.added_tokens, true))),
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
    for (const AddedToken& token : file.added_tokens)
      is_special_[static_cast<size_t>(token.id)] = token.special;
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

  // Looked for in normalised text, they must be so themselves.
  std::vector<AddedToken> normalized(std::vector<AddedToken> tokens) const {
    size_t bytes = 0;
    for (AddedToken& token : tokens) {
      try {
        token.content = normalize(token.content, kMaxAddedTokenBytes);
      } catch (const DataError& error) {
        throw DataError("added_tokens: " + in_quotes(token.content) + ": " + error.what());
      }
      if ((bytes += token.content.size()) > kMaxAddedTokensBytes)
        throw DataError("added_tokens: expected at most " + std::to_string(kMaxAddedTokensBytes) +
                        " bytes of them when they are normalised, found more");
    }
    return tokens;
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

  std::string normalize(std::string_view text, size_t most_bytes) const {
    std::optional<std::string> result(text);
    for (size_t i = 0; i < normalizer_.size(); ++i) {
      if (std::holds_alternative<Nfc>(normalizer_[i]))
        result = nfc(*std::move(result));
      else if (const auto* prepend = std::get_if<Prepend>(&normalizer_[i]))
        result->insert(0, result->empty() ? "" : prepend->text);
      else
        result = replaced(*result, std::get<Replace>(normalizer_[i]), most_bytes);
      if (!result || result->size() > most_bytes)
        throw DataError("normalizer: step " + std::to_string(i + 1) + " of " +
                        std::to_string(normalizer_.size()) + ", " + name_of(normalizer_[i]) +
                        ": found more than " + std::to_string(most_bytes) +
                        " bytes, made of a text of " + std::to_string(text.size()) +
                        "; expected no more");
    }
    return *std::move(result);
  }

  // `text` lies between added tokens that are found before normalisation.
  void encode_raw(std::string_view text, bool is_first, std::vector<int32_t>& ids) const {
    std::string normal;
    if (!normalizer_.empty()) text = normal = normalize(text, kMaxNormalizedBytes);
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
};

}  // namespace

std::unique_ptr<TokenizerModel> make_bpe_tokenizer(std::string_view bytes) {
  return std::make_unique<BpeTokenizer>(parse_tokenizer_json(bytes));
}

}  // namespace longshore::data
