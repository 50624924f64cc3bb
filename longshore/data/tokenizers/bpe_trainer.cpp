#include "longshore/data/tokenizers/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <queue>
#include <span>
#include <string_view>
#include <tuple>

#include "longshore/data/tokenizers/byte_level.h"

namespace longshore::data {
namespace {

using Pair = std::pair<int32_t, int32_t>;

uint64_t key_of(Pair pair) {
  return uint64_t{static_cast<uint32_t>(pair.first)} << 32 | static_cast<uint32_t>(pair.second);
}

struct KeyHash {
  size_t operator()(uint64_t key) const { return (key ^ key >> 29) * 0x9e3779b97f4a7c15; }
};

// Bytes in the order of the characters that spell them, which the ids of tokenizers have.
std::array<uint8_t, 256> bytes_in_order() {
  std::array<uint8_t, 256> bytes{};
  for (size_t i = 0; i < 256; ++i) bytes[i] = static_cast<uint8_t>(i);
  std::ranges::sort(bytes, {}, [](uint8_t byte) { return byte_level_spelling(byte); });
  return bytes;
}

class Trainer {
 public:
  explicit Trainer(const PieceCounts& counts) {
    std::array<int32_t, 256> id_of{};
    for (const uint8_t byte : bytes_in_order()) {
      id_of[byte] = static_cast<int32_t>(result_.tokens.size());
      ids_.emplace(std::string(1, static_cast<char>(byte)), id_of[byte]);
      result_.tokens.emplace_back(1, static_cast<char>(byte));
    }
    for (const auto& [piece, count] : counts) {
      Word word{.count = count};
      for (const char byte : piece) word.symbols.push_back(id_of[static_cast<uint8_t>(byte)]);
      words_.push_back(std::move(word));
    }
    for (size_t i = 0; i < words_.size(); ++i)
      for (size_t k = 0; k + 1 < words_[i].symbols.size(); ++k)
        count({words_[i].symbols[k], words_[i].symbols[k + 1]}, words_[i].count, i);
    for (const auto& [key, known] : pairs_) push(key, known.count);
  }

  LearnedBpe learn(size_t vocab_size) {
    while (result_.tokens.size() < vocab_size && !queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      Known& known = pairs_.at(best.key);
      if (known.count != best.count) {  // it has changed since
        if (known.count > 0) push(best.key, known.count);
        continue;
      }
      merge({static_cast<int32_t>(best.key >> 32), static_cast<int32_t>(best.key & UINT32_MAX)},
            std::exchange(known.words, {}));
    }
    return std::move(result_);
  }

 private:
  struct Word {
    std::vector<int32_t> symbols;
    int64_t count = 0;
  };
  struct Known {
    int64_t count = 0;          // how often the pair is there
    std::vector<size_t> words;  // where it may be
  };
  struct Candidate {
    int64_t count;
    uint64_t key;
    bool operator<(const Candidate& other) const {
      return std::tie(count, other.key) < std::tie(other.count, key);
    }
  };

  void push(uint64_t key, int64_t count) { queue_.push({count, key}); }

  void count(Pair pair, int64_t change, size_t word) {
    Known& known = pairs_[key_of(pair)];
    known.count += change;
    if (change > 0 && (known.words.empty() || known.words.back() != word))
      known.words.push_back(word);
  }

  void merge(Pair pair, const std::vector<size_t>& words) {
    const std::string text = result_.tokens[static_cast<size_t>(pair.first)] +
                             result_.tokens[static_cast<size_t>(pair.second)];
    const auto [known, is_new] = ids_.emplace(text, static_cast<int32_t>(result_.tokens.size()));
    const int32_t merged = known->second;
    if (is_new) result_.tokens.push_back(text);
    result_.merges.emplace_back(result_.tokens[static_cast<size_t>(pair.first)],
                                result_.tokens[static_cast<size_t>(pair.second)]);
    grown_.clear();
    for (const size_t word : words) merge_in(word, pair, merged);
    std::ranges::sort(grown_);
    const auto again = std::ranges::unique(grown_);
    grown_.erase(again.begin(), again.end());
    for (const uint64_t key : grown_)
      if (const int64_t count = pairs_.at(key).count; count > 0) push(key, count);
  }

  // Its own count is left as it is: it is looked for no more, but where it comes up anew.
  void merge_in(size_t index, Pair pair, int32_t merged) {
    Word& word = words_[index];
    std::vector<int32_t>& symbols = word.symbols;
    size_t kept = 0;  // symbols before it are done
    for (size_t i = 0; i < symbols.size(); ++kept) {
      if (i + 1 == symbols.size() || Pair(symbols[i], symbols[i + 1]) != pair) {
        symbols[kept] = symbols[i++];
        continue;
      }
      if (kept > 0) {
        count({symbols[kept - 1], pair.first}, -word.count, index);
        grow({symbols[kept - 1], merged}, word.count, index);
      }
      i += 2;
      if (i < symbols.size()) {
        count({pair.second, symbols[i]}, -word.count, index);
        grow({merged, symbols[i]}, word.count, index);
      }
      symbols[kept] = merged;
    }
    symbols.resize(kept);
  }

  void grow(Pair pair, int64_t change, size_t word) {
    count(pair, change, word);
    grown_.push_back(key_of(pair));
  }

  LearnedBpe result_;
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<Word> words_;
  std::unordered_map<uint64_t, Known, KeyHash> pairs_;
  std::priority_queue<Candidate> queue_;
  std::vector<uint64_t> grown_;  // pairs that became more by the merge at hand
};

}  // namespace

LearnedBpe learn_bpe(const PieceCounts& counts, size_t vocab_size) {
  return Trainer(counts).learn(vocab_size);
}

}  // namespace longshore::data
