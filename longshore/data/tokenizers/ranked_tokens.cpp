#include "longshore/data/tokenizers/ranked_tokens.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"

namespace longshore::data {
namespace {

// Far above what real files have (tokens of 128 bytes, 3 pairs for each); they bound time and
// memory.
constexpr size_t kMaxTokenBytes = 256;
constexpr size_t kMaxPairs = size_t{1} << 22;

using Ranks = std::unordered_map<std::string_view, size_t>;

Ranks ranks_of(const RankedTokens& ranked) {
  Ranks ranks;
  for (size_t rank = 0; rank < ranked.tokens.size(); ++rank) {
    const std::string& token = ranked.tokens[rank];
    if (token.empty() || token.size() > kMaxTokenBytes)
      throw DataError("token " + std::to_string(rank) + ": expected 1 to " +
                      std::to_string(kMaxTokenBytes) + " bytes, found " +
                      std::to_string(token.size()));
    const auto [other, is_new] = ranks.emplace(token, rank);
    if (!is_new)
      throw DataError("token " + std::to_string(rank) + ": " + in_quotes(token) +
                      " is also token " + std::to_string(other->second));
  }
  for (int byte = 0; byte < 256; ++byte)
    if (const char each = static_cast<char>(byte); !ranks.contains({&each, 1}))
      throw DataError("expected a token for each byte, found none for " +
                      in_quotes(std::string(1, each)));
  return ranks;
}

// The pairs that make a token, by the ranks of their halves.
void append_merges(std::string_view token, const Ranks& ranks,
                   std::vector<std::pair<std::string, std::string>>& merges) {
  std::vector<std::tuple<size_t, size_t, size_t>> pairs;  // and the length of the left half
  for (size_t length = 1; length < token.size(); ++length) {
    const auto left = ranks.find(token.substr(0, length)), right = ranks.find(token.substr(length));
    if (left != ranks.end() && right != ranks.end())
      pairs.emplace_back(left->second, right->second, length);
  }
  std::ranges::sort(pairs);
  for (const auto& [left, right, length] : pairs)
    merges.emplace_back(token.substr(0, length), token.substr(length));
}

}  // namespace

std::string tokenizer_json_of_ranked(RankedTokens ranked) {
  ByteLevelBpe bpe{.special = std::move(ranked.special),
                   .special_first = ranked.special_first,
                   .split = std::move(ranked.split),
                   .bos = std::move(ranked.bos),
                   .ignore_merges = true};
  const Ranks ranks = ranks_of(ranked);
  for (const std::string& token : ranked.tokens) {
    append_merges(token, ranks, bpe.merges);
    if (bpe.merges.size() > kMaxPairs)
      throw DataError("expected at most " + std::to_string(kMaxPairs) +
                      " pairs of tokens that make one, found more");
  }
  bpe.tokens = std::move(ranked.tokens);
  return tokenizer_json_of(bpe);
}

}  // namespace longshore::data
