// Unigram: a piece of text becomes the tokens whose scores have the largest sum.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longshore::data {

struct UnigramModel {
  std::vector<std::string> tokens;  // by id; "" where text has none; no text twice
  std::vector<double> scores;       // by id
  int32_t unknown_token = -1;       // -1: what has no token cannot be encoded
  // Of the bytes of what is unknown; -1 for a byte that has none: then all of it is unknown.
  std::array<int32_t, 256> fallback_tokens{};
};

// Immutable: any number of threads may use it at a time.
class UnigramEncoder {
 public:
  explicit UnigramEncoder(const UnigramModel& model);

  // Appends the ids of the pieces, one piece after the other; they are valid UTF-8. A piece of n
  // bytes takes O(n m) steps, where the longest token has m. Of equal sums the one is taken that
  // Hugging Face's tokenizers takes. Throws a DataError where there is no token for the unknown.
  void encode(std::span<const std::string_view> pieces, std::vector<int32_t>& ids) const;

 private:
  struct Node {
    int32_t token = -1;        // which ends here
    uint32_t first_child = 0;  // children lie beside each other, by their bytes
    uint16_t child_count = 0;
    uint8_t byte = 0;  // by which its parent leads here
  };
  struct Best;

  int32_t find(std::string_view text) const;  // -1 where it is no token
  const Node* child(const Node& node, char byte) const;
  void grow(const UnigramModel& model, std::vector<int32_t> sorted);
  void search(std::string_view piece, std::vector<Best>& best) const;
  void append_unknown(std::string_view text, std::vector<int32_t>& ids) const;

  std::vector<Node> nodes_;  // a trie; node 0 is the root
  std::vector<double> scores_;
  double unknown_score_ = 0;
  int32_t unknown_token_;
  std::array<int32_t, 256> fallback_tokens_;
};

}  // namespace longshore::data
