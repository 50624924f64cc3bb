#include "longshore/data/tokenizers/sentencepiece_model.h"

#include <sentencepiece_processor.h>

#include <mutex>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/data/tokenizers/sentencepiece_file.h"

namespace longshore::data {
namespace {

class SentencePieceModel : public TokenizerModel {
 public:
  explicit SentencePieceModel(std::string_view bytes) {
    const std::string refusal = "not a sentencepiece model, or damaged: ";
    if (const std::string fault = fault_in_sentencepiece_file(bytes); !fault.empty())
      throw DataError(refusal + fault);
    try {
      const auto status = processor_.LoadFromSerializedProto(bytes);
      if (!status.ok()) throw DataError(refusal + library_message(status.message()));
    } catch (const DataError&) {
      throw;
    } catch (const std::exception& error) {  // its tries throw their own
      throw DataError(refusal + library_message(error.what()));
    }
    special_ = AddedTokens(special_pieces(bytes));
  }

  // A dummy prefix is put before each text, wherever it begins.
  std::vector<int32_t> encode(std::string_view text, TextPosition) const override {
    std::unique_lock<std::mutex> one(large_text_, std::defer_lock);
    if (text.size() > kLargeText) one.lock();
    std::vector<int> ids;
    const auto status = processor_.Encode(text, &ids);
    if (!status.ok()) throw DataError("cannot tokenize: " + library_message(status.message()));
    return ids;
  }

  void split(std::string_view text, std::vector<TextPart>& parts) const override {
    special_.split(text, parts);
  }

  std::string decode(std::span<const int32_t> ids, SpecialTokens) const override {
    std::string text;
    const auto status = processor_.Decode(std::vector<int>(ids.begin(), ids.end()), &text);
    if (!status.ok()) throw DataError("cannot decode: " + library_message(status.message()));
    return text;
  }

  int64_t text_bytes(int32_t id) const override {
    return processor_.IsByte(id) || processor_.IsUnknown(id) ? 1
                                                             : std::ssize(processor_.IdToPiece(id));
  }

  int32_t vocab_size() const override { return processor_.GetPieceSize(); }
  int32_t bos_id() const override { return processor_.bos_id(); }
  int32_t eos_id() const override { return processor_.eos_id(); }

  std::optional<int32_t> id_of(const std::string& token) const override {
    const int id = processor_.PieceToId(token);  // that of <unk> for what it does not know
    if (processor_.IdToPiece(id) != token) return std::nullopt;
    return id;
  }
  std::string spelling(int32_t id) const override { return processor_.IdToPiece(id); }
  std::optional<uint8_t> byte_of(int32_t id) const override {
    if (!processor_.IsByte(id)) return std::nullopt;
    return static_cast<uint8_t>(std::stoi(processor_.IdToPiece(id).substr(3, 2), nullptr, 16));
  }

 private:
  // It takes about a hundred times as much memory: 100 MB at a time is what a thread may have.
  static constexpr size_t kLargeText = size_t{1} << 20;

  sentencepiece::SentencePieceProcessor processor_;
  AddedTokens special_{{}};
  mutable std::mutex large_text_;  // one at a time
};

}  // namespace

std::unique_ptr<TokenizerModel> make_sentencepiece_model(std::string_view bytes) {
  return std::make_unique<SentencePieceModel>(bytes);
}

}  // namespace longshore::data
