// What tokens are chosen, and how often.
#include "longshore/trainer/decoding/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "longshore/base/error.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;

// Probabilities 0.1, 0.4, 0.05, 0.25, 0.2 at temperature 1.
const std::vector<double> kProbabilities{0.1, 0.4, 0.05, 0.25, 0.2};

std::vector<float> logits() {
  std::vector<float> logits;
  for (double p : kProbabilities) logits.push_back(static_cast<float>(std::log(p)) + 3);
  return logits;
}

constexpr int kDraws = 20000;

std::vector<double> frequencies(const Sampling& sampling) {
  std::vector<double> frequencies(kProbabilities.size());
  for (int i = 0; i < kDraws; ++i)
    frequencies[static_cast<size_t>(choose_token(logits(), sampling, i))] += 1. / kDraws;
  return frequencies;
}

// Five standard deviations of what a frequency can be off by.
void expect_frequencies(const Sampling& sampling, std::vector<double> weights) {
  double sum = 0;
  for (double weight : weights) sum += weight;
  std::vector<double> found = frequencies(sampling);
  for (size_t i = 0; i < weights.size(); ++i) {
    double p = weights[i] / sum;
    EXPECT_NEAR(found[i], p, 5 * std::sqrt(p * (1 - p) / kDraws)) << i;
  }
}

TEST(Sampling, FollowsTheProbabilities) {
  expect_frequencies({.temperature = 1}, kProbabilities);
  std::vector<double> squares;
  for (double p : kProbabilities) squares.push_back(p * p);
  expect_frequencies({.temperature = 0.5, .seed = 3}, squares);
}

TEST(Sampling, KeepsTheLikeliest) {
  expect_frequencies({.temperature = 1, .top_k = 3}, {0, 0.4, 0, 0.25, 0.2});
  expect_frequencies({.temperature = 1, .top_k = 9}, kProbabilities);
  // 0.4 + 0.25 is too little for 0.66, enough for 0.64.
  expect_frequencies({.temperature = 1, .top_p = 0.66}, {0, 0.4, 0, 0.25, 0.2});
  expect_frequencies({.temperature = 1, .top_p = 0.64}, {0, 0.4, 0, 0.25, 0});
  // Of the three that top_k leaves, 0.4 / 0.85 and 0.25 / 0.85 have more than 0.76.
  expect_frequencies({.temperature = 1, .top_k = 3, .top_p = 0.76}, {0, 0.4, 0, 0.25, 0});
  for (const Sampling& one :
       {Sampling{.temperature = 1, .top_k = 1}, Sampling{.temperature = 1, .top_p = 1e-300},
        Sampling{.temperature = 0}, Sampling{.temperature = 1e-300}})
    EXPECT_EQ(frequencies(one), (std::vector<double>{0, frequencies(one)[1], 0, 0, 0}));
}

TEST(Sampling, IsAFunctionOfSeedAndIndex) {
  std::vector<float> many(1000);
  for (size_t i = 0; i < many.size(); ++i) many[i] = std::sin(static_cast<float>(i));
  auto tokens = [&](const Sampling& sampling) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < 20; ++i) tokens.push_back(choose_token(many, sampling, i));
    return tokens;
  };
  EXPECT_EQ(tokens({.seed = 1}), tokens({.seed = 1}));
  EXPECT_NE(tokens({.seed = 1}), tokens({.seed = 2}));
  EXPECT_NE(tokens({.seed = 1})[0], tokens({.seed = 1})[1]);
}

TEST(Sampling, TakesTheFirstOfEqualLogits) {
  const std::vector<float> equal{1, 2, 2, 2};
  EXPECT_EQ(choose_token(equal, {.temperature = 0}, 0), 1);
  EXPECT_EQ(choose_token(equal, {.top_k = 1}, 0), 1);
}

TEST(Sampling, RefusesWhatLeavesNoToken) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const Sampling& bad :
       {Sampling{.temperature = kNan}, Sampling{.temperature = -1}, Sampling{.top_k = -1},
        Sampling{.temperature = std::numeric_limits<double>::infinity()}, Sampling{.top_p = kNan},
        Sampling{.top_p = 0}, Sampling{.top_p = 1.5}})
    EXPECT_THROW(choose_token(logits(), bad, 0), InternalError);
  for (double temperature : {0., 1.})
    EXPECT_THROW(choose_token({}, {.temperature = temperature}, 0), InternalError);
}

TEST(Sampling, RefusesWhatIsNoNumber) {
  for (float odd :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (double temperature : {0., 1.}) try {
        choose_token(std::vector<float>{1, odd}, {.temperature = temperature}, 0);
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("token 1"));
      }
}

}  // namespace
}  // namespace longshore::trainer
