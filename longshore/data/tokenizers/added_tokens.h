// The tokens of a tokenizer.json that are found in text before any other.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace longshore::data {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool special = false;      // what decoding may leave out
  bool single_word = false;  // found only where no word goes on before or after it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // takes the white space after it along
  bool normalized = false;   // found in the normalised text
};

// A part of a text: an added token, or what lies between two.
struct TextPart {
  std::string_view text;
  int32_t id = -1;  // -1 where it is no added token
  bool special = false;
};

// Immutable: any number of threads may use it at a time.
class AddedTokens {
 public:
  // A token whose content is empty is never found; of two with the same content the first is.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // Appends the parts of `text`: at each place the longest token, from left to right, as Hugging
  // Face's tokenizers finds them.
  void split(std::string_view text, std::vector<TextPart>& parts) const;

 private:
  static constexpr int32_t kNoToken = -1;

  // Which token is the longest that `text` begins with.
  int32_t match(std::string_view text) const;

  std::vector<AddedToken> tokens_;
  // A trie: node << 8 | byte leads to a node. Node 0 is the root.
  std::unordered_map<uint64_t, uint32_t> edges_;
  std::vector<int32_t> token_at_;  // by node: which token ends there
  std::array<bool, 256> begins_{};
};

}  // namespace longshore::data
