#include "longshore/base/problem_list.h"

#include <gtest/gtest.h>

#include <string>

namespace longshore {
namespace {

ProblemList numbered(int count) {
  ProblemList problems;
  for (int i = 0; i < count; ++i) problems.add(std::to_string(i));
  return problems;
}

TEST(ProblemList, IsEmptyUntilSomethingIsWrong) {
  EXPECT_TRUE(numbered(0).empty());
  EXPECT_FALSE(numbered(1).empty());
  EXPECT_EQ(numbered(0).text(), "");
  EXPECT_EQ(numbered(1).text(), "0");
  EXPECT_EQ(numbered(3).text(), "0\n  1\n  2");
}

TEST(ProblemList, CountsWhatItLeavesOut) {
  EXPECT_FALSE(numbered(49).is_full());
  EXPECT_TRUE(numbered(50).is_full());
  EXPECT_TRUE(numbered(50).text().ends_with("\n  48\n  49"));
  EXPECT_TRUE(numbered(51).text().ends_with("\n  49\n  and 1 more"));
  EXPECT_TRUE(numbered(1000).text().ends_with("\n  49\n  and 950 more"));
}

}  // namespace
}  // namespace longshore
