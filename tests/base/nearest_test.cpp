#include "base/nearest.h"

#include <gtest/gtest.h>

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

TEST(Nearest, GivesNothingWhenNothingIsNear) {
  EXPECT_EQ(nearest("tokenizer_path", kKeys), "");
  EXPECT_EQ(nearest("", kKeys), "");
  EXPECT_EQ(nearest("steps", {}), "");
}

TEST(Join, PutsSeparatorsBetweenWordsOnly) {
  EXPECT_EQ(join({}), "");
  const std::vector<std::string> one = {"a"}, three = {"a", "b", "c"};
  EXPECT_EQ(join(one), "a");
  EXPECT_EQ(join(three), "a, b, c");
  EXPECT_EQ(join(three, " | "), "a | b | c");
}

}  // namespace
}  // namespace longshore
