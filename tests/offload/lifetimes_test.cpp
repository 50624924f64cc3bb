#include "longshore/offload/plan/lifetimes.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/offload/random_plan.h"

namespace longshore::offload {
namespace {

using Indices = std::vector<int>;

Indices indices(std::span<const int> list) { return {list.begin(), list.end()}; }

TEST(Lifetimes, ListBirthsAndDeathsByInstruction) {
  Plan plan;
  plan.instructions.resize(3);
  plan.buffers = {{.name = "argument", .owner = Owner::caller},
                  {.name = "early", .first = 0, .last = 1},
                  {.name = "unused"},
                  {.name = "written anew", .first = 2, .last = 0, .is_persistent = true},
                  {.name = "only read", .first = 3, .last = 1, .is_persistent = true},
                  {.name = "late", .first = 1, .last = 2},
                  {.name = "brief", .first = 1, .last = 1}};
  const Lifetimes lifetimes(plan);
  EXPECT_EQ(indices(lifetimes.live_in()), (Indices{3, 4}));
  EXPECT_EQ(indices(lifetimes.born_at(0)), (Indices{1}));
  EXPECT_EQ(indices(lifetimes.dying_at(0)), (Indices{3}));
  EXPECT_EQ(indices(lifetimes.born_at(1)), (Indices{5, 6}));
  EXPECT_EQ(indices(lifetimes.dying_at(1)), (Indices{1, 4, 6}));
  EXPECT_EQ(indices(lifetimes.born_at(2)), (Indices{3}));
  EXPECT_EQ(indices(lifetimes.dying_at(2)), (Indices{5}));
  EXPECT_EQ(indices(lifetimes.live_out()), (Indices{3}));
}

TEST(Lifetimes, AreThoseOfTheBuffers) {
  const Plan plan = random_plan(1).plan;
  const Lifetimes lifetimes(plan);
  std::vector<Buffer> found(plan.buffers.size());
  for (int i = 0; i < std::ssize(plan.instructions); ++i) {
    for (int b : lifetimes.born_at(i)) found[b].first = i;
    for (int b : lifetimes.dying_at(i)) found[b].last = i;
  }
  for (size_t b = 0; b < found.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    EXPECT_EQ(found[b].first, buffer.is_in_arena() ? buffer.first : -1) << buffer.name;
    EXPECT_EQ(found[b].last, buffer.is_in_arena() ? buffer.last : -1) << buffer.name;
  }
}

TEST(Lifetimes, AreNoneInAnEmptyPlan) {
  const Lifetimes lifetimes(Plan{});
  EXPECT_TRUE(lifetimes.live_in().empty());
  EXPECT_TRUE(lifetimes.live_out().empty());
}

TEST(CallerUses, TellArgumentsFromOutputs) {
  enum { a, b, c, d };
  Plan plan;
  for (const char* name : {"a", "b", "c", "d"})
    plan.buffers.push_back({.name = name, .owner = Owner::caller});
  auto add = [&](Indices in, Indices out) {
    Instruction& instruction = plan.instructions.emplace_back();
    for (int buffer : in) instruction.in.push_back({.buffer = buffer, .type = {}});
    for (int buffer : out) instruction.out.push_back({.buffer = buffer, .type = {}});
  };
  add({a}, {b});
  add({b, c}, {a});
  add({c}, {c, b});
  const std::vector<CallerUse> uses = caller_uses(plan);
  auto expect = [&](int buffer, bool is_argument, int first_write) {
    EXPECT_EQ(uses[buffer].is_argument, is_argument) << buffer;
    EXPECT_EQ(uses[buffer].first_write, first_write) << buffer;
    EXPECT_EQ(uses[buffer].is_output(), first_write >= 0) << buffer;
    EXPECT_EQ(uses[buffer].is_alias(), is_argument && first_write >= 0) << buffer;
  };
  expect(a, true, 1);
  expect(b, false, 0);
  expect(c, true, 2);
  expect(d, true, -1);  // nothing uses it, so it keeps what it held
}

}  // namespace
}  // namespace longshore::offload
