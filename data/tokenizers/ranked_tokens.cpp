#include "data/tokenizers/ranked_tokens.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>

#include "base/error.h"
#include "base/printable.h"
#include "data/tokenizers/byte_level.h"

namespace longshore::data {
namespace {

using nlohmann::json;

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
void append_merges(std::string_view token, const Ranks& ranks, std::vector<std::string>& merges) {
  std::vector<std::tuple<size_t, size_t, size_t>> pairs;  // and the length of the left half
  for (size_t length = 1; length < token.size(); ++length) {
    const auto left = ranks.find(token.substr(0, length)), right = ranks.find(token.substr(length));
    if (left != ranks.end() && right != ranks.end())
      pairs.emplace_back(left->second, right->second, length);
  }
  std::ranges::sort(pairs);
  for (const auto& [left, right, length] : pairs)
    merges.push_back(byte_level_spelling(token.substr(0, length)) + " " +
                     byte_level_spelling(token.substr(length)));
}

json added_tokens(const std::vector<SpecialToken>& special, size_t first_id) {
  json tokens = json::array();
  for (size_t i = 0; i < special.size(); ++i)
    tokens.push_back({{"id", first_id + i},
                      {"content", special[i].text},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", false},
                      {"normalized", false},
                      {"special", special[i].is_control}});
  return tokens;
}

json post_processor(const RankedTokens& ranked, size_t first_id) {
  const auto bos = std::ranges::find(ranked.special, ranked.bos, &SpecialToken::text);
  if (ranked.bos.empty() || bos == ranked.special.end()) return nullptr;
  const size_t id = first_id + static_cast<size_t>(bos - ranked.special.begin());
  auto special = [&](int type) {
    return json{{"SpecialToken", {{"id", ranked.bos}, {"type_id", type}}}};
  };
  auto text = [](const char* name, int type) {
    return json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  return {{"type", "TemplateProcessing"},
          {"single", {special(0), text("A", 0)}},
          {"pair", {special(0), text("A", 0), special(1), text("B", 1)}},
          {"special_tokens",
           {{ranked.bos,
             {{"id", ranked.bos},
              {"ids", json::array({id})},
              {"tokens", json::array({ranked.bos})}}}}}};
}

}  // namespace

std::string tokenizer_json_of_ranked(const RankedTokens& ranked) {
  const Ranks ranks = ranks_of(ranked);
  const size_t first_token = ranked.special_first ? ranked.special.size() : 0;
  const size_t first_special = ranked.special_first ? 0 : ranked.tokens.size();
  json vocab = json::object();
  // Those that come first have to be in the vocabulary too, or tokenizers would number them itself.
  for (size_t i = 0; i < ranked.special.size() && ranked.special_first; ++i)
    vocab[ranked.special[i].text] = i;
  std::vector<std::string> merges;
  for (size_t rank = 0; rank < ranked.tokens.size(); ++rank) {
    const std::string& token = ranked.tokens[rank];
    vocab[byte_level_spelling(token)] = first_token + rank;
    append_merges(token, ranks, merges);
    if (merges.size() > kMaxPairs)
      throw DataError("expected at most " + std::to_string(kMaxPairs) +
                      " pairs of tokens that make one, found more");
  }
  const json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", false}};
  const json split = {{"type", "Split"},
                      {"pattern", {{"Regex", ranked.split}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  const json object = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added_tokens(ranked.special, first_special)},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", json::array({split, byte_level})}}},
      {"post_processor", post_processor(ranked, first_special)},
      {"decoder", byte_level},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", true},
        {"vocab", std::move(vocab)},
        {"merges", std::move(merges)}}}};
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace longshore::data
