// Learns the merges of byte-level BPE from pieces of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace longshore::data {

using PieceCounts = std::unordered_map<std::string, int64_t>;

struct LearnedBpe {
  std::vector<std::string> tokens;                          // bytes, by id: first the 256 bytes
  std::vector<std::pair<std::string, std::string>> merges;  // bytes, best first
};

// What is learnt until there are `vocab_size` tokens, at least 256, or no two are beside each other
// in any piece any more. It is what the BpeTrainer of Hugging Face's tokenizers learns: the pair
// that is most frequent is merged next, of equals the one whose ids are the least. Does not depend
// on the order of the counts. Memory is some 30 bytes for each byte of the pieces, each counted
// once.
LearnedBpe learn_bpe(const PieceCounts& counts, size_t vocab_size);

}  // namespace longshore::data
