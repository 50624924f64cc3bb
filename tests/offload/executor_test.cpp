#include "longshore/offload/execution/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/offload/backends/virtual_backend.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/plan/memory_analysis.h"
#include "tests/message_of.h"
#include "tests/models/cpu_dtypes.h"
#include "tests/offload/forwarding_backend.h"
#include "tests/offload/random_plan.h"
#include "tests/offload/shuffled_backend.h"
#include "tests/offload/training.h"

namespace longshore::offload {
namespace {

using testing::HasSubstr;

using Values = std::map<std::string, std::vector<float>>;

enum class Synchronize { after_each, at_the_end };

// Runs the plan `times` times over.
Values run(const RandomPlan& random, Backend& backend, int times = 1,
           Synchronize synchronize = Synchronize::after_each) {
  Ledger ledger;
  Arenas arenas(backend, {&random.plan});
  Arguments arguments(backend, ledger);
  Executable executable(random.plan, backend, arguments, arenas);
  auto bytes = [](const std::vector<float>& values) {
    return static_cast<int64_t>(values.size() * sizeof(float));
  };
  for (const auto& [name, value] : random.inputs) arguments.write(name, value.data(), bytes(value));
  for (int i = 0; i < times; ++i) {
    executable.run(ledger);
    if (synchronize == Synchronize::after_each) backend.synchronize();
  }
  backend.synchronize();
  Values outputs;
  for (const auto& [name, expected] : random.outputs) {
    outputs[name].resize(expected.size());
    arguments.read(name, outputs[name].data(), bytes(expected));
  }
  return outputs;
}

TEST(Executor, CopiesOnBothLanesGiveTheRightData) {
  auto backend = make_cpu_backend();
  for (uint32_t seed = 0; seed < 60; ++seed) {
    RandomPlan random = random_plan(seed);
    ASSERT_GT(random.outputs.size(), 3u);
    EXPECT_EQ(run(random, *backend, 3), random.outputs) << seed;
  }
}

TEST(Executor, WaitsHoldWhateverLaneIsSlow) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    RandomPlan random = random_plan(seed % 60);
    auto backend = make_shuffled_backend(seed);
    EXPECT_EQ(run(random, *backend), random.outputs) << seed;
  }
}

// The next plan must not start on memory that a copy of the one before still needs.
TEST(Executor, PlansFollowEachOtherUnsynchronized) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    RandomPlan random = random_plan(seed);
    auto shuffled = make_shuffled_backend(seed);
    EXPECT_EQ(run(random, *shuffled, 3, Synchronize::at_the_end), random.outputs) << seed;
    auto cpu = make_cpu_backend();
    EXPECT_EQ(run(random, *cpu, 3, Synchronize::at_the_end), random.outputs) << seed;
  }
}

// ... which these tests would see.
TEST(Executor, WithoutWaitsTheDataIsWrong) {
  int wrong = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    RandomPlan random = random_plan(seed);
    for (Instruction& instruction : random.plan.instructions) instruction.waits.clear();
    auto backend = make_shuffled_backend(seed);
    wrong += run(random, *backend) != random.outputs;
  }
  EXPECT_EQ(wrong, 20);
}

TEST(Executor, AWholeStepIsTheSameOnSlowLanes) {
  Training plain = train({.policy = "save_qkv_proj", .micro_batches = 2, .steps = 2});
  for (uint32_t seed = 0; seed < 4; ++seed) {
    auto backend = make_shuffled_backend(seed);
    Training shuffled = train(
        {.policy = "save_qkv_proj", .micro_batches = 2, .steps = 2, .backend = backend.get()});
    EXPECT_EQ(differences(plain, shuffled), "");
  }
}

TEST(Executor, ALedgerWithoutDataIsTheSame) {
  for (const char* policy : {"none", "full", "save_qkv_proj"})
    for (int64_t micro_batches : {1, 3}) {
      TrainingOptions options{.policy = policy, .micro_batches = micro_batches};
      Training real = train(options);
      auto backend = make_virtual_backend(nominal_hardware(models::Target::cpu));
      options.backend = backend.get();
      Training planned = train(options);
      for (MemoryKind kind : kMemoryKinds) {
        EXPECT_EQ(planned.ledger.peak_bytes(kind), real.ledger.peak_bytes(kind));
        EXPECT_EQ(planned.ledger.at_peak(kind), real.ledger.at_peak(kind));
        EXPECT_EQ(planned.ledger.now_bytes(kind), real.ledger.now_bytes(kind));
      }
    }
}

