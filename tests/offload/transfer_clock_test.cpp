#include "longshore/offload/plan/transfer_clock.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace longshore::offload {
namespace {

Instruction in_layer(int layer, Lane lane = Lane::compute) {
  Instruction instruction;
  instruction.lane = lane;
  instruction.scope = {.stage = "decoder", .layer = layer};
  return instruction;
}

Instruction update_of(int layer) {
  Instruction instruction = in_layer(layer);
  instruction.scope.phase = Phase::optimizer;
  return instruction;
}

Plan plan_of(std::vector<Instruction> instructions) {
  Plan plan;
  plan.instructions = std::move(instructions);
  return plan;
}

// Two instructions for each of four layers.
Plan layers() {
  Plan plan;
  for (int i = 0; i < 8; ++i) plan.instructions.push_back(in_layer(i / 2));
  return plan;
}

TEST(TransferClock, FetchesStartAheadOfTheirUses) {
  for (auto [ahead, start] : {std::pair{0.0, 6}, {0.5, 5}, {1.0, 4}, {3.0, 0}, {9.0, 0}})
    EXPECT_EQ(TransferClock(layers(), ahead).fetch_start(6), start) << ahead;
}

TEST(TransferClock, BuffersAreHeldAfterTheyAreSent) {
  for (auto [ahead, end] : {std::pair{0.0, 1}, {0.5, 2}, {1.0, 3}, {3.0, 7}, {9.0, 7}})
    EXPECT_EQ(TransferClock(layers(), ahead).keep_end(1), end) << ahead;
}

// From a copy on, a buffer is held for as many kernels as lie within the distance.
TEST(TransferClock, CopiesAreNoTicks) {
  const Plan plan = plan_of(
      {in_layer(0), in_layer(0, Lane::device_to_host), in_layer(0), in_layer(1), in_layer(1)});
  EXPECT_EQ(TransferClock(plan, 0).keep_end(1), 1);
  EXPECT_EQ(TransferClock(plan, 0.5).keep_end(1), 2);
  EXPECT_EQ(TransferClock(plan, 1).keep_end(1), 3);
}

TEST(TransferClock, UsesAreNearWithinTheDistance) {
  EXPECT_TRUE(TransferClock(layers(), 1).are_near(0, 2));
  EXPECT_FALSE(TransferClock(layers(), 1).are_near(0, 3));
  EXPECT_TRUE(TransferClock(layers(), 3).are_near(0, 3));
  // Neighbours always are.
  EXPECT_TRUE(TransferClock(layers(), 0).are_near(0, 1));
  EXPECT_FALSE(TransferClock(layers(), 0).are_near(0, 2));
}

// A layer lasts as long as any other, however many instructions it has.
TEST(TransferClock, MeasuresInLayers) {
  const Plan plan = plan_of({in_layer(0), in_layer(0), in_layer(0), in_layer(0), in_layer(1)});
  EXPECT_EQ(TransferClock(plan, 1).fetch_start(4), 0);
  EXPECT_EQ(TransferClock(plan, 0.5).fetch_start(4), 2);
}

TEST(TransferClock, FourUpdatesCountAsALayer) {
  Plan plan;
  for (int i = 0; i < 8; ++i) plan.instructions.push_back(update_of(i));
  EXPECT_EQ(TransferClock(plan, 1).fetch_start(6), 2);
  EXPECT_EQ(TransferClock(plan, 0.5).fetch_start(6), 4);
}

TEST(TransferClock, CollectivesOfOtherLayersBeginNone) {
  const Plan plan =
      plan_of({in_layer(0), in_layer(1, Lane::network), in_layer(0), in_layer(1), in_layer(1)});
  EXPECT_EQ(TransferClock(plan, 1).fetch_start(4), 2);
}

TEST(TransferClock, UpdatesNeedNotBeTicks) {
  const Plan plan = plan_of({in_layer(0), in_layer(0), update_of(5), in_layer(1), in_layer(1)});
  EXPECT_EQ(TransferClock(plan, 1, Ticks::all).fetch_start(4), 2);
  EXPECT_EQ(TransferClock(plan, 1, Ticks::layers_only).fetch_start(4), 1);
}

}  // namespace
}  // namespace longshore::offload
