#include "longshore/data/tokenizers/token_decoder.h"

#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/utf8.h"
#include "longshore/data/tokenizers/byte_level.h"
#include "longshore/data/tokenizers/normalizer.h"

namespace longshore::data {
namespace {

// Far above what real tokenizers have; they bound time and memory.
constexpr size_t kMaxTokenBytes = 4096;
constexpr size_t kMaxDecodedBytes = size_t{256} << 20;  // of all tokens

// Appends the bytes of consecutive byte tokens: as characters where they are valid UTF-8 together.
void append_bytes(std::string& text, std::string& bytes) {
  if (valid_utf8_prefix(bytes) == bytes.size())
    text += bytes;
  else
    for (size_t i = 0; i < bytes.size(); ++i) text += kReplacementCharacter;
  bytes.clear();
}

}  // namespace

std::string byte_token(int byte) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  return std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">";
}

std::optional<uint8_t> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  int byte = 0;
  for (const char c : token.substr(3, 2)) {
    if (c >= '0' && c <= '9')
      byte = byte * 16 + (c - '0');
    else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
      byte = byte * 16 + ((c | 0x20) - 'a' + 10);
    else
      return std::nullopt;
  }
  return static_cast<uint8_t>(byte);
}

TokenText::TokenText(TokenDecoder decoder, std::vector<std::string> spelled)
    : decoder_(std::move(decoder)),
      decoded_(std::move(spelled)),
      byte_of_(decoded_.size(), kNoByte) {
  if (!decoder_.mark.empty() && decoder_.first_loses_marks) first_.resize(decoded_.size());
  size_t bytes = 0;
  for (size_t id = 0; id < decoded_.size(); ++id) {
    std::string& token = decoded_[id];
    if (decoder_.byte_level) {
      if (std::optional<std::string> level = bytes_of_level(token)) token = *std::move(level);
      continue;
    }
    auto replace = [&](const std::string& from, const std::string& to) {
      std::optional<std::string> text = replaced(token, from, to, kMaxTokenBytes);
      if (!text)
        throw DataError("decoder: expected Replace to make at most " +
                        std::to_string(kMaxTokenBytes) + " bytes of a token, found more of " +
                        in_quotes(token));
      return *std::move(text);
    };
    for (const auto& [from, to] : decoder_.replacements) token = replace(from, to);
    if (!decoder_.mark.empty()) {
      if (decoder_.first_loses_marks) first_[id] = replace(decoder_.mark, "");
      token = replace(decoder_.mark, " ");
    }
    if (decoder_.byte_fallback)
      if (const std::optional<uint8_t> byte = byte_of_token(token)) byte_of_[id] = *byte;
    if ((bytes += token.size()) > kMaxDecodedBytes)
      throw DataError("decoder: expected Replace to make at most " +
                      std::to_string(kMaxDecodedBytes) + " bytes of all tokens, found more");
  }
}

std::string TokenText::decode(std::span<const int32_t> ids) const {
  std::string text, bytes;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<size_t>(ids[i]);
    if (byte_of_[id] != kNoByte) {
      bytes += static_cast<char>(byte_of_[id]);
      continue;
    }
    append_bytes(text, bytes);
    text += i == 0 && !first_.empty() ? first_[id] : decoded_[id];
  }
  append_bytes(text, bytes);
  return decoder_.byte_level ? replace_invalid_utf8(text) : stripped(std::move(text));
}

std::string TokenText::stripped(std::string text) const {
  for (size_t i = 0; i < decoder_.strip_start && text.starts_with(decoder_.strip); ++i)
    text.erase(0, decoder_.strip.size());
  for (size_t i = 0; i < decoder_.strip_stop && text.ends_with(decoder_.strip); ++i)
    text.resize(text.size() - decoder_.strip.size());
  return text;
}

int64_t TokenText::bytes(int32_t id) const {
  const auto at = static_cast<size_t>(id);
  return byte_of_[at] != kNoByte ? 1 : std::ssize(decoded_[at]);
}

std::optional<uint8_t> TokenText::byte_of(int32_t id) const {
  const int16_t byte = byte_of_[static_cast<size_t>(id)];
  return byte == kNoByte ? std::nullopt : std::optional(static_cast<uint8_t>(byte));
}

}  // namespace longshore::data
