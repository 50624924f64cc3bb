#include "data/unigram.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "tests/data/temporary_folder.h"

namespace longshore::data {
namespace {

class Unigram : public testing::Test {
 protected:
  using Shard = std::shared_ptr<const TokenShard>;

  Shard shard(const std::string& name, int32_t vocab_size, uint64_t hash,
              const std::vector<int32_t>& tokens, const std::vector<uint8_t>& carries_loss = {}) {
    TokenShardWriter writer(folder_ / name, vocab_size, hash,
                            carries_loss.empty() ? LossMarks::absent : LossMarks::present);
    if (!tokens.empty()) writer.append(tokens, carries_loss);
    writer.finish();
    return std::make_shared<const TokenShard>(folder_ / name);
  }

  static double cross_entropy(const std::vector<Shard>& training, const Shard& validation) {
    return unigram_cross_entropy(training, *validation);
  }

  TemporaryFolder folder_;
};

TEST_F(Unigram, CountsWithOneAdded) {
  const Shard training = shard("a", 4, 1, {0, 0, 0, 1, 1, 2});  // of 10: 4, 3, 2, 1
  const Shard validation = shard("b", 4, 1, {0, 1, 1, 3});
  EXPECT_NEAR(cross_entropy({training}, validation),
              -(std::log(0.4) + 2 * std::log(0.3) + std::log(0.1)) / 4, 1e-12);
}

TEST_F(Unigram, CountsAllSourcesAndOnlyWhatCarriesLoss) {
  const Shard first = shard("a", 4, 1, {0, 0, 3, 0, 1}, {1, 1, 0, 1, 1});
  const Shard second = shard("c", 4, 1, {1, 2});  // together as above
  const Shard validation = shard("b", 4, 1, {2, 0, 1, 1, 3, 2}, {0, 1, 1, 1, 1, 0});
  EXPECT_NEAR(cross_entropy({first, second}, validation),
              -(std::log(0.4) + 2 * std::log(0.3) + std::log(0.1)) / 4, 1e-12);
}

TEST_F(Unigram, CrossEntropyOfATextUnderItselfIsItsEntropy) {
  std::vector<int32_t> tokens(64 * 5000);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i % 64);
  const Shard text = shard("a", 64, 1, tokens);
  EXPECT_NEAR(cross_entropy({text}, text), std::log(64), 1e-12);
}

TEST_F(Unigram, RefusesShardsThatDoNotBelongTogether) {
  const Shard training = shard("a", 4, 1, {0});
  EXPECT_THROW(cross_entropy({training}, shard("b", 4, 2, {0})), DataError);
  EXPECT_THROW(cross_entropy({training}, shard("c", 5, 1, {0})), DataError);
  EXPECT_THROW(cross_entropy({training}, shard("d", 4, 1, {})), DataError);
}

}  // namespace
}  // namespace longshore::data
