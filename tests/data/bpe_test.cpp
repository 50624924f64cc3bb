#include "longshore/data/tokenizers/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "longshore/base/utf8.h"

namespace longshore::data {
namespace {

using Ids = std::vector<int32_t>;

// Letters a to f, in the bytes' alphabet beside all other bytes; some of them of several bytes.
const std::vector<std::string> kLetters = {
    "a", "b", "c", "\xc3\xa9", "\xe2\x96\x81", "\xf0\x9f\x98\x80"};
const std::string kUnknown = "\xe6\xbc\xa2";  // no token of its own

std::string byte_name(int byte) { return "<" + std::to_string(byte) + ">"; }

// A model whose merges are drawn at random, those of earlier results included.
BpeModel random_model(BpeModel::Alphabet alphabet, size_t merge_count, uint64_t seed) {
  std::mt19937_64 random(seed);
  BpeModel model;
  model.alphabet = alphabet;
  std::map<std::string, int32_t> ids;
  auto add = [&](const std::string& token) {
    const auto [found, is_new] = ids.emplace(token, static_cast<int32_t>(model.tokens.size()));
    if (is_new) model.tokens.push_back(token);
    return found->second;
  };
  std::vector<int32_t> mergeable;
  for (int byte = 0; byte < 256; ++byte)
    model.byte_tokens[static_cast<size_t>(byte)] =
        add(alphabet == BpeModel::Alphabet::bytes ? std::string(1, static_cast<char>(byte))
                                                  : byte_name(byte));
  for (size_t byte = 0; byte < 256 && alphabet == BpeModel::Alphabet::characters; ++byte)
    model.fallback_tokens[byte] = {model.byte_tokens[byte]};
  for (const std::string& letter : kLetters) {
    if (alphabet == BpeModel::Alphabet::characters) {
      mergeable.push_back(add(letter));
      continue;
    }
    for (char byte : letter) mergeable.push_back(model.byte_tokens[static_cast<uint8_t>(byte)]);
  }
  std::map<std::pair<int32_t, int32_t>, bool> seen;
  while (model.merges.size() < merge_count) {
    const int32_t left = mergeable[random() % mergeable.size()];
    const int32_t right = mergeable[random() % mergeable.size()];
    const std::string text =
        model.tokens[static_cast<size_t>(left)] + model.tokens[static_cast<size_t>(right)];
    if (text.size() > 24 || !seen.emplace(std::pair(left, right), true).second) continue;
    model.merges.push_back({left, right, add(text)});
    mergeable.push_back(model.merges.back().result);
  }
  return model;
}

std::string random_text(std::mt19937_64& random, size_t letters, size_t kinds) {
  std::string text;
  for (size_t i = 0; i < letters; ++i)
    text += random() % 37 == 0 ? kUnknown : kLetters[random() % kinds];
  return text;
}

// By the definition: of all pairs of neighbours, the best is merged, the first where there are
// several of it.
Ids merged_slowly(const BpeModel& model, const std::string& text) {
  std::map<std::string, int32_t> ids;
  for (size_t id = 0; id < model.tokens.size(); ++id)
    ids[model.tokens[id]] = static_cast<int32_t>(id);
  Ids symbols;
  for (size_t at = 0; at < text.size();) {
    size_t length = 1;
    if (model.alphabet == BpeModel::Alphabet::characters)
      length = first_character(std::string_view(text).substr(at)).bytes;
    const std::string symbol = text.substr(at, length);
    if (ids.contains(symbol))
      symbols.push_back(ids[symbol]);
    else
      for (char byte : symbol) symbols.push_back(model.byte_tokens[static_cast<uint8_t>(byte)]);
    at += length;
  }
  std::map<std::pair<int32_t, int32_t>, size_t> ranks;
  for (size_t rank = 0; rank < model.merges.size(); ++rank)
    ranks[{model.merges[rank].left, model.merges[rank].right}] = rank;
  while (true) {
    std::optional<std::pair<size_t, size_t>> best;  // rank, place
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto rank = ranks.find({symbols[i], symbols[i + 1]});
      if (rank == ranks.end()) continue;
      const std::pair found(rank->second, i);
      if (!best || found < *best) best = found;
    }
    if (!best) return symbols;
    symbols[best->second] = model.merges[best->first].result;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best->second) + 1);
  }
}

