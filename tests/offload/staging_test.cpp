// Checks where the moves of staged ranges stand in the list of instructions, and that plans with
// staged ranges leave the same bytes as plain execution, however early they fetch and however late
// they send.
#include "longshore/offload/lowering/staging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "longshore/base/error.h"
#include "longshore/models/ir/add.h"
#include "longshore/models/ir/model.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/execution/executor.h"
#include "longshore/offload/lowering/plan_builder.h"
#include "longshore/offload/plan/memory_analysis.h"
#include "tests/message_of.h"
#include "tests/offload/plan_checks.h"
#include "tests/offload/shuffled_backend.h"

namespace longshore::offload {
namespace {

using testing::HasSubstr;

using models::Target;

constexpr int64_t kFloats = 64;

// --- plans by hand

enum class Part { whole, half };

// What one addition does with staged ranges, by their names.
struct Step {
  const char* reads = "";
  const char* writes = "";
  Part part = Part::whole;  // of what it writes
};

constexpr int kLayerLength = 2;  // additions

// StagedRanges "w" and "v" lie apart; "o" shares half of its bytes with "w".
Plan plan_of(std::vector<Step> steps, double prefetch_layers) {
  PlanBuilder builder("plan", Target::cpu);
  auto argument = [&](const char* name, MemoryKind kind) {
    return builder.argument(name, 2 * kFloats * 4, kind, Category::parameters);
  };
  int w_and_o = argument("a", MemoryKind::pinned_host), v = argument("b", MemoryKind::pinned_host);
  int x = argument("x", MemoryKind::device), y = argument("y", MemoryKind::device);
  models::Type whole{{kFloats}}, half{{kFloats / 2}};
  std::map<std::string, Operand> staged_ranges;
  staged_ranges["o"] = builder.staged({w_and_o, whole.bytes() / 2, whole}, "o");
  staged_ranges["v"] = builder.staged({v, 0, whole}, "v");
  staged_ranges["w"] = builder.staged({w_and_o, 0, whole}, "w");
  for (int i = 0; i < std::ssize(steps); ++i) {
    const Step& step = steps[i];
    const models::Type& type = step.part == Part::whole ? whole : half;
    auto at = [&](const char* name, int otherwise) {
      return Operand{*name ? staged_ranges.at(name).buffer : otherwise, 0, type};
    };
    PlanBuilder::Bindings bindings{at(step.reads, x), {x, 0, type}, at(step.writes, y)};
    builder.run(models::addition(type), bindings, {"layer", i / kLayerLength});
  }
  return builder.finish({.prefetch_layers = prefetch_layers});
}

// Additions by number, "<w" where w is fetched, ">w" where it is stored.
std::string order(const Plan& plan) {
  std::string line;
  int additions = 0;
  for (const Instruction& instruction : plan.instructions) {
    std::string word = instruction.lane == Lane::host_to_device   ? "<" + instruction.name
                       : instruction.lane == Lane::device_to_host ? ">" + instruction.name
                                                                  : std::to_string(additions++);
    line += (line.empty() ? "" : " ") + word;
  }
  return line;
}

// Eight steps, and what the given ones do.
std::string order(const std::map<int, Step>& uses, double prefetch_layers) {
  std::vector<Step> steps(8);
  for (const auto& [i, step] : uses) steps[i] = step;
  return order(plan_of(steps, prefetch_layers));
}

const Step kReadsW{.reads = "w"}, kWritesW{.writes = "w"}, kReadsO{.reads = "o"},
    kWritesO{.writes = "o"}, kReadsV{.reads = "v"}, kUpdatesW{.reads = "w", .writes = "w"},
    kWritesHalfOfW{.writes = "w", .part = Part::half};

TEST(StagedRanges, AreFetchedAheadByTheirLayersLength) {
  EXPECT_EQ(order({{6, kReadsW}}, 0), "0 1 2 3 4 5 <w 6 7");
  EXPECT_EQ(order({{6, kReadsW}}, 0.5), "0 1 2 3 4 <w 5 6 7");
  EXPECT_EQ(order({{6, kReadsW}}, 1), "0 1 2 3 <w 4 5 6 7");
  EXPECT_EQ(order({{6, kReadsW}}, 3), "<w 0 1 2 3 4 5 6 7");
  EXPECT_EQ(order({{7, kReadsW}}, 3), "0 <w 1 2 3 4 5 6 7");
  EXPECT_EQ(order({{1, kReadsW}}, 3), "<w 0 1 2 3 4 5 6 7");
}

TEST(StagedRanges, AreFetchedInTheOrderOfTheirUse) {
  EXPECT_EQ(order({{1, kReadsW}, {2, kReadsV}}, 3), "<w <v 0 1 2 3 4 5 6 7");
  EXPECT_EQ(order({{1, kReadsV}, {2, kReadsW}}, 3), "<v <w 0 1 2 3 4 5 6 7");
}

TEST(StagedRanges, StayBetweenUsesThatAreNear) {
  EXPECT_EQ(order({{0, kReadsW}, {2, kReadsW}}, 1), "<w 0 1 2 3 4 5 6 7");
  EXPECT_EQ(order({{0, kReadsW}, {3, kReadsW}}, 1), "<w 0 <w 1 2 3 4 5 6 7");
  EXPECT_EQ(order({{0, kReadsW}, {3, kReadsW}}, 3), "<w 0 1 2 3 4 5 6 7");
  // From one addition to the next they always do.
  EXPECT_EQ(order({{0, kReadsW}, {1, kReadsW}}, 0), "<w 0 1 2 3 4 5 6 7");
  EXPECT_EQ(order({{0, kReadsW}, {2, kReadsW}}, 0), "<w 0 1 <w 2 3 4 5 6 7");
}

TEST(StagedRanges, AreStoredOnceAfterTheLastWriteThatIsNear) {
  EXPECT_EQ(order({{0, kWritesW}, {2, kWritesW}}, 1), "0 1 2 >w 3 4 5 6 7");
  EXPECT_EQ(order({{0, kWritesW}, {3, kWritesW}}, 1), "0 >w 1 2 3 >w 4 5 6 7");
  EXPECT_EQ(order({{0, kUpdatesW}, {2, kUpdatesW}}, 1), "<w 0 1 2 >w 3 4 5 6 7");
  EXPECT_EQ(order({{0, kWritesW}, {2, kReadsW}}, 1), "0 >w 1 2 3 4 5 6 7");
  EXPECT_EQ(order({{0, kReadsW}, {2, kWritesW}}, 1), "<w 0 1 2 >w 3 4 5 6 7");
}

TEST(StagedRanges, WhatIsStoredIsThereWhenItIsFetchedAgain) {
  EXPECT_EQ(order({{0, kWritesW}, {3, kReadsW}}, 1), "0 >w <w 1 2 3 4 5 6 7");
  EXPECT_EQ(order({{0, kWritesW}, {6, kReadsW}}, 1), "0 >w 1 2 3 <w 4 5 6 7");
  EXPECT_EQ(order({{3, kWritesO}, {5, kReadsW}}, 3), "0 1 2 3 >o <w 4 5 6 7");
  EXPECT_EQ(order({{3, kWritesO}, {5, kReadsV}}, 3), "<v 0 1 2 3 >o 4 5 6 7");
}

TEST(StagedRanges, WhatIsWrittenInPartIsFetchedFirst) {
  EXPECT_EQ(order({{2, kWritesW}}, 0), "0 1 2 >w 3 4 5 6 7");
  EXPECT_EQ(order({{2, kWritesHalfOfW}}, 0), "0 1 <w 2 >w 3 4 5 6 7");
  EXPECT_EQ(order({{1, kWritesW}, {2, kWritesHalfOfW}}, 0), "0 1 2 >w 3 4 5 6 7");
}

TEST(StagedRanges, WhatIsSentIsHeldByTheLayersAhead) {
  // The store is instruction 2, and addition i after it is instruction i + 1.
  for (auto [ahead, last] : {std::pair{0.0, 2}, {0.5, 3}, {1.0, 4}, {3.0, 8}, {9.0, 8}}) {
    Plan plan = plan_of({{}, kWritesW, {}, {}, {}, {}, {}, {}}, ahead);
    ASSERT_EQ(order(plan), "0 1 >w 2 3 4 5 6 7");
    EXPECT_EQ(plan.buffers[plan.instructions[2].in[0].buffer].last, last) << ahead;
  }
}

TEST(StagedRanges, EachResidencyHasMemoryOfItsOwn) {
  Plan plan = plan_of({kReadsW, {}, {}, kReadsW, {}, {}, {}, {}}, 1);
  ASSERT_EQ(order(plan), "<w 0 <w 1 2 3 4 5 6 7");
  int first = plan.instructions[0].out[0].buffer, second = plan.instructions[2].out[0].buffer;
  EXPECT_NE(first, second);
  EXPECT_EQ(plan.instructions[1].in[0].buffer, first);
  EXPECT_EQ(plan.instructions[5].in[0].buffer, second);
  for (int buffer : {first, second}) EXPECT_EQ(plan.buffers[buffer].category, Category::staging);
}

TEST(StagedRanges, ReadNothingThatAnotherIsAboutToReplace) {
  // With half a layer ahead the writer has let go between its two uses.
  EXPECT_EQ(order({{1, kWritesW}, {2, kReadsO}, {3, kWritesW}}, 0.5), "0 1 >w <o 2 3 >w 4 5 6 7");
  for (const std::map<int, Step>& uses :
       {std::map<int, Step>{{1, kWritesW}, {2, kReadsO}, {3, kWritesW}},
        {{1, kReadsO}, {2, kWritesW}, {3, kReadsO}},
        {{1, kWritesO}, {2, kWritesW}, {3, kReadsO}}}) {
    std::string message = message_of<InternalError>([&] { order(uses, 1); });
    EXPECT_THAT(message, HasSubstr("reads o while newer bytes"));
  }
  // A staged range that is written whole is not fetched, so nothing can be stale.
  EXPECT_EQ(order({{1, kWritesO}, {2, kWritesW}, {3, kWritesO}}, 1), "0 1 2 >w 3 >o 4 5 6 7");
}

TEST(StagedRanges, LieInHostMemory) {
  PlanBuilder builder("plan", Target::cpu);
  Operand device = builder.temporary("t", {{4}}, MemoryKind::device, Category::temporaries);
  std::string message = message_of<InternalError>([&] { builder.staged(device, "view"); });
  for (const char* word : {"view", "pinned_host"}) EXPECT_THAT(message, HasSubstr(word));
}

TEST(StagedRanges, NodesWorkInOneKindOfMemory) {
  models::Type type{{4}};
  models::Program addition = models::addition(type);
  for (Lane lane : {Lane::compute, Lane::host_compute})
    for (int odd = 0; odd < 3; ++odd) {
      PlanBuilder builder("plan", Target::cpu);
      MemoryKind right = lane == Lane::compute ? MemoryKind::device : MemoryKind::pinned_host;
      MemoryKind wrong = lane == Lane::compute ? MemoryKind::pinned_host : MemoryKind::device;
      PlanBuilder::Bindings bindings;
      for (int i = 0; i < 3; ++i)
        bindings.push_back(builder.temporary(i == odd ? "stray" : "fitting", type,
                                             i == odd ? wrong : right, Category::temporaries));
      std::string message =
          message_of<UsageError>([&] { builder.run(addition, bindings, {}, lane); });
      EXPECT_THAT(message, HasSubstr(std::string("works in ") + name(right)));
      EXPECT_THAT(message, HasSubstr(std::string("stray lies in ") + name(wrong)));
    }
}

// --- random plans

using Values = std::map<std::string, std::vector<float>>;

// Host arguments before, and after plain execution of one instruction after the other.
struct WindowedPlan {
  Plan plan;
  Values before, after;
};

// Whether ranges that are used through different staged ranges, or directly on the host, overlap.
enum class Ranges { apart, overlapping };

class Generator {
 public:
  Generator(uint32_t seed, Ranges ranges)
      : random_(seed), ranges_(ranges), builder_("random", Target::cpu) {}

