#include "longshore/base/text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace longshore {
namespace {

using Words = std::vector<std::string>;

TEST(Join, PutsSeparatorsBetweenWordsOnly) {
  EXPECT_EQ(join({}), "");
  const Words one = {"a"}, three = {"a", "b", "c"};
  EXPECT_EQ(join(one), "a");
  EXPECT_EQ(join(three), "a, b, c");
  EXPECT_EQ(join(three, " | "), "a | b | c");
}

TEST(Split, CutsAtCommasOnly) {
  EXPECT_EQ(split(""), Words());
  EXPECT_EQ(split("a"), Words{"a"});
  EXPECT_EQ(split("a,b c,,d"), (Words{"a", "b c", "", "d"}));
}

TEST(Plural, OmitsTheSForOne) {
  EXPECT_EQ(plural(0, "token"), "0 tokens");
  EXPECT_EQ(plural(1, "token"), "1 token");
  EXPECT_EQ(plural(2, "bad line"), "2 bad lines");
}

}  // namespace
}  // namespace longshore
