// Predicted memory against memory that was measured by other means than the plan's own books:
// canaries around what kernels may write, counted allocations, the process's resident set.
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>

#include "longshore/models/ir/add.h"
#include "longshore/models/ir/model.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/memory/alignment.h"
#include "longshore/offload/memory/host_memory.h"
#include "longshore/offload/plan/memory_analysis.h"
#include "longshore/trainer/weights/initialize.h"
#include "tests/models/cpu_dtypes.h"
#include "tests/offload/adamw_states.h"
#include "tests/offload/allocations.h"
#include "tests/offload/forwarding_backend.h"
#include "tests/offload/training.h"
#include "tests/offload/watching_backend.h"

namespace longshore::offload {
namespace {

constexpr MemoryKind kHost = MemoryKind::pinned_host;
constexpr Homes kAllOnHost{.parameters = kHost, .gradients = kHost, .optimizer = kHost};

struct Format {
  models::Dtype weight, moment;
};

// What AdamW keeps its states in.
std::vector<Format> formats() {
  using enum models::Dtype;
  std::vector<Format> formats{{float32, float32}, {float32, uint8}};
  if (models::multiplies_bfloat16()) formats.push_back({bfloat16, bfloat16});
  return formats;
}

models::DecoderConfig several_tiles(models::Dtype dtype) {
  models::DecoderConfig config = tiny_llama(dtype);
  config.length = 300;
  config.vocabulary = 2500;
  config.layers = 2;
  return config;
}

// Kernels write their outputs and workspaces and nothing else, and what these held before does not
// matter.
TEST(KernelMemory, OnlyOutputsAndWorkspacesAreWritten) {
  std::map<std::string, WatchingBackend::Workspace> largest;
  for (models::Dtype dtype : models::cpu_dtypes())
    for (const models::DecoderConfig& config : {tiny_llama(dtype), several_tiles(dtype)})
      for (const char* policy : {"none", "full"}) {
        TrainingOptions options{.model = models::decoder(config), .policy = policy, .steps = 2};
        Training plain = train(options);
        WatchingBackend watching;
        options.backend = &watching;
        Training watched = train(options);
        EXPECT_TRUE(watching.faults().empty())
            << watching.faults().size() << " faults: " << watching.faults()[0];
        EXPECT_EQ(differences(plain, watched), "");
        for (const auto& [op, calls] : watching.workspaces())
          for (const WatchingBackend::Workspace& call : calls)
            if (call.declared_bytes > largest[op].declared_bytes) largest[op] = call;
      }
  for (const auto& [op, workspace] : largest) {
    std::printf("%-27s workspace of %9lld bytes declared, %9lld touched\n", op.c_str(),
                static_cast<long long>(workspace.declared_bytes),
                static_cast<long long>(workspace.touched_bytes));
    // What is declared is not a guess either; parts are aligned, and oneDNN may leave a bit over.
    EXPECT_GE(workspace.touched_bytes, workspace.declared_bytes * 3 / 4) << op;
  }
}

// The same where everything lives in host memory, in every format and on either lane.
TEST(KernelMemory, OnlyOutputsAndWorkspacesAreWrittenOnTheHost) {
  for (const Format& format : formats())
    for (Lane lane : {Lane::compute, Lane::host_compute}) {
      SCOPED_TRACE(std::string(models::name(format.weight)) + " weights, " +
                   models::name(format.moment) + " moments, " + name(lane));
      TrainingOptions options{.model = models::decoder(tiny_llama(models::cpu_dtypes().back())),
                              .policy = "minimal_offloaded",
                              .steps = 1,
                              .layout = {.weight_dtype = format.weight,
                                         .homes = kAllOnHost,
                                         .optimizers = adamw_states(format.moment)},
                              .update_lane = lane};
      Training plain = train(options);
      WatchingBackend watching;
      options.backend = &watching;
      Training watched = train(options);
      EXPECT_TRUE(watching.faults().empty())
          << watching.faults().size() << " faults: " << watching.faults()[0];
      EXPECT_EQ(differences(plain, watched), "");
    }
}

// A watch that would not notice is worth nothing.
TEST(KernelMemory, TheWatchNotices) {
  WatchingBackend watching;
  constexpr int64_t kFloats = 256;
  Arena arena(watching, MemoryKind::device, 3 * kFloats * 4);
  auto ref = [&](int64_t at, int64_t count) {
    return models::Ref{arena.memory() + at * 4, {{count}}};
  };
  models::Program addition = models::addition({{kFloats}});
  const models::Op& add = *addition.nodes[0].op;
  std::vector<models::Ref> in{ref(0, kFloats), ref(0, kFloats)}, out{ref(kFloats, kFloats)};
  watching.run(Lane::compute, add,
               {.target = models::Target::cpu, .attrs = {}, .in = in, .out = out});
  EXPECT_TRUE(watching.faults().empty());

  models::Op careless = add;  // writes a float behind its output
  careless.cpu.run = [](const models::KernelCall& call) {
    for (int64_t i = 0; i <= call.out[0].type.shape.count(); ++i) call.out[0].as<float>()[i] = 1;
  };
  watching.run(Lane::compute, careless,
               {.target = models::Target::cpu, .attrs = {}, .in = in, .out = out});
  EXPECT_EQ(watching.faults().size(), 1u);
}

// --- allocations during a step

struct Ready {
  explicit Ready(const models::DecoderConfig& config, const char* policy, int64_t micro_batches = 1,
                 const LayoutOptions& layout_options = {.optimizers = adamw_states()},
                 Lane update_lane = Lane::compute)
      : model(models::decoder(config)),
        layout(lay_out(model, layout_options)),
        options{.policy = make_policy(policy, {}, layer_program(model)),
                .micro_batches = micro_batches,
                .optimizer =
                    trainer::OptimizerOptions{.optimizers = {models::adamw({0.9, 0.95, 1e-8, 0.1})},
                                              .clipping_threshold = 1,
                                              .lane = update_lane}},
        plans(trainer::plan_step(model, layout, options, models::Target::cpu)),
        source(data::synthetic_batches({config.batch, config.length},
                                       static_cast<int32_t>(config.vocabulary), 0)) {}