TEST(Executor, TheLedgerHoldsWhatTheAnalysisSays) {
  for (const char* policy : {"none", "full", "save_qkv_proj"})
    for (models::Dtype dtype : models::cpu_dtypes()) {
      Training run = train({.model = models::decoder(tiny_llama(dtype)), .policy = policy});
      for (MemoryKind kind : kMemoryKinds) {
        MemoryAnalysis analysis = analyze(run.plans.plans[0], kind);
        EXPECT_EQ(run.ledger.peak_bytes(kind), analysis.live_bytes) << policy << name(kind);
        EXPECT_EQ(run.ledger.at_peak(kind), analysis.by_category) << policy << name(kind);
        // Between steps arguments and outputs are all there is.
        EXPECT_EQ(run.ledger.now_bytes(kind), run.plans.plans[0].caller_bytes(kind));
        // What was asked of the backend.
        EXPECT_EQ(run.allocated_bytes[kind], analysis.peak_bytes) << policy << name(kind);
      }
    }
}

class FailingBackend : public ForwardingBackend {
 public:
  FailingBackend(Backend& other, int calls) : ForwardingBackend(other), calls_left_(calls) {}

  void run(Lane lane, const models::Op& op, const models::KernelCall& call) override {
    count();
    ForwardingBackend::run(lane, op, call);
  }
  void copy(Lane lane, const models::Ref& from, const models::Ref& to) override {
    count();
    ForwardingBackend::copy(lane, from, to);
  }

 private:
  void count() {
    if (calls_left_-- == 0) throw Error("as asked");
  }

  int calls_left_;
};

TEST(Executor, AFailedRunLeavesTheLedgerAsItWas) {
  auto cpu = make_cpu_backend();
  const RandomPlan random = random_plan(3);
  const Plan& plan = random.plan;
  for (int calls = 0; calls < std::ssize(plan.instructions); ++calls) {
    FailingBackend backend(*cpu, calls);
    Ledger ledger;
    Arenas arenas(backend, {&plan});
    Arguments arguments(backend, ledger);
    Executable executable(plan, backend, arguments, arenas);
    std::map<MemoryKind, int64_t> before;
    for (MemoryKind kind : kMemoryKinds) before[kind] = ledger.now_bytes(kind);
    EXPECT_THROW(executable.run(ledger), Error);
    for (MemoryKind kind : kMemoryKinds) EXPECT_EQ(ledger.now_bytes(kind), before[kind]) << calls;
  }
}

TEST(Executor, RefusesAnArenaThatIsTooSmall) {
  auto backend = make_virtual_backend(nominal_hardware(models::Target::cpu));
  RandomPlan random = random_plan(0);
  Ledger ledger;
  Arguments arguments(*backend, ledger);
  for (MemoryKind kind : {MemoryKind::device, MemoryKind::pinned_host}) {
    Plan smaller = random.plan;
    --smaller.arena_bytes[kind];
    Arenas arenas(*backend, {&smaller});
    EXPECT_THROW(Executable(random.plan, *backend, arguments, arenas), InternalError);
  }
}

TEST(Ledger, KnowsItsPeak) {
  Ledger ledger;
  ledger.take(MemoryKind::device, Category::kept, 10);
  ledger.take(MemoryKind::device, Category::workspace, 5);
  ledger.give(MemoryKind::device, Category::workspace, 5);
  ledger.take(MemoryKind::device, Category::kept, 4);
  ledger.take(MemoryKind::pinned_host, Category::batch, 1);
  EXPECT_EQ(ledger.peak_bytes(MemoryKind::device), 15);
  EXPECT_EQ(ledger.at_peak(MemoryKind::device)[Category::kept], 10);
  EXPECT_EQ(ledger.at_peak(MemoryKind::device)[Category::workspace], 5);
  EXPECT_EQ(ledger.now_bytes(MemoryKind::device), 14);
  EXPECT_EQ(ledger.peak_bytes(MemoryKind::pinned_host), 1);
  EXPECT_THROW(ledger.give(MemoryKind::device, Category::kept, 15), InternalError);
}