  WindowedPlan generate(const Transfers& transfers) {
    for (int i = 0; i < kHosts; ++i) make_host();
    make_windows();
    result_.before = result_.after;
    for (int i = 0; i < 4; ++i) fetch(i % 2 ? kLong : kShort);
    while (instructions_ < kInstructions) {
      if (below(5) == 0) ++scope_.layer;
      step();
    }
    result_.plan = builder_.finish(transfers);
    return std::move(result_);
  }

 private:
  static constexpr int kHosts = 4, kInstructions = 80, kLive = 4;
  static constexpr int64_t kShort = 100, kLong = 300, kHostFloats = 1200;

  // A range of host memory and where the plan sees it.
  struct View {
    std::string host;
    int64_t begin = 0;
    Operand operand;

    int64_t count() const { return operand.type.shape.count(); }
  };
  struct Known {
    Operand operand;
    std::vector<float> value;
  };

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  template <class T>
  T& any(std::vector<T>& list) {
    return list[static_cast<size_t>(below(static_cast<int>(list.size())))];
  }

  void make_host() {
    std::string name = "host" + std::to_string(hosts_.size());
    hosts_.push_back(
        builder_.argument(name, kHostFloats * 4, MemoryKind::pinned_host, Category::parameters));
    std::vector<float>& value = result_.after[name];
    for (int64_t i = 0; i < kHostFloats; ++i) value.push_back(static_cast<float>(below(100)));
  }

