// Times: the virtual clock against sums by hand, how well copies overlap with kernels, and what the
// CPU's backend records of a real step.
#include "longshore/offload/backends/timeline.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "longshore/base/error.h"
#include "longshore/models/ir/add.h"
#include "longshore/models/ir/model.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/execution/simulate.h"
#include "longshore/offload/lowering/plan_builder.h"
#include "longshore/trainer/weights/initialize.h"
#include "tests/offload/adamw_states.h"
#include "tests/offload/training.h"

namespace longshore::offload {
namespace {

using models::Target;

constexpr MemoryKind kHost = MemoryKind::pinned_host;

// --- by hand

// Two numbers are fetched and added up with themselves; the sums go back, and are added up there.
Plan two_sums(Target target) {
  constexpr int64_t kFloats = 1000;
  models::Type type{{kFloats}};
  PlanBuilder builder("sums", target);
  auto host = [&](const char* name) {
    return Operand{builder.argument(name, type.bytes(), kHost, Category::batch), 0, type};
  };
  auto device = [&](const char* name) {
    return builder.temporary(name, type, MemoryKind::device, Category::temporaries);
  };
  Operand x = device("x"), y = device("y"), sum_x = device("sum_x"), sum_y = device("sum_y");
  builder.move(Lane::host_to_device, host("x.host"), x, {"a"});
  builder.move(Lane::host_to_device, host("y.host"), y, {"b"});
  models::Program addition = models::addition(type);
  PlanBuilder::Bindings of_x{x, x, sum_x}, of_y{y, y, sum_y};
  builder.run(addition, of_x, {"a"});
  builder.run(addition, of_y, {"b"});
  builder.move(Lane::device_to_host, sum_x, host("sum_x.host"), {"a"});
  builder.move(Lane::device_to_host, sum_y, host("sum_y.host"), {"b"});
  PlanBuilder::Bindings of_both{host("sum_x.host"), host("sum_y.host"), host("sum.host")};
  builder.run(addition, of_both, {"c"}, Lane::host_compute);
  return builder.finish();
}

void expect_span(const Event& event, Lane lane, double begin, double end) {
  EXPECT_EQ(event.lane, lane) << event.name;
  EXPECT_DOUBLE_EQ(event.span.begin, begin) << event.name;
  EXPECT_DOUBLE_EQ(event.span.end, end) << event.name;
}

TEST(VirtualClock, AddsUpByHand) {
  Plan plan = two_sums(Target::cuda);
  // A copy moves 4000 bytes: 1 s. An addition has 12000 bytes of operands, 2 s against 1 s for its
  // 1000 operations; on the host the operations are slower, 4 s against 3 s.
  Rates rates{.flops_per_second = 1000,
              .device_bytes_per_second = 6000,
              .link_bytes_per_second = 4000,
              .host_flops_per_second = 250,
              .host_bytes_per_second = 4000,
              .launch_seconds = 0.25};
  std::vector<Event> events = simulate({&plan, &plan}, uniform_hardware(Target::cuda, rates));
  ASSERT_EQ(events.size(), 14u);
  for (int i = 0; i < 2; ++i) {
    double start = i * 11.25;  // the second plan waits for all lanes of the first
    const Event* event = events.data() + 7 * i;
    expect_span(event[0], Lane::host_to_device, start, start + 1.25);
    expect_span(event[1], Lane::host_to_device, start + 1.25, start + 2.5);
    expect_span(event[2], Lane::compute, start + 1.25, start + 3.5);
    expect_span(event[3], Lane::compute, start + 3.5, start + 5.75);
    expect_span(event[4], Lane::device_to_host, start + 3.5, start + 4.75);
    expect_span(event[5], Lane::device_to_host, start + 5.75, start + 7);
    expect_span(event[6], Lane::host_compute, start + 7, start + 11.25);
  }
}

// Kernels, copies and the host's kernels where all have the same cores: one after the other, as the
// plan has them.
TEST(VirtualClock, LanesOfOneProcessorTakeTurns) {
  Plan plan = two_sums(Target::cpu);
  std::vector<Event> events =
      simulate({&plan}, uniform_hardware(Target::cpu, {.flops_per_second = 1000,
                                                       .link_bytes_per_second = 4000,
                                                       .host_flops_per_second = 500}));
  const std::pair<Lane, double> expected[]{{Lane::host_to_device, 1}, {Lane::host_to_device, 1},
                                           {Lane::compute, 1},        {Lane::compute, 1},
                                           {Lane::device_to_host, 1}, {Lane::device_to_host, 1},
                                           {Lane::host_compute, 2}};
  ASSERT_EQ(events.size(), std::size(expected));
  double start = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    const auto& [lane, seconds] = expected[i];
    expect_span(events[i], lane, start, start + seconds);
    start += seconds;
  }
}

// Sums of 1000 floats, 4000 bytes an operand, where 20000 bytes are at hand.
TEST(VirtualClock, FetchesWhatIsNotAtHand) {
  PlanBuilder builder("sums", Target::cpu);
  models::Type type{{1000}};
  models::Program addition = models::addition(type);
  auto argument = [&](const char* name) {
    return Operand{builder.argument(name, type.bytes(), MemoryKind::device, Category::batch), 0,
                   type};
  };
  const Operand a = argument("a"), b = argument("b"), c = argument("c"), d = argument("d"),
                e = argument("e"), f = argument("f");
  for (const auto& [x, y, sum] : {std::tuple{a, b, c}, {b, c, a}, {d, e, f}, {f, c, a}}) {
    PlanBuilder::Bindings bindings{x, y, sum};
    builder.run(addition, bindings, {"a"});
  }
  const Plan plan = builder.finish();
  Hardware hardware = uniform_hardware(Target::cpu, {.flops_per_second = 1000});
  hardware.cache_bytes = 20000;
  hardware.fetch_bytes_per_second = 4000;
  const std::vector<Event> events = simulate({&plan}, hardware);
  // Another simulation went before, and left d, e, f, c, a, the last one used last.
  expect_span(events[0], Lane::compute, 0, 2);  // b is fetched, in d's place
  expect_span(events[1], Lane::compute, 2, 3);
  expect_span(events[2], Lane::compute, 3, 7);  // d in e's place, e in f's, f in b's
  expect_span(events[3], Lane::compute, 7, 8);
  hardware.cache_bytes = 11999;  // less than a sum's operands: the rates are of fetched ones
  EXPECT_EQ(simulate({&plan}, hardware).back().span.end, 4);

  // A sum in an operand's place has two operands to fetch, which are at hand the second time.
  PlanBuilder in_place("in place", Target::cpu);
  for (int i = 0; i < 2; ++i) {
    const Operand x = in_place.argument("x", type, MemoryKind::device, Category::batch),
                  y = in_place.argument("y", type, MemoryKind::device, Category::batch),
                  big = in_place.argument("big", {{2000}}, MemoryKind::device, Category::batch);
    PlanBuilder::Bindings bindings{x, y, x};
    in_place.run(addition, bindings, {"a"});
    if (i == 0) in_place.move(Lane::compute, big, big, {"a"});
  }
  const Plan sums = in_place.finish();
  hardware.cache_bytes = 8000;
  const std::vector<Event> two = simulate({&sums}, hardware);
  expect_span(two[0], Lane::compute, 0, 1);
  EXPECT_DOUBLE_EQ(two[2].span.end - two[2].span.begin, 3);
}

// Collectives take no cores; the host's link they take where devices reach each other through it.
TEST(VirtualClock, CollectivesRunBesideTheOtherLanes) {
  for (Target target : {Target::cuda, Target::cpu})
    for (bool peer_to_peer : {false, true}) {
      SCOPED_TRACE(peer_to_peer);
      PlanBuilder builder("plan", target);
      auto argument = [&](const char* name, MemoryKind kind) {
        return builder.argument(name, {{1000}}, kind, Category::batch);
      };
      const Operand x = argument("x", MemoryKind::device);
      builder.collective(models::all_reduce_op, {.axis = Axis::data, .ranks = 2}, x, x, {"a"});
      builder.move(argument("y.host", kHost), argument("y", MemoryKind::device), {"a"});
      const Plan plan = builder.finish();
      Hardware hardware = uniform_hardware(target, {.link_bytes_per_second = 4000});
      hardware.ici = RateCurve(4000);
      hardware.link_both_ways = 0.5;
      hardware.peer_to_peer = peer_to_peer;
      const std::vector<Event> events = simulate({&plan}, hardware);
      expect_span(events[0], Lane::network, 0, peer_to_peer ? 1 : 2);
      expect_span(events[1], Lane::host_to_device, 0, peer_to_peer ? 1 : 2);
    }
}

// Kernels beside a collective between nodes run at half their rate, for as long as it takes. Sums
// of 1000 floats take a second each.
TEST(VirtualClock, CollectivesBetweenNodesSlowKernels) {
  for (const auto& [nodes, slowed] : {std::pair<int64_t, bool>{1, false}, {2, true}})
    for (double network_seconds : {1., 3.}) {
      PlanBuilder builder("plan", Target::cuda);
      const models::Type type{{1000}};
      auto argument = [&](const char* name) {
        return builder.argument(name, type, MemoryKind::device, Category::batch);
      };
      const Operand x = argument("x"), y = argument("y"), sum = argument("sum");
      builder.collective(models::all_reduce_op, {.axis = Axis::data, .ranks = 2, .nodes = nodes}, x,
                         x, {"a"});
      models::Program addition = models::addition(type);
      PlanBuilder::Bindings bindings{y, y, sum};
      builder.run(addition, bindings, {"a"});
      const Plan plan = builder.finish();
      Hardware hardware = uniform_hardware(Target::cuda, {.flops_per_second = 1000});
      hardware.ici = hardware.dcn = RateCurve(4000 / network_seconds);
      hardware.kernels_beside_dcn = 0.5;
      const std::vector<Event> events = simulate({&plan}, hardware);
      expect_span(events[0], Lane::network, 0, network_seconds);
      // The slow network lets the kernel take twice its time; the fast one, until half of it is
      // done.
      const double beside = network_seconds == 1 ? 1.5 : 2;
      expect_span(events[1], Lane::compute, 0, slowed ? beside : 1);
    }
}

// Copies slow each other down while they overlap, whatever their order in the list.
TEST(VirtualClock, CopiesShareTheLinkForAsLongAsBothWaysAreBusy) {
  enum class List { one_way_first, in_turn };
  for (List list : {List::one_way_first, List::in_turn}) {
    constexpr int kCopies = 4;
    PlanBuilder builder("plan", Target::cuda);
    auto argument = [&](const std::string& name, int i, MemoryKind kind, int64_t floats) {
      return builder.argument(name + std::to_string(i), {{floats}}, kind, Category::batch);
    };
    auto bring = [&](int i) {
      builder.move(argument("x.host", i, kHost, 1000), argument("x", i, MemoryKind::device, 1000),
                   {"a"});
    };
    auto send = [&](int i) {
      builder.move(argument("y", i, MemoryKind::device, 500), argument("y.host", i, kHost, 500),
                   {"a"});
    };
    for (int i = 0; i < kCopies; ++i) {
      bring(i);
      if (list == List::in_turn) send(i);
    }
    for (int i = 0; i < kCopies; ++i)
      if (list == List::one_way_first) send(i);
    const Plan plan = builder.finish();
    Hardware hardware = uniform_hardware(Target::cuda, {.link_bytes_per_second = 4000});
    hardware.link_both_ways = 0.5;
    // 1 s and 0.5 s each alone. Together, 4 s of copies to the host end when 2 s of those to the
    // device are left.
    for (const Event& event : simulate({&plan}, hardware)) {
      const int i = event.name.back() - '0';
      if (event.lane == Lane::device_to_host)
        expect_span(event, Lane::device_to_host, i, i + 1);
      else if (i < 2)
        expect_span(event, Lane::host_to_device, 2 * i, 2 * i + 2);
      else
        expect_span(event, Lane::host_to_device, 2 + i, 3 + i);
    }
  }
}

TEST(VirtualClock, IsTheLinksWhereTheLinkIsSlow) {
  Plan plan = two_sums(Target::cuda);
  std::vector<Event> events =
      simulate({&plan}, uniform_hardware(Target::cuda, {.link_bytes_per_second = 4000}));
  expect_span(events[2], Lane::compute, 1, 1);
  expect_span(events[3], Lane::compute, 2, 2);
  expect_span(events[4], Lane::device_to_host, 1, 2);
  expect_span(events[5], Lane::device_to_host, 2, 3);
  expect_span(events[6], Lane::host_compute, 3, 3);
}

TEST(Timeline, NamesWhatWasRecorded) {
  Plan plan = two_sums(Target::cpu);
  std::vector<Event> events = simulate({&plan}, uniform_hardware(Target::cpu, {}));
  EXPECT_EQ(events[1].name, "y");
  EXPECT_EQ(events[1].op, "move");
  EXPECT_EQ(events[1].bytes, 4000);
  EXPECT_EQ(events[1].scope, (Scope{"b"}));
  EXPECT_EQ(events[6].op, "add");
  EXPECT_EQ(events[6].bytes, 0);

  LaneSpans spans;
  for (const Event& event : events) spans[event.lane].push_back(event.span);
  EXPECT_EQ(timeline({&plan}, spans).size(), events.size());
  for (Lane lane : kLanes) {
    LaneSpans fewer = spans, more = spans;
    more[lane].push_back({});
    EXPECT_THROW(timeline({&plan}, more), InternalError) << name(lane);
    if (lane == Lane::network) continue;  // nothing is on it
    fewer[lane].pop_back();
    EXPECT_THROW(timeline({&plan}, fewer), InternalError) << name(lane);
  }
}

TEST(Overlap, CountsEachMomentOnce) {
  auto event = [](Lane lane, double begin, double end) {
    return Event{.lane = lane, .name = "", .op = "", .scope = {}, .span = {begin, end}};
  };
  // kernels  ====  == =        0-4 6-8 9-10
  // to it      ====            2-6
  // from it      ==== ==       3-7 8-9
  // on host              ==    12-14
  Overlap found = overlap({event(Lane::device_to_host, 8, 9), event(Lane::compute, 0, 3),
                           event(Lane::compute, 1, 4), event(Lane::host_to_device, 2, 6),
                           event(Lane::compute, 6, 8), event(Lane::device_to_host, 3, 7),
                           event(Lane::compute, 9, 10), event(Lane::host_compute, 12, 14)});
  EXPECT_DOUBLE_EQ(found.copying, 6);
  EXPECT_DOUBLE_EQ(found.computing, 7);
  EXPECT_DOUBLE_EQ(found.hidden, 3);
  EXPECT_DOUBLE_EQ(found.total, 14);
  // The host's kernels hide nothing.
  EXPECT_DOUBLE_EQ(
      overlap({event(Lane::host_to_device, 1, 2), event(Lane::host_compute, 0, 3)}).hidden, 0);
  Overlap none = overlap({});
  EXPECT_EQ(none.total + none.copying + none.computing + none.hidden, 0);
}

// --- a stack of layers

trainer::StepPlans step_plans(const models::DecoderConfig& config, const std::string& policy,
                              const Homes& homes, double prefetch_layers) {
  models::Model model = models::decoder(config);
  trainer::StepOptions options{
      .policy = make_policy(policy, {}, layer_program(model)),
      .transfers = {.prefetch_layers = prefetch_layers},
      .optimizer = trainer::OptimizerOptions{.optimizers = {models::adamw({0.9, 0.95, 1e-8, 0.1})},
                                             .clipping_threshold = 1}};
  return plan_step(model, lay_out(model, {.homes = homes, .optimizers = adamw_states()}), options,
                   Target::cuda);
}

models::DecoderConfig stack() {
  models::DecoderConfig config = tiny_llama();
  config.length = 64;
  config.width = 128;
  config.mlp_width = 256;
  config.head_dim = 32;
  config.layers = 6;
  return config;
}

// A layer's query, key and value take about 13 ms on the fast link, its forward pass 42 ms.
constexpr Rates kFastLink{.flops_per_second = 1e9, .link_bytes_per_second = 1e7};
constexpr Rates kSlowLink{.flops_per_second = 1e9, .link_bytes_per_second = 1e5};

double length(const std::vector<Event>& events) { return overlap(events).total; }

// How long copies of what the layers keep ran while no kernel did.
double exposed_seconds(const std::vector<Event>& events) {
  std::vector<Event> relevant;
  for (const Event& event : events)
    if (event.lane == Lane::compute ||
        (event.scope.stage == "decoder" && event.scope.phase != Phase::optimizer))
      relevant.push_back(event);
  Overlap times = overlap(relevant);
  EXPECT_GT(times.copying, 0);
  return times.copying - times.hidden;
}

std::vector<Event> step_of(double prefetch_layers, const Rates& rates,
                           const std::string& policy = "qkv_proj_offloaded",
                           const Homes& homes = {}) {
  trainer::StepPlans plans = step_plans(stack(), policy, homes, prefetch_layers);
  return simulate({&plans.plans[0]}, uniform_hardware(Target::cuda, rates));
}

TEST(VirtualStep, HidesWhatIsSentAndFetchedOneLayerAhead) {
  std::vector<Event> ahead = step_of(1, kFastLink), at_once = step_of(0, kFastLink);
  double exposed = exposed_seconds(ahead), exposed_at_once = exposed_seconds(at_once);
  std::printf("exposed: %.6f s of a step of %.6f s, without prefetch %.6f s of %.6f s\n", exposed,
              length(ahead), exposed_at_once, length(at_once));
  EXPECT_NEAR(exposed, 0, 1e-12);
  EXPECT_GT(exposed_at_once, 1e-5);
  EXPECT_GT(length(at_once), length(ahead));
}

TEST(VirtualStep, IsBoundByASlowLink) {
  std::vector<Event> events = step_of(1, kSlowLink);
  Overlap slow = overlap(events), fast = overlap(step_of(1, kFastLink));
  std::printf("slow link: %.4f s, copying %.4f s, computing %.4f s\n", slow.total, slow.copying,
              slow.computing);
  EXPECT_NEAR(slow.computing, fast.computing, 1e-9);
  EXPECT_GT(slow.copying, 0.9 * slow.total);
  EXPECT_GT(slow.total, 3 * fast.total);
}

// Far ahead, fetches may stand in each other's way where the link is slow; never as much as
// without.
TEST(VirtualStep, IsNotSlowerWithPrefetchThanWithout) {
  for (const Rates& rates : {kFastLink, kSlowLink})
    for (const char* policy : {"qkv_proj_offloaded", "minimal_offloaded"})
      for (const Homes& homes : {Homes{}, Homes{kHost, kHost, kHost}}) {
        double without = length(step_of(0, rates, policy, homes));
        for (double ahead : {0.5, 1.0, 2.0, 4.0}) {
          double now = length(step_of(ahead, rates, policy, homes));
          std::printf("%s, homes %s, link of %.0e B/s, %.1f layers ahead: %.6f s, without %.6f s\n",
                      policy, name(homes.parameters), rates.link_bytes_per_second, ahead, now,
                      without);
          EXPECT_LT(now, without);
        }
      }
}

// --- what is recorded of real work

TEST(Recording, HoldsEveryInstructionOfAStep) {
  models::DecoderConfig config = tiny_llama();
  models::Model model = models::decoder(config);
  ParameterLayout layout =
      lay_out(model, {.homes = {kHost, kHost, kHost}, .optimizers = adamw_states()});
  trainer::StepOptions options{
      .policy = make_policy("minimal_offloaded", {}, layer_program(model)),
      .micro_batches = 2,
      .optimizer = trainer::OptimizerOptions{.optimizers = {models::adamw({0.9, 0.95, 1e-8, 0.1})},
                                             .lane = Lane::host_compute,
                                             .chunk = 1024}};
  trainer::StepPlans plans = plan_step(model, layout, options, Target::cpu);
  auto backend = make_cpu_backend();
  Arenas arenas(*backend, plans.all());
  Ledger ledger;
  Arguments arguments(*backend, ledger);
  trainer::initialize(layout, kWeightSeed, arguments);
  trainer::TrainStep step(plans, *backend, arguments, arenas);
  data::BatchSource source = data::synthetic_batches(
      {config.batch, config.length}, static_cast<int32_t>(config.vocabulary), kDataSeed);

  std::map<Lane, size_t> expected;
  std::map<Lane, int64_t> expected_bytes, bytes;
  for (const Plan* plan : plans.in_order())
    for (const Instruction& instruction : plan->instructions) {
      ++expected[instruction.lane];
      if (!instruction.op) expected_bytes[instruction.lane] += instruction.out[0].type.bytes();
    }
  ASSERT_EQ(expected.size(), kLanes.size() - 1);  // there is no network

  for (int64_t number : {1, 2}) {  // a second recording begins anew
    std::vector<Event> events;
    auto start = std::chrono::steady_clock::now();
    step.record({source(0), source(1)}, {.learning_rate = 1e-3, .number = number}, ledger, events);
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::map<Lane, size_t> counts;
    std::map<Lane, double> ends;
    bytes.clear();
    for (const Event& event : events) {
      ++counts[event.lane];
      if (event.bytes > 0) bytes[event.lane] += event.bytes;
      EXPECT_EQ(event.bytes > 0, event.op == "move");
      EXPECT_GE(event.span.begin, ends[event.lane]) << event.name;
      EXPECT_LE(event.span.begin, event.span.end) << event.name;
      EXPECT_LE(event.span.end, seconds) << event.name;
      ends[event.lane] = event.span.end;
    }
    EXPECT_EQ(counts, expected);
    EXPECT_EQ(bytes, expected_bytes);
    EXPECT_GT(overlap(events).computing, 0);
  }
}

}  // namespace
}  // namespace longshore::offload
