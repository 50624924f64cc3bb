#include "longshore/data/tokenizers/json_tokenizer.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "longshore/base/utf8.h"
#include "longshore/data/tokenizers/added_tokens.h"
#include "longshore/data/tokenizers/bpe.h"
#include "longshore/data/tokenizers/normalizer.h"
#include "longshore/data/tokenizers/pre_tokenizer.h"
#include "longshore/data/tokenizers/token_decoder.h"
#include "longshore/data/tokenizers/tokenizer_json.h"
#include "longshore/data/tokenizers/unigram_encoder.h"

namespace longshore::data {
namespace {

// A space becomes three bytes where it is written as a letter, and no character more in NFC.
constexpr size_t kMaxNormalizedBytes = 4 * kMaxTextBytes;

class JsonTokenizer : public TokenizerModel {
 public:
  explicit JsonTokenizer(TokenizerJson file)
      : normalizer_(std::move(file.normalizer)),
        pre_tokenizer_(file.pre_tokenizer, file.byte_splits),
        raw_tokens_(select(file.added_tokens, false)),
        normalized_tokens_(select(file.added_tokens, true)),
        text_(std::move(file.decoder), std::move(file.spelled)),
        is_special_(text_.size()),
        bos_id_(file.bos_id),
        eos_id_(file.eos_id),
        ids_(std::move(file.ids)) {
    if (const auto* bpe = std::get_if<BpeModel>(&file.model))
      bpe_.emplace(*bpe);
    else
      unigram_.emplace(std::get<UnigramModel>(file.model));
    for (const AddedToken& token : file.added_tokens) {
      is_special_[static_cast<size_t>(token.id)] = token.special;
      added_.insert(token.content);
    }
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
    if (special == SpecialTokens::keep) return text_.decode(ids);
    std::vector<int32_t> ordinary;
    std::ranges::copy_if(ids, std::back_inserter(ordinary),
                         [&](int32_t id) { return !is_special_[static_cast<size_t>(id)]; });
    return text_.decode(ordinary);
  }

  int64_t text_bytes(int32_t id) const override { return text_.bytes(id); }

  int32_t vocab_size() const override { return static_cast<int32_t>(text_.size()); }
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
  bool has_gaps() const override { return ids_.size() != text_.size(); }
  std::string spelling(int32_t id) const override {
    const auto found = std::ranges::find(ids_, id, [](const auto& each) { return each.second; });
    return found == ids_.end() ? "" : found->first;
  }
  std::optional<uint8_t> byte_of(int32_t id) const override { return text_.byte_of(id); }

 private:
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
    NormalText normal;
    if (!normalizer_.empty()) {
      normal = normalized(normalizer_, text, kMaxNormalizedBytes);
      text = normal.text;
    }
    std::vector<TextPart> parts;
    normalized_tokens_.split(text, parts);
    std::deque<std::string> changed;
    for (const TextPart& part : parts) {
      if (part.id >= 0) {
        ids.push_back(part.id);
        continue;
      }
      const bool begins = is_first && normal.keeps_start && part.text.data() == text.data();
      const auto pieces = pre_tokenizer_.pieces(part.text, begins, kMaxNormalizedBytes, changed);
      if (bpe_)
        bpe_->encode(pieces, ids);
      else
        unigram_->encode(pieces, ids);
      changed.clear();
    }
  }

  std::vector<NormalizerStep> normalizer_;
  PreTokenizer pre_tokenizer_;
  AddedTokens raw_tokens_, normalized_tokens_;
  std::optional<Bpe> bpe_;  // or else
  std::optional<UnigramEncoder> unigram_;
  TokenText text_;
  std::vector<bool> is_special_;  // by id
  int32_t bos_id_ = -1, eos_id_ = -1;
  std::unordered_map<std::string, int32_t> ids_;
  std::set<std::string> added_;
};

}  // namespace

std::unique_ptr<TokenizerModel> make_json_tokenizer(std::string_view bytes) {
  return std::make_unique<JsonTokenizer>(parse_tokenizer_json(bytes));
}

}  // namespace longshore::data
