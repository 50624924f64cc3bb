// The decoder of a tokenizer.json: what makes a text of tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longshore::data {

struct TokenDecoder {
  // Tokens are spelled in the byte-level alphabet, and nothing else is done.
  bool byte_level = false;

  // Of each token; the texts are not empty.
  std::vector<std::pair<std::string, std::string>> replacements;
  std::string mark;                        // that becomes a space; "" for none
  bool first_loses_marks = false;          // all that the first token has
  bool byte_fallback = false;              // "<0x0A>" is a byte
  std::string strip;                       // a character, which is taken away from the text's ends
  size_t strip_start = 0, strip_stop = 0;  // so many times
};

// The byte that a token like "<0x0A>" stands for.
std::optional<uint8_t> byte_of_token(std::string_view token);
// The token of a byte.
std::string byte_token(int byte);

// Immutable: any number of threads may use it at a time.
class TokenText {
 public:
  // `spelled`: tokens by id. Throws a DataError where they become too long.
  TokenText(TokenDecoder decoder, std::vector<std::string> spelled);

  // The text of the tokens, which is valid UTF-8.
  std::string decode(std::span<const int32_t> ids) const;

  size_t size() const { return decoded_.size(); }
  // How many bytes of text a token is.
  int64_t bytes(int32_t id) const;
  std::optional<uint8_t> byte_of(int32_t id) const;

 private:
  static constexpr int16_t kNoByte = -1;

  std::string stripped(std::string text) const;

  TokenDecoder decoder_;
  std::vector<std::string> decoded_;  // by id
  std::vector<std::string> first_;    // by id, of the first; none where it is as any other
  std::vector<int16_t> byte_of_;      // by id
};

}  // namespace longshore::data