TEST(CpuBackend, CopiesAreRealAndWaitedFor) {
  auto backend = make_cpu_backend();
  constexpr int64_t kBytes = 64 << 20;
  Arena host(*backend, MemoryKind::pinned_host, kBytes);
  Arena device(*backend, MemoryKind::device, kBytes),
      back(*backend, MemoryKind::pinned_host, kBytes);
  std::vector<int32_t> values(kBytes / 4);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i * 2654435761u);
  backend->write(MemoryKind::pinned_host, host.memory(), values.data(), kBytes);
  models::Type type{{kBytes / 4}, models::Dtype::int32};
  backend->copy(Lane::host_to_device, {host.memory(), type}, {device.memory(), type});
  backend->record(Lane::host_to_device, 0);
  backend->wait(Lane::device_to_host, 0);
  backend->copy(Lane::device_to_host, {device.memory(), type}, {back.memory(), type});
  backend->synchronize();
  std::vector<int32_t> result(values.size());
  backend->read(MemoryKind::pinned_host, result.data(), back.memory(), kBytes);
  EXPECT_EQ(result, values);
}

// Its lanes wait for each other and work in its memory: they end first.
TEST(CpuBackend, EndsItsWorkBeforeItGoes) {
  constexpr int64_t kBytes = 16 << 20;
  const models::Type type{{kBytes / 4}, models::Dtype::int32};
  for (int round = 0; round < 20; ++round) {
    auto backend = make_cpu_backend();
    std::byte* memory[3];
    for (std::byte*& part : memory) part = backend->allocate(MemoryKind::device, kBytes);
    backend->copy(Lane::device_to_host, {memory[0], type}, {memory[1], type});
    backend->record(Lane::device_to_host, 0);
    backend->wait(Lane::host_to_device, 0);
    backend->copy(Lane::host_to_device, {memory[1], type}, {memory[2], type});
  }
}

// Whoever waited for what failed runs no more, until the failure is told of.
TEST(CpuBackend, RunsNothingAfterAFailure) {
  static int runs;
  runs = 0;
  const models::Op fails{.name = "fails",
                         .cpu = {[](const models::KernelCall&) { throw Error("a failure"); }}};
  const models::Op counts{.name = "counts", .cpu = {[](const models::KernelCall&) { ++runs; }}};
  const std::any none;
  const models::KernelCall call{.target = models::Target::cpu, .attrs = none};
  std::vector<int32_t> memory(2);
  auto part = [&](int i) { return models::Ref{&memory[i], {{1}, models::Dtype::int32}}; };
  auto backend = make_cpu_backend();
  for (Lane lane : {Lane::compute, Lane::device_to_host})
    for (bool copies : {false, true}) {
      SCOPED_TRACE(std::string(name(lane)) + (copies ? ", a copy" : ", a kernel"));
      memory = {1, 2};
      backend->run(Lane::host_compute, fails, call);
      backend->record(Lane::host_compute, 0);
      backend->wait(lane, 0);
      auto go_on = [&] {
        if (copies)
          backend->copy(lane, part(0), part(1));
        else
          backend->run(lane, counts, call);
        backend->synchronize();
      };
      EXPECT_EQ(message_of<Error>(go_on), "a failure");
      EXPECT_EQ(runs, 0);
      EXPECT_EQ(memory[1], 2);
      backend->run(lane, counts, call);
      backend->synchronize();
      EXPECT_EQ(std::exchange(runs, 0), 1);
    }
}

TEST(CpuBackend, RefusesWhatTheSystemRefuses) {
  auto backend = make_cpu_backend();
  try {
    backend->allocate(MemoryKind::pinned_host, int64_t{1} << 60);
    FAIL() << "an exabyte was there";
  } catch (const OutOfMemoryError& error) {
    EXPECT_THAT(error.what(), HasSubstr("pinned_host"));
  }
  EXPECT_GT(backend->available_bytes(MemoryKind::device), int64_t{64} << 20);
  std::byte other;
  EXPECT_THROW(backend->free(MemoryKind::device, &other), InternalError);
}

TEST(CpuBackend, CountsWhatIsInUseOnceItWasTouched) {
  constexpr int64_t kBytes = int64_t{256} << 20, kElsewhere = int64_t{32} << 20;
  auto backend = make_cpu_backend();
  const int64_t before = backend->used_device_bytes();
  std::byte* memory = backend->allocate(MemoryKind::device, kBytes);
  EXPECT_LT(backend->used_device_bytes(), before + kElsewhere);
  backend->write_zeros(MemoryKind::device, memory, kBytes);
  EXPECT_NEAR(backend->used_device_bytes() - before, kBytes, kElsewhere);
  EXPECT_TRUE(std::ranges::all_of(std::span(memory, kBytes),
                                  [](std::byte b) { return b == std::byte{0}; }));
  backend->free(MemoryKind::device, memory);
  EXPECT_LT(backend->used_device_bytes(), before + kElsewhere);
}

}  // namespace
}  // namespace longshore::offload