Ids encoded(const Bpe& bpe, const std::string& text) {
  Ids ids;
  const std::string_view piece = text;
  bpe.encode({&piece, 1}, ids);
  return ids;
}

// Short and long pieces, with few merges (many places that none reaches across) and many.
TEST(Bpe, MergesAsTheDefinitionSays) {
  for (BpeModel::Alphabet alphabet : {BpeModel::Alphabet::bytes, BpeModel::Alphabet::characters})
    for (size_t merge_count : {0u, 4u, 12u, 60u, 200u}) {
      const BpeModel model = random_model(alphabet, merge_count, merge_count + 1);
      const Bpe bpe(model);
      std::mt19937_64 random(7);
      for (size_t letters : {1u, 2u, 3u, 5u, 9u, 20u, 60u, 150u})
        for (int i = 0; i < 12; ++i) {
          const std::string text = random_text(random, letters, 1 + random() % kLetters.size());
          const Ids expected = merged_slowly(model, text);
          ASSERT_EQ(encoded(bpe, text), expected) << text;
          ASSERT_EQ(encoded(bpe, text), expected) << text << ", from the cache";
        }
    }
}

// Merges of the tokens of bytes reach across characters that are no tokens.
TEST(Bpe, ByteTokensMayMerge) {
  BpeModel model = random_model(BpeModel::Alphabet::characters, 20, 3);
  const int32_t last = model.byte_tokens[0xa2], first = model.byte_tokens[0xe6];
  model.tokens.push_back("<162><230>");
  model.merges.push_back({last, first, static_cast<int32_t>(model.tokens.size()) - 1});
  const std::string text = "a" + kUnknown + kUnknown + "b";
  EXPECT_EQ(encoded(Bpe(model), text), merged_slowly(model, text));
  EXPECT_EQ(encoded(Bpe(model), text).size(), 2u + 5u);
}

TEST(Bpe, APieceThatIsATokenNeedsNoMerges) {
  BpeModel model = random_model(BpeModel::Alphabet::bytes, 10, 3);
  model.tokens.push_back("abcabcabc");
  const auto id = static_cast<int32_t>(model.tokens.size()) - 1;
  EXPECT_NE(encoded(Bpe(model), "abcabcabc"), Ids{id});
  model.ignore_merges = true;
  EXPECT_EQ(encoded(Bpe(model), "abcabcabc"), Ids{id});
  EXPECT_EQ(encoded(Bpe(model), "abcabcabca"), merged_slowly(model, "abcabcabca"));
}

// More pieces than the cache holds, in several threads, each of them twice.
TEST(Bpe, ThreadsAndAFullCacheChangeNothing) {
  const BpeModel model = random_model(BpeModel::Alphabet::bytes, 60, 5);
  std::vector<std::string> texts;
  std::mt19937_64 random(11);
  for (int i = 0; i < 100'000; ++i) texts.push_back(random_text(random, 1 + random() % 8, 6));
  const std::vector<std::string_view> pieces(texts.begin(), texts.end());

  const Bpe bpe(model);
  Ids expected;
  for (const std::string& text : texts) {
    const Ids ids = encoded(bpe, text);
    if (&text - texts.data() > 99'800) {
      ASSERT_EQ(ids, merged_slowly(model, text));
    }
    expected.insert(expected.end(), ids.begin(), ids.end());
  }
  std::array<Ids, 3> results;
  std::vector<std::thread> threads;
  for (Ids& result : results)
    threads.emplace_back([&] {
      bpe.encode(pieces, result);
      result.clear();
      bpe.encode(pieces, result);
    });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& result : results) EXPECT_TRUE(result == expected);
}

}  // namespace
}  // namespace longshore::data