  View view(int host, int64_t begin, int64_t count) {
    return {"host" + std::to_string(host), begin, {hosts_[host], begin * 4, {{count}}}};
  }

  // Somewhere on a host argument that, where ranges lie apart, no staged range is on.
  View direct(int64_t count) {
    int host = ranges_ == Ranges::apart ? kHosts / 2 + below(kHosts / 2) : below(kHosts);
    return view(host, 100 * below(static_cast<int>((kHostFloats - count) / 100) + 1), count);
  }

  void make_windows() {
    auto add = [&](View on) {
      on.operand = builder_.staged(on.operand, "staged" + std::to_string(staged_.size()));
      staged_.push_back(on);
    };
    for (int host = 0; host < kHosts / 2; ++host)
      for (int64_t begin = 0; begin < kHostFloats; begin += begin < 900 ? kLong : kShort)
        add(view(host, begin, begin < 900 ? kLong : kShort));
    if (ranges_ == Ranges::overlapping)
      for (int i = 0; i < 4; ++i) add(direct(i % 2 ? kLong : kShort));
  }

  std::vector<float> value_of(const View& view) {
    auto begin = result_.after.at(view.host).begin() + view.begin;
    return {begin, begin + view.count()};
  }
  void set(const View& view, const std::vector<float>& value) {
    std::copy(value.begin(), value.end(), result_.after.at(view.host).begin() + view.begin);
  }

