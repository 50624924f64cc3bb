#include "longshore/offload/plan/memory_analysis.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "longshore/offload/memory/alignment.h"

namespace longshore::offload {
namespace {

constexpr int64_t kUnit = kArenaAlignment;

// Three instructions. Instruction 1 is the first that writes y, which nothing reads.
Plan plan_by_hand() {
  Plan plan;
  plan.buffers = {{.name = "x", .bytes = kUnit, .owner = Owner::caller},
                  // Counts as two units.
                  {.name = "y", .bytes = kUnit + 1, .owner = Owner::caller},
                  {.name = "decoder.0.a", .bytes = 4 * kUnit, .first = 0, .last = 1},
                  {.name = "decoder.1.a", .bytes = 16 * kUnit, .first = 1, .last = 1},
                  {.name = "carried",
                   .bytes = 16 * kUnit,
                   .category = Category::kept,
                   .first = 2,
                   .last = 0,
                   .is_persistent = true},
                  {.name = "unused", .bytes = 1000 * kUnit}};
  plan.instructions.resize(3);
  plan.instructions[0].in = {{.buffer = 0, .type = {}}};
  plan.instructions[1].out = {{.buffer = 1, .type = {}}};
  plan.arena_bytes[MemoryKind::device] = 21 * kUnit;
  return plan;
}

TEST(MemoryAnalysis, AddsUpByHand) {
  const MemoryAnalysis analysis = analyze(plan_by_hand(), MemoryKind::device);
  EXPECT_EQ(analysis.argument_bytes, kUnit);
  EXPECT_EQ(analysis.output_bytes, 2 * kUnit);
  EXPECT_EQ(analysis.alias_bytes, 0);
  EXPECT_EQ(analysis.temp_bytes, 21 * kUnit);
  EXPECT_EQ(analysis.total_bytes(), 24 * kUnit);
  EXPECT_EQ(analysis.peak_bytes, 24 * kUnit);
  // As much is live at instruction 1; the first counts.
  EXPECT_EQ(analysis.live_bytes, 23 * kUnit);
  EXPECT_EQ(analysis.peak_instruction, 0);
  EXPECT_EQ(analysis.by_category[Category::kept], 16 * kUnit);
  EXPECT_EQ(analysis.by_category[Category::temporaries], 7 * kUnit);
  // With y allocated at instruction 1, that is the fullest.
  EXPECT_EQ(analysis.live_bytes_outputs_late, 23 * kUnit);
}

TEST(MemoryAnalysis, OutputsAllocatedLateTakeNothingBefore) {
  Plan plan = plan_by_hand();
  plan.buffers[3].bytes = 8 * kUnit;
  EXPECT_EQ(analyze(plan, MemoryKind::device).live_bytes, 23 * kUnit);
  EXPECT_EQ(analyze(plan, MemoryKind::device).live_bytes_outputs_late, 21 * kUnit);
  // As an argument that is written as well, y is there from the beginning.
  plan.instructions[0].in.push_back({.buffer = 1, .type = {}});
  const MemoryAnalysis analysis = analyze(plan, MemoryKind::device);
  EXPECT_EQ(analysis.alias_bytes, 2 * kUnit);
  EXPECT_EQ(analysis.total_bytes(), 24 * kUnit);
  EXPECT_EQ(analysis.live_bytes_outputs_late, 23 * kUnit);
}

TEST(MemoryAnalysis, OtherKindsAndEmptyPlansTakeNothing) {
  for (const Plan& plan : {plan_by_hand(), Plan{}}) {
    const MemoryAnalysis analysis = analyze(plan, MemoryKind::pinned_host);
    EXPECT_EQ(analysis.peak_bytes, 0);
    EXPECT_EQ(analysis.live_bytes, 0);
    EXPECT_EQ(analysis.live_bytes_outputs_late, 0);
  }
}

TEST(LiveBytes, AreCountedAtEachInstruction) {
  EXPECT_EQ(live_bytes_by_instruction(plan_by_hand(), MemoryKind::device),
            (std::vector<int64_t>{23 * kUnit, 23 * kUnit, 19 * kUnit}));
  EXPECT_EQ(live_bytes_by_instruction(plan_by_hand(), MemoryKind::pinned_host),
            (std::vector<int64_t>{0, 0, 0}));
}

TEST(LiveBytes, AddUpByCategory) {
  const Plan plan = plan_by_hand();
  const std::vector<int64_t> bytes = live_bytes_by_instruction(plan, MemoryKind::device);
  const auto categories = live_categories_by_instruction(plan, MemoryKind::device);
  ASSERT_EQ(categories.size(), bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i)
    EXPECT_EQ(std::accumulate(categories[i].begin(), categories[i].end(), int64_t{0}), bytes[i]);
  const MemoryAnalysis analysis = analyze(plan, MemoryKind::device);
  EXPECT_EQ(categories[analysis.peak_instruction], analysis.by_category);
}

TEST(LiveGroups, JoinTheBuffersOfAllLayers) {
  struct Group {
    std::string name;
    int count;
    int64_t units;
  };
  auto expect = [](int instruction, const std::vector<Group>& expected) {
    const std::vector<LiveGroup> groups =
        live_groups(plan_by_hand(), MemoryKind::device, instruction);
    ASSERT_EQ(groups.size(), expected.size());
    for (size_t i = 0; i < groups.size(); ++i) {
      EXPECT_EQ(groups[i].name, expected[i].name);
      EXPECT_EQ(groups[i].count, expected[i].count);
      EXPECT_EQ(groups[i].bytes, expected[i].units * kUnit);
    }
  };
  expect(0, {{"carried", 1, 16}, {"decoder.*.a", 1, 4}, {"y", 1, 2}, {"x", 1, 1}});
  expect(1, {{"decoder.*.a", 2, 20}, {"y", 1, 2}, {"x", 1, 1}});
  expect(2, {{"carried", 1, 16}, {"y", 1, 2}, {"x", 1, 1}});
}

}  // namespace
}  // namespace longshore::offload
