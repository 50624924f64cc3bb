#include "longshore/base/pieces.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace longshore {
namespace {

std::vector<std::pair<int64_t, int64_t>> pieces(int64_t total, int64_t piece) {
  std::vector<std::pair<int64_t, int64_t>> all;
  for_each_piece(total, piece,
                 [&](int64_t first, int64_t count) { all.emplace_back(first, count); });
  return all;
}

TEST(ForEachPiece, CoversTheRangeInOrder) {
  using List = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(pieces(10, 4), (List{{0, 4}, {4, 4}, {8, 2}}));
  EXPECT_EQ(pieces(8, 4), (List{{0, 4}, {4, 4}}));
  EXPECT_EQ(pieces(3, 4), (List{{0, 3}}));
  EXPECT_EQ(pieces(0, 4), List());
}

}  // namespace
}  // namespace longshore