  std::vector<Known>& live(int64_t count) { return count == kShort ? short_ : long_; }

  void remember(Known known) {
    std::vector<Known>& list = live(std::ssize(known.value));
    if (list.size() < kLive)
      list.push_back(std::move(known));
    else
      any(list) = std::move(known);
  }

  static std::vector<float> sum(std::vector<float> a, const std::vector<float>& b) {
    for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
    return a;
  }

  // a + b; into a new temporary without `out`.
  Operand add(const Operand& a, const Operand& b, const Operand& out, Lane lane = Lane::compute) {
    PlanBuilder::Bindings bindings{a, b, out};
    builder_.run(models::addition(a.type), bindings, scope_, lane);
    ++instructions_;
    return bindings.back();
  }

  void fetch(int64_t count) {
    View from = direct(count);
    Operand to =
        builder_.temporary("t", from.operand.type, MemoryKind::device, Category::temporaries);
    builder_.move(Lane::host_to_device, from.operand, to, scope_);
    ++instructions_;
    remember({to, value_of(from)});
  }

  void send(int64_t count) {
    const Known& from = any(live(count));
    View to = direct(count);
    builder_.move(Lane::device_to_host, from.operand, to.operand, scope_);
    ++instructions_;
    set(to, from.value);
  }

  void update_on_host(int64_t count) {
    View from = direct(count), to = direct(count);
    // A kernel's operands are the same or apart.
    if (from.host == to.host && from.begin != to.begin) return;
    std::vector<float> value = sum(value_of(from), value_of(to));
    add(from.operand, to.operand, to.operand, Lane::host_compute);
    set(to, value);
  }

  void write_half(const View& staged_range) {
    View half = staged_range;
    half.operand.type = {{kShort}};
    int64_t skipped = kShort * below(3);
    half.begin += skipped;
    half.operand.offset += skipped * 4;
    const Known &a = any(short_), &b = any(short_);
    add(a.operand, b.operand, half.operand);
    set(half, sum(a.value, b.value));
  }