  // From here on memory is taken.
  void allocate() {
    backend = make_cpu_backend();
    arenas = std::make_unique<Arenas>(*backend, plans.all());
    arguments = std::make_unique<Arguments>(*backend, ledger);
    trainer::initialize(layout, 1, *arguments);
    step = std::make_unique<trainer::TrainStep>(plans, *backend, *arguments, *arenas);
  }

  std::vector<data::Batch> batches(int64_t i) const {
    std::vector<data::Batch> batches;
    for (int64_t m = 0; m < options.micro_batches; ++m)
      batches.push_back(source(i * options.micro_batches + m));
    return batches;
  }

  models::Model model;
  ParameterLayout layout;
  trainer::StepOptions options;
  trainer::StepPlans plans;
  data::BatchSource source;
  Ledger ledger;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Arenas> arenas;
  std::unique_ptr<Arguments> arguments;
  std::unique_ptr<trainer::TrainStep> step;
};

// Two steps; `what` says which in the printed lines.
void expect_nothing_from_the_heap(Ready& ready, const std::string& what) {
  constexpr int64_t kLargeBytes = 4 << 10;
  ready.allocate();
  for (int64_t i = 0; i < 2; ++i) {
    std::vector<data::Batch> batches = ready.batches(i);
    AllocationCount count;
    ready.step->run(batches, {.learning_rate = 1e-3, .number = i + 1}, ready.ledger);
    Allocations allocations = count.so_far();
    EXPECT_EQ(allocations.c10_count, 0) << what << ": " << allocations.c10_bytes << " bytes";
    EXPECT_LT(allocations.new_largest_bytes, kLargeBytes) << what;
    std::printf("%s, step %lld: %lld by new, %lld bytes together, the largest %lld\n", what.c_str(),
                static_cast<long long>(i), static_cast<long long>(allocations.new_count),
                static_cast<long long>(allocations.new_bytes),
                static_cast<long long>(allocations.new_largest_bytes));
  }
}

TEST(StepAllocations, KernelsTakeNothingFromTheHeap) {
  for (models::Dtype dtype : models::cpu_dtypes())
    for (const char* policy : {"none", "full"}) {
      Ready ready(several_tiles(dtype), policy, 2);
      expect_nothing_from_the_heap(ready, std::string(models::name(dtype)) + " " + policy);
    }
}

TEST(StepAllocations, KernelsTakeNothingFromTheHeapWithEverythingOnTheHost) {
  for (const Format& format : formats())
    for (Lane lane : {Lane::compute, Lane::host_compute}) {
      Ready ready(several_tiles(models::cpu_dtypes().back()), "minimal_offloaded", 2,
                  {.weight_dtype = format.weight,
                   .homes = kAllOnHost,
                   .optimizers = adamw_states(format.moment)},
                  lane);
      expect_nothing_from_the_heap(ready, std::string(models::name(format.weight)) + " " +
                                              models::name(format.moment) + " " + name(lane));
    }
}

TEST(StepAllocations, EveryAllocationIsCounted) {
  AllocationCount count;
  at::Tensor tensor = at::empty({1000}, at::kFloat);
  auto* volatile bytes = new char[100000];
  delete[] bytes;
  EXPECT_EQ(count.so_far().c10_count, 1);
  EXPECT_EQ(count.so_far().c10_bytes, 4000);
  EXPECT_EQ(count.so_far().new_largest_bytes, 100000);
}

// --- the arena

TEST(ArenaMemory, IsUsedFromEndToEnd) {
  constexpr std::byte kFill{0xa5};
  constexpr int64_t kPage = 4096;
  for (models::Dtype dtype : models::cpu_dtypes())
    for (const char* policy : {"none", "full"}) {
      Ready ready(several_tiles(dtype), policy);
      ready.allocate();
      const Arena& arena = ready.arenas->of(MemoryKind::device);
      std::byte* memory = arena.memory();
      int64_t bytes = arena.bytes(), untouched_pages = 0;
      std::fill(memory, memory + bytes, kFill);
      ready.step->run(ready.batches(0), {.learning_rate = 1e-3}, ready.ledger);
      int64_t end = bytes;
      while (end > 0 && memory[end - 1] == kFill) --end;
      for (int64_t page = 0; page + kPage <= bytes; page += kPage)
        untouched_pages += std::all_of(memory + page, memory + page + kPage,
                                       [](std::byte b) { return b == kFill; });
      std::printf("%s %s: arena of %lld bytes, touched up to %lld, %lld pages never\n",
                  models::name(dtype), policy, static_cast<long long>(bytes),
                  static_cast<long long>(end), static_cast<long long>(untouched_pages));
      EXPECT_GT(end, bytes - kPage);
      EXPECT_LT(untouched_pages, bytes / kPage / 20);
    }
}

// --- before the first step

// Adds up what is asked of the CPU, by kind.
class AskedBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  std::byte* allocate(MemoryKind kind, int64_t bytes) override {
    asked_[kind] += bytes;
    return ForwardingBackend::allocate(kind, bytes);
  }

