#include "data/unigram.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "tests/data/temporary_folder.h"

namespace longshore::data {
namespace {

class Unigram : public testing::Test {
 protected:
  std::filesystem::path shard(const std::string& name, int32_t vocab_size, uint64_t hash,
                              const std::vector<int32_t>& tokens) {
    TokenShardWriter writer(folder_ / name, vocab_size, hash);
    writer.append(tokens);
    writer.finish(0);
    return folder_ / name;
  }

  TemporaryFolder folder_;
};

TEST_F(Unigram, CountsWithOneAdded) {
  const TokenShard training(shard("a", 4, 1, {0, 0, 0, 1, 1, 2}));  // of 10: 4, 3, 2, 1
  const TokenShard validation(shard("b", 4, 1, {0, 1, 1, 3}));
  EXPECT_NEAR(unigram_cross_entropy(training, validation),
              -(std::log(0.4) + 2 * std::log(0.3) + std::log(0.1)) / 4, 1e-12);
}

TEST_F(Unigram, OfATextUnderItselfIsItsEntropy) {
  std::vector<int32_t> tokens(64 * 5000);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i % 64);
  const TokenShard text(shard("a", 64, 1, tokens));
  EXPECT_NEAR(unigram_cross_entropy(text, text), std::log(64), 1e-12);
}

TEST_F(Unigram, RefusesShardsThatDoNotBelongTogether) {
  const TokenShard training(shard("a", 4, 1, {0}));
  EXPECT_THROW(unigram_cross_entropy(training, TokenShard(shard("b", 4, 2, {0}))), DataError);
  EXPECT_THROW(unigram_cross_entropy(training, TokenShard(shard("c", 5, 1, {0}))), DataError);
  EXPECT_THROW(unigram_cross_entropy(training, TokenShard(shard("d", 4, 1, {}))), DataError);
}

}  // namespace
}  // namespace longshore::data