  void step() {
    const View& staged_range = any(staged_);
    Known& a = any(live(staged_range.count()));
    const Known& b = any(live(staged_range.count()));
    switch (below(9)) {
      case 0:
      case 1:
      case 2: {
        std::vector<float> value = sum(value_of(staged_range), a.value);
        remember({add(staged_range.operand, a.operand, {}), value});
        break;
      }
      case 3:
        add(a.operand, b.operand, staged_range.operand);
        set(staged_range, sum(a.value, b.value));
        break;
      case 4:
      case 5: {
        std::vector<float> value = sum(value_of(staged_range), a.value);
        add(staged_range.operand, a.operand, staged_range.operand);
        set(staged_range, value);
        break;
      }
      case 6:
        if (staged_range.count() == kLong) write_half(staged_range);
        break;
      case 7:
        below(2) ? fetch(staged_range.count()) : send(staged_range.count());
        break;
      case 8:
        update_on_host(staged_range.count());
        break;
    }
  }

  std::mt19937 random_;
  Ranges ranges_;
  PlanBuilder builder_;
  WindowedPlan result_;
  std::vector<int> hosts_;
  std::vector<View> staged_;
  std::vector<Known> short_, long_;  // on the device
  Scope scope_{"layer"};
  int instructions_ = 0;
};

Values run(const WindowedPlan& windowed, Backend& backend) {
  Ledger ledger;
  Arenas arenas(backend, {&windowed.plan});
  Arguments arguments(backend, ledger);
  Executable executable(windowed.plan, backend, arguments, arenas);
  Values values = windowed.before;
  auto bytes = [](const std::vector<float>& value) { return std::ssize(value) * 4; };
  for (const auto& [name, value] : values)
    if (arguments.has(name)) arguments.write(name, value.data(), bytes(value));
  executable.run(ledger);
  backend.synchronize();
  for (auto& [name, value] : values)
    if (arguments.has(name)) arguments.read(name, value.data(), bytes(value));
  return values;
}

std::string first_of(const std::vector<std::string>& faults) {
  return faults.empty() ? "" : faults[0] + " (" + std::to_string(faults.size()) + " faults)";
}

void expect_as_plain(const WindowedPlan& windowed, uint32_t seed) {
  EXPECT_EQ(first_of(placement_faults(windowed.plan)), "");
  EXPECT_EQ(first_of(data_flow_faults(windowed.plan, Gradients::none_yet)), "");
  EXPECT_EQ(first_of(order_faults(windowed.plan)), "");
  auto cpu = make_cpu_backend();
  EXPECT_EQ(run(windowed, *cpu), windowed.after);
  auto shuffled = make_shuffled_backend(seed);
  EXPECT_EQ(run(windowed, *shuffled), windowed.after);
}

constexpr double kLayersAhead[] = {0, 0.5, 1, 2, 5};

// Without prefetch they take the least memory.
TEST(WindowedPlans, ThatLieApartLeaveWhatPlainExecutionLeaves) {
  int64_t moves = 0, fewest = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    int64_t least = 0;
    for (double ahead : kLayersAhead) {
      SCOPED_TRACE(std::to_string(seed) + ", layers ahead " + std::to_string(ahead));
      WindowedPlan windowed = Generator(seed, Ranges::apart).generate({.prefetch_layers = ahead});
      EXPECT_NE(windowed.before, windowed.after);
      expect_as_plain(windowed, seed);
      int64_t now = analyze(windowed.plan, MemoryKind::device).live_bytes;
      if (ahead == 0) least = now;
      EXPECT_GE(now, least);
      (ahead == 0 ? moves : fewest) +=
          std::count_if(windowed.plan.instructions.begin(), windowed.plan.instructions.end(),
                        [](const Instruction& instruction) { return !instruction.op; });
    }
  }
  EXPECT_GT(moves, fewest / (std::ssize(kLayersAhead) - 1));
}

// Plans that cannot be right are refused.
TEST(WindowedPlans, ThatOverlapAreRefusedOrLeaveWhatPlainExecutionLeaves) {
  int built = 0, refused = 0;
  for (uint32_t seed = 0; seed < 40; ++seed)
    for (double ahead : kLayersAhead) {
      SCOPED_TRACE(std::to_string(seed) + ", layers ahead " + std::to_string(ahead));
      Generator generator(seed, Ranges::overlapping);
      WindowedPlan windowed;
      try {
        windowed = generator.generate({.prefetch_layers = ahead});
      } catch (const InternalError& error) {
        EXPECT_THAT(error.what(), HasSubstr("newer bytes"));
        ++refused;
        continue;
      }
      ++built;
      expect_as_plain(windowed, seed);
    }
  EXPECT_GT(built, 10);
  EXPECT_GT(refused, 10);
}

}  // namespace
}  // namespace longshore::offload
