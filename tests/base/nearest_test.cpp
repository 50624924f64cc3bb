#include "longshore/base/nearest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

namespace longshore {
namespace {

const std::vector<std::string> kKeys = {"steps", "seed", "learning_rate", "mlpwi_0", "mlpwi_1"};

TEST(Nearest, FindsEverySingleMistake) {
  const std::string word = "learning_rate";
  for (size_t i = 0; i < word.size(); ++i) {
    std::string deleted = word, replaced = word, inserted = word, swapped = word;
    deleted.erase(i, 1);
    replaced[i] = '#';
    inserted.insert(i, "#");
    if (i + 1 < word.size()) std::swap(swapped[i], swapped[i + 1]);
    for (const std::string& wrong : {deleted, replaced, inserted, swapped})
      EXPECT_EQ(nearest(wrong, kKeys), word) << wrong;
  }
}

TEST(Nearest, SwapOfNeighboursIsOneMistake) {
  // Counted as two replacements it would tie with "abxy", which stands first.
  const std::vector<std::string> words = {"abxy", "bacd"};
  EXPECT_EQ(nearest("abcd", words), "bacd");
}

TEST(Nearest, PrefersTheExactWordAndThenTheFirst) {
  EXPECT_EQ(nearest("mlpwi_1", kKeys), "mlpwi_1");
  EXPECT_EQ(nearest("mlpwi", kKeys), "mlpwi_0");
}

TEST(Nearest, PrefersWhatTheWordBegins) {
  // "mlpwo" is one replacement away, "mlpwi_0" two insertions.
  const std::vector<std::string> labels = {"out_proj", "mlpwo", "mlpwi_0"};
  EXPECT_EQ(nearest("mlpwi", labels), "mlpwi_0");
}

TEST(Nearest, KnowsAbbreviationsWhereNothingElseIsNear) {
  const std::vector<std::string> dtypes = {"float32", "bfloat16"};
  EXPECT_EQ(nearest("bf16", dtypes), "bfloat16");
  EXPECT_EQ(nearest("f32", dtypes), "float32");
  EXPECT_EQ(nearest("fp32", dtypes), "");  // no letter of it is a p
  EXPECT_EQ(nearest("loat", {std::vector<std::string>{"a_float_that_is_long"}}), "");
}

TEST(Nearest, AbbreviationsBeginWordsWhereTheyGoOn) {
  const std::vector<std::string> keys = {"fall_back_to_earlier_checkpoint",
                                         "gradient_accumulation_steps", "checkpoint_period"};
  EXPECT_EQ(nearest("foo", keys), "");  // its o are within words
  EXPECT_EQ(nearest("gas", keys), "gradient_accumulation_steps");
  EXPECT_EQ(nearest("gaccst", keys), "gradient_accumulation_steps");
  EXPECT_EQ(nearest("ckpt", keys), "checkpoint_period");
  EXPECT_EQ(nearest("aaa", {std::vector<std::string>{"aba_a"}}), "aba_a");
}

TEST(Nearest, CapitalLettersCountAsSmallOnes) {
  EXPECT_EQ(nearest("SEED", kKeys), "seed");
  const std::vector<std::string> cards = {"a6000", "h100", "H200"};
  EXPECT_EQ(nearest("H1000", cards), "h100");
  EXPECT_EQ(nearest("h2oo", cards), "");
  EXPECT_EQ(nearest("h2000", cards), "H200");
}

TEST(Nearest, ShortWordsBeginAlike) {
  const std::vector<std::string> backends = {"auto", "cpu", "cuda"};
  EXPECT_EQ(nearest("tpu", backends), "");
  EXPECT_EQ(nearest("cpi", backends), "cpu");
  EXPECT_EQ(nearest("xuda", backends), "cuda");
}

TEST(Nearest, GivesNothingWhenNothingIsNear) {
  EXPECT_EQ(nearest("tokenizer_path", kKeys), "");
  EXPECT_EQ(nearest("", kKeys), "");
  EXPECT_EQ(nearest("steps", {}), "");
}

// Optimal string alignment, with nothing left out.
size_t plain_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> table(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        table[i][j] = i + j;
        continue;
      }
      table[i][j] = std::min(
          {table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        table[i][j] = std::min(table[i][j], table[i - 2][j - 2] + 1);
    }
  return table[a.size()][b.size()];
}

TEST(Nearest, IsTheFirstOfTheLeastDistance) {
  std::mt19937_64 random(1);
  auto word = [&] {
    std::string word(4 + random() % 9, ' ');
    for (char& letter : word) letter = "abc"[random() % 3];
    return word;
  };
  for (int i = 0; i < 2000; ++i) {
    const std::string wrong = "x" + word();  // no candidate begins with it
    std::vector<std::string> words(20);
    for (std::string& one : words) one = word();
    std::string expected;
    size_t least = std::max<size_t>(1, wrong.size() * 2 / 5) + 1;
    for (const std::string& one : words)
      if (const size_t distance = plain_distance(wrong, one); distance < least) {
        expected = one;
        least = distance;
      }
    EXPECT_EQ(nearest(wrong, words), expected) << wrong;
  }
}

// A hostile file may hold that many to keep an error message from appearing.
TEST(Nearest, GivesUpOnMoreNamesThanAnyoneHas) {
  const std::string name = "model.layers.79.self_attn.q_proj.weight";
  std::vector<std::string> names;
  for (int i = 0; i < 1 << 20; ++i) names.push_back(name.substr(1, 30) + std::to_string(i));
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(nearest(name, names), "");
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 20);  // computing all tables would take many minutes
  names.resize(18'000);
  names.push_back("model.layers.79.self_attn.q_proj.weigth");
  EXPECT_EQ(nearest(name, names), names.back());
}

}  // namespace
}  // namespace longshore
