#include "data/tokenizer.h"

#include <sentencepiece_processor.h>

#include <fstream>

#include "base/error.h"
#include "data/sentencepiece_file.h"

namespace longshore::data {
namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 20;

std::string read_model_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    throw DataError(path.string() + ": no such tokenizer file");
  if (!std::filesystem::is_regular_file(path, error))
    throw DataError(path.string() + ": expected a tokenizer file, found no regular file");
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) throw DataError(path.string() + ": " + error.message());
  if (size > kMaxFileBytes)
    throw DataError(path.string() + ": " + std::to_string(size) +
                    " bytes; a tokenizer file has at most 64 MiB");
  std::ifstream file(path, std::ios::binary);
  std::string bytes(size, '\0');
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size)))
    throw DataError(path.string() + ": cannot read the tokenizer file");
  return bytes;
}

uint64_t fnv1a(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char byte : bytes) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  return hash;
}

// Messages may quote the model file, and end in a terminal.
std::string printable(std::string text) {
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

}  // namespace

Tokenizer::Tokenizer(const std::filesystem::path& path)
    : path_(path), processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {
  const std::string bytes = read_model_file(path);
  const std::string refusal = path.string() + ": not a sentencepiece model, or damaged: ";
  if (bytes.starts_with("{"))
    throw DataError(path.string() + ": looks like JSON; expected a sentencepiece model");
  if (const std::string fault = fault_in_sentencepiece_file(bytes); !fault.empty())
    throw DataError(refusal + fault);
  try {
    const auto status = processor_->LoadFromSerializedProto(bytes);
    if (!status.ok()) throw DataError(refusal + printable(status.message()));
  } catch (const DataError&) {
    throw;
  } catch (const std::exception& error) {  // its tries throw their own
    throw DataError(refusal + printable(error.what()));
  }
  vocab_size_ = processor_->GetPieceSize();
  bos_id_ = processor_->bos_id();
  eos_id_ = processor_->eos_id();
  content_hash_ = fnv1a(bytes);
}

Tokenizer::~Tokenizer() = default;

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  if (text.size() > kMaxTextBytes)
    throw DataError("text of " + std::to_string(text.size()) + " bytes; at most " +
                    std::to_string(kMaxTextBytes) + " can be tokenized at once");
  std::vector<int> ids;
  const auto status = processor_->Encode(text, &ids);
  if (!status.ok())
    throw DataError(path_.string() + ": cannot tokenize: " + printable(status.message()));
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  for (int32_t id : ids)
    if (id < 0 || id >= vocab_size_)
      throw DataError(path_.string() + ": token id " + std::to_string(id) +
                      "; the vocabulary has " + std::to_string(vocab_size_));
  std::string text;
  const auto status = processor_->Decode(std::vector<int>(ids.begin(), ids.end()), &text);
  if (!status.ok())
    throw DataError(path_.string() + ": cannot decode: " + printable(status.message()));
  return text;
}

}  // namespace longshore::data