  int64_t asked_bytes(MemoryKind kind) { return asked_[kind]; }

 private:
  std::map<MemoryKind, int64_t> asked_;
};

// A model that does not fit on the device is made without it.
TEST(InitialWeights, TakeTheirHomesAndNothingElse) {
  models::Model model = models::decoder(tiny_llama());
  for (MemoryKind home : {MemoryKind::device, kHost}) {
    ParameterLayout layout =
        lay_out(model, {.homes = {home, home, home}, .optimizers = adamw_states()});
    int64_t expected = 0;
    for (const Bucket& bucket : layout.buckets)
      for (Copy copy : bucket.copies())
        if (copy != Copy::gradient) expected += align_up(bytes(bucket, copy));
    auto cpu = make_cpu_backend();
    AskedBackend asked(*cpu);
    Ledger ledger;
    Arguments arguments(asked, ledger);
    trainer::initialize(layout, kWeightSeed, arguments);
    for (MemoryKind kind : kMemoryKinds) {
      EXPECT_EQ(asked.asked_bytes(kind), kind == home ? expected : 0) << name(kind);
      EXPECT_EQ(ledger.peak_bytes(kind), kind == home ? expected : 0) << name(kind);
    }
  }
}

// --- the process

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// In a process of its own: exits with 0 when the resident set grew as predicted.
[[noreturn]] void compare_resident_set(const char* policy, const Homes& homes = {}) {
  // About 1 GiB, a fifth of it activations; pages are only resident once they were touched.
  models::DecoderConfig config{.batch = 1,
                               .length = 512,
                               .vocabulary = 12000,
                               .width = 768,
                               .layers = 6,
                               .query_heads = 12,
                               .kv_heads = 12,
                               .head_dim = 64,
                               .mlp_width = 2048};
  Ready ready(config, policy, 1, {.homes = homes, .optimizers = adamw_states()});
  // The baseline: everything planned, libraries loaded, nothing allocated.
  int64_t baseline = resident_bytes();
  ready.allocate();
  for (int64_t i = 0; i < 2; ++i)
    ready.step->run(ready.batches(i), {.learning_rate = 1e-3, .number = i + 1}, ready.ledger);
  int64_t measured = peak_resident_bytes() - baseline, predicted = 0;
  for (MemoryKind kind : kMemoryKinds) predicted += analyze(ready.plans.plans[0], kind).peak_bytes;
  std::printf("%s: predicted %s, the resident set grew by %s (%+.2f %%)\n", policy,
              bytes_text(predicted).c_str(), bytes_text(measured).c_str(),
              100.0 * static_cast<double>(measured - predicted) / static_cast<double>(predicted));
  std::fflush(stdout);
  bool as_predicted = std::abs(measured - predicted) <= predicted / 50 + (64 << 20);
  std::_Exit(baseline > 0 && as_predicted ? 0 : 1);
}

TEST(ResidentSet, GrowsAsPredicted) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(compare_resident_set("none"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(compare_resident_set("full"), testing::ExitedWithCode(0), "");
}

TEST(ResidentSet, GrowsAsPredictedWithEverythingOnTheHost) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(compare_resident_set("minimal_offloaded", kAllOnHost), testing::ExitedWithCode(0),
              "");
}

#endif

}  // namespace
}  // namespace longshore::offload
