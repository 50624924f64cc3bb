// Which of the processes is the slowest.
#include "longshore/trainer/run/compare_ranks.h"

#include <gtest/gtest.h>

#include "tests/trainer/distributed/store_worlds.h"

namespace longshore::trainer {
namespace {

// A process's first step and its odd ones do not count.
TEST(CompareRanks, NamesTheSlowestByItsMedian) {
  const std::vector<std::vector<double>> seconds{{9, 2, 2, 2}, {9, 1, 1, 50}, {1, 3, 3, 3}};
  on_ranks(3, [&](World& world) {
    StepFigures steps;
    for (double one : seconds[world.rank()]) steps.add({.seconds = one});
    const std::optional<RankFigures> figures = compare_ranks(steps, world);
    ASSERT_TRUE(figures);
    EXPECT_EQ(figures->count, 3);
    EXPECT_EQ(figures->slowest, 2);
    EXPECT_EQ(figures->slowest_median_step_seconds, 3);
    EXPECT_EQ(figures->fastest_median_step_seconds, 1);
  });
}

}  // namespace
}  // namespace longshore::trainer
