#include "base/plural.h"

#include <gtest/gtest.h>

namespace longshore {
namespace {

TEST(Plural, OnlyOneHasNone) {
  EXPECT_EQ(plural(0, "token"), "0 tokens");
  EXPECT_EQ(plural(1, "token"), "1 token");
  EXPECT_EQ(plural(2, "bad line"), "2 bad lines");
}

}  // namespace
}  // namespace longshore
