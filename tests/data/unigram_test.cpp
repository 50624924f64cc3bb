#include "longshore/data/rows/unigram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "longshore/data/rows/window_rows.h"
#include "tests/data/temporary_folder.h"

namespace longshore::data {
namespace {

class Unigram : public testing::Test {
 protected:
  using SharedFile = std::shared_ptr<const TokenFile>;

  SharedFile file(const std::string& name, int32_t vocab_size, uint64_t hash,
                  const std::vector<int32_t>& tokens,
                  const std::vector<uint8_t>& carries_loss = {}) {
    TokenFileWriter writer(folder_ / name, vocab_size, hash,
                           carries_loss.empty() ? LossMask::absent : LossMask::present);
    if (!tokens.empty()) writer.append(tokens, carries_loss);
    writer.finish();
    return std::make_shared<const TokenFile>(folder_ / name);
  }

  // Of all rows of two tokens, or of the first `rows`.
  static double cross_entropy(const std::vector<SharedFile>& training, const SharedFile& validation,
                              int64_t rows = 1 << 30) {
    constexpr int64_t kLength = 2;
    const auto windows =
        std::make_shared<WindowRows>(validation, kLength, WindowRows::Remainder::padded);
    const EvaluatedRows evaluated{
        .rows = windows, .count = std::min(windows->count(), rows), .length = kLength};
    return unigram_cross_entropy(training, {&evaluated, 1}, validation->vocab_size());
  }

  TemporaryFolder folder_;
};

TEST_F(Unigram, CountsWithOneAdded) {
  const SharedFile training = file("a", 4, 1, {0, 0, 0, 1, 1, 2});  // of 10: 4, 3, 2, 1
  const SharedFile validation = file("b", 4, 1, {2, 0, 1, 1, 3});   // the first is no target
  EXPECT_NEAR(cross_entropy({training}, validation),
              -(std::log(0.4) + 2 * std::log(0.3) + std::log(0.1)) / 4, 1e-12);
}

TEST_F(Unigram, CountsTheTargetsThatAreEvaluated) {
  const SharedFile training = file("a", 4, 1, {0, 0, 0, 1, 1, 2});
  const SharedFile validation = file("b", 4, 1, {2, 0, 1, 1, 3, 3});
  EXPECT_NEAR(cross_entropy({training}, validation, 1), -(std::log(0.4) + std::log(0.3)) / 2,
              1e-12);
  EXPECT_NEAR(cross_entropy({training}, validation),
              -(std::log(0.4) + 2 * std::log(0.3) + 2 * std::log(0.1)) / 5, 1e-12);
}

TEST_F(Unigram, CountsAllSourcesAndOnlyWhatCarriesLoss) {
  const SharedFile first = file("a", 4, 1, {0, 0, 3, 0, 1}, {1, 1, 0, 1, 1});
  const SharedFile second = file("c", 4, 1, {1, 2});  // together as above
  EXPECT_NEAR(cross_entropy({first, second}, file("b", 4, 1, {2, 0, 1, 1, 3})),
              -(std::log(0.4) + 2 * std::log(0.3) + std::log(0.1)) / 4, 1e-12);
}

TEST_F(Unigram, CrossEntropyOfATextUnderItselfIsItsEntropy) {
  std::vector<int32_t> tokens(64 * 5000 + 1);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i % 64);
  const SharedFile text = file("a", 64, 1, tokens);
  EXPECT_NEAR(cross_entropy({text}, text), std::log(64), 1e-9);
}

}  // namespace
}  // namespace longshore::data
