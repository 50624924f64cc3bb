// What is left when memory is refused, or when a copy or a kernel fails in the middle of a step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <thread>

#include "longshore/base/error.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/trainer/weights/initialize.h"
#include "tests/message_of.h"
#include "tests/offload/adamw_states.h"
#include "tests/offload/forwarding_backend.h"
#include "tests/offload/training.h"

namespace longshore::offload {
namespace {

using testing::HasSubstr;

constexpr MemoryKind kHost = MemoryKind::pinned_host;

// --- memory is refused

// Refuses one allocation as the real backends do.
class RefusingBackend : public ForwardingBackend {
 public:
  RefusingBackend(Backend& other, int refused) : ForwardingBackend(other), refused_(refused) {}

  std::byte* allocate(MemoryKind kind, int64_t bytes) override {
    if (asked_++ == refused_)
      throw OutOfMemoryError(std::string(name(kind)) + ": asked for " + bytes_text(bytes) +
                             ", 0 bytes are available: refused");
    ++held_;
    return ForwardingBackend::allocate(kind, bytes);
  }
  void free(MemoryKind kind, std::byte* memory) override {
    --held_;
    ForwardingBackend::free(kind, memory);
  }

  int asked() const { return asked_; }
  int held() const { return held_; }

 private:
  int refused_, asked_ = 0, held_ = 0;
};

TEST(RefusedMemory, IsSaidAndWhatWasTakenIsGivenBack) {
  TrainingOptions options{.policy = "minimal_offloaded", .steps = 1};
  options.layout.homes = {kHost, kHost, kHost};
  auto cpu = make_cpu_backend();
  RefusingBackend counting(*cpu, -1);
  options.backend = &counting;
  train(options);
  ASSERT_GT(counting.asked(), 10);
  EXPECT_EQ(counting.held(), 0);
  int pinned = 0;
  for (int refused = 0; refused < counting.asked(); ++refused) {
    RefusingBackend refusing(*cpu, refused);
    options.backend = &refusing;
    std::string message = message_of<OutOfMemoryError>([&] { train(options); });
    EXPECT_THAT(message, HasSubstr("asked for"));
    pinned += message.starts_with("pinned_host");
    EXPECT_EQ(refusing.asked(), refused + 1);
    EXPECT_EQ(refusing.held(), 0);
  }
  EXPECT_GT(pinned, 10);
}

#ifndef __SANITIZE_ADDRESS__

int64_t address_space_bytes() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * 4096;
}

// In a process of its own: prints the message to stderr.
[[noreturn]] void allocate_beyond_the_limit() {
  auto backend = make_cpu_backend();
  rlim_t bytes = static_cast<rlim_t>(address_space_bytes()) + (rlim_t{256} << 20);
  rlimit limit{bytes, bytes};
  if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(2);
  backend->free(kHost, backend->allocate(kHost, int64_t{64} << 20));
  try {
    backend->allocate(kHost, int64_t{1} << 30);
  } catch (const OutOfMemoryError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::_Exit(0);
  }
  std::_Exit(1);
}

TEST(RefusedMemory, IsNamedByTheCpuBackend) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(allocate_beyond_the_limit(), testing::ExitedWithCode(0),
              "pinned_host: asked for 1.00 GiB, .* are available: Cannot allocate memory");
}

#endif

// --- something fails in the middle of a step

struct Fault : Error {
  using Error::Error;
};

enum class Way { when_called, in_its_lane };

// Does what the CPU does, but the call of a given number fails.
class FaultyBackend : public ForwardingBackend {
 public:
  struct Call {
    Lane lane;
    std::string op;  // "" for copies
  };

  explicit FaultyBackend(Backend& cpu) : ForwardingBackend(cpu) {}

  // The next call is number 0 again.
  void fail_at(int call, Way way) {
    fault_ = call;
    way_ = way;
    calls_.clear();
    tasks_.clear();
    begun_ = begun_updates_ = 0;
    is_clipped_ = false;
  }

  void run(Lane lane, const models::Op& op, const models::KernelCall& call) override {
    submit(lane, op.name, [&op, call] { op.cpu.run(call); });
  }
  void copy(Lane lane, const models::Ref& from, const models::Ref& to) override {
    submit(lane, "", [from, to] { std::memcpy(to.data, from.data, from.type.bytes()); });
  }

  const std::vector<Call>& calls() const { return calls_; }
  int begun() const { return begun_; }
  int running() const { return running_; }
  int begun_updates() const { return begun_updates_; }

 private:
  struct Task {
    std::function<void()> work;
    std::any self;
  };

  void submit(Lane lane, const std::string& op, std::function<void()> work) {
    static const models::Op kTask{.name = "task", .cpu = {[](const models::KernelCall& call) {
                                                    std::any_cast<Task*>(call.attrs)->work();
                                                  }}};
    int number = static_cast<int>(calls_.size());
    calls_.push_back({lane, op});
    bool fails = number == fault_;
    if (fails && way_ == Way::when_called) throw Fault("call " + std::to_string(number));
    // The last before a fault are slow, so that they are under way when it happens.
    bool is_slow = lane != Lane::compute && number < fault_ && number >= fault_ - 3;
    tasks_.push_back({[this, op, work, number, fails, is_slow] {
                        ++begun_;
                        ++running_;
                        if (op == "clip") is_clipped_ = true;
                        // Before there is a norm, a deferred update has nothing to do.
                        if (op == "adamw" && is_clipped_) ++begun_updates_;
                        if (is_slow) std::this_thread::sleep_for(std::chrono::microseconds(100));
                        if (!fails) work();
                        --running_;
                        if (fails) throw Fault("call " + std::to_string(number));
                      },
                      {}});
    tasks_.back().self = &tasks_.back();
    ForwardingBackend::run(lane, kTask,
                           {.target = models::Target::cpu, .attrs = tasks_.back().self});
  }

  int fault_ = -1;
  Way way_ = Way::when_called;
  std::vector<Call> calls_;
  std::deque<Task> tasks_;  // until the next step: lanes refer to them
  std::atomic<int> begun_ = 0, running_ = 0, begun_updates_ = 0;
  std::atomic<bool> is_clipped_ = false;
};

// A model, its memory, and steps on it that may fail.
class Faults {
 public:
  explicit Faults(Lane update_lane)
      : options_{.policy = make_policy("minimal_offloaded", {}, layer_program(model_)),
                 .optimizer =
                     trainer::OptimizerOptions{
                         .optimizers = {models::adamw({0.9, 0.95, 1e-8, 0.1})},
                         .clipping_threshold = 0.5,
                         .lane = update_lane,
                         .chunk = 2048}},
        plans_(plan_step(model_, layout_, options_, models::Target::cpu)) {
    clean_ = step(-1, Way::when_called);
    calls_ = faulty_.calls();
    auto is = [](const char* op) {
      return [op](const FaultyBackend::Call& call) { return call.op == op; };
    };
    auto norm = std::find_if(calls_.begin(), calls_.end(), is("clip"));
    first_update_ = std::find_if(norm, calls_.end(), is("adamw")) - calls_.begin();
  }

  using State = std::map<std::string, std::vector<std::byte>>;

  // A step from the start; what it leaves.
  State step(int fault, Way way) {
    trainer::initialize(layout_, kWeightSeed, arguments_);
    start_ = state();
    trainer::TrainStep step(plans_, faulty_, arguments_, arenas_);
    auto run = [&] {
      Ledger ledger;
      step.run({source_(0)}, {.learning_rate = 1e-2}, ledger);
      step.flush(ledger);
    };
    faulty_.fail_at(fault, way);
    if (fault < 0) {
      run();
      return state();
    }
    EXPECT_EQ(message_of<Fault>(run), "call " + std::to_string(fault));
    int begun = faulty_.begun();
    EXPECT_EQ(faulty_.running(), 0);
    faulty_.synchronize();
    State left = state();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    EXPECT_EQ(faulty_.begun(), begun) << "a lane went on";
    std::string again = message_of<Error>(run);
    EXPECT_THAT(again, HasSubstr("a step failed before"));
    EXPECT_EQ(faulty_.begun(), begun) << "a step was begun on what is not whole";
    return left;
  }

  // At every call of a step.
  void expect_survived(Way way) {
    int untouched = 0;
    for (int fault = 0; fault < std::ssize(calls_); ++fault) {
      SCOPED_TRACE("call " + std::to_string(fault) + " on " + name(calls_[fault].lane));
      State left = step(fault, way);
      if (faulty_.begun_updates() == 0) {
        EXPECT_TRUE(left == start_);
        ++untouched;
      }
      // A lane may be late, but what the norm needs was there before the update.
      if (fault < first_update_ &&
          (way == Way::when_called || calls_[fault].lane == Lane::compute)) {
        EXPECT_EQ(faulty_.begun_updates(), 0);
      }
    }
    std::printf("%zu calls, the first update is number %ld, %d faults touched no weight\n",
                calls_.size(), static_cast<long>(first_update_), untouched);
    EXPECT_GT(untouched, first_update_ / 2);
    EXPECT_TRUE(step(-1, way) == clean_) << "the backend did not recover";
  }

 private:
  State state() const {
    State state;
    for (const Bucket& bucket : layout_.buckets)
      for (Copy copy : bucket.copies()) {
        if (copy == Copy::gradient) continue;
        std::vector<std::byte>& contents = state[argument_name(bucket, copy)];
        contents.resize(static_cast<size_t>(bytes(bucket, copy)));
        arguments_.read(argument_name(bucket, copy), contents.data(), bytes(bucket, copy));
      }
    return state;
  }

  static models::DecoderConfig smallest() {
    models::DecoderConfig config = tiny_llama();
    config.batch = 1;
    config.length = 8;
    config.layers = 2;
    config.width = 16;
    config.mlp_width = 24;
    return config;
  }

  models::DecoderConfig config_ = smallest();
  models::Model model_ = models::decoder(config_);
  ParameterLayout layout_ =
      lay_out(model_, {.homes = {kHost, kHost, kHost}, .optimizers = adamw_states()});
  trainer::StepOptions options_;
  trainer::StepPlans plans_;
  data::BatchSource source_ = data::synthetic_batches(
      {config_.batch, config_.length}, static_cast<int32_t>(config_.vocabulary), kDataSeed);
  std::unique_ptr<Backend> cpu_ = make_cpu_backend();
  FaultyBackend faulty_{*cpu_};
  Ledger ledger_;
  Arenas arenas_{faulty_, plans_.all()};
  Arguments arguments_{faulty_, ledger_};
  std::vector<FaultyBackend::Call> calls_;
  std::ptrdiff_t first_update_ = 0;
  State start_, clean_;
};

class FailedStep : public testing::TestWithParam<Lane> {};

TEST_P(FailedStep, IsReportedOnceAllLanesRest) {
  Faults faults(GetParam());
  for (Way way : {Way::when_called, Way::in_its_lane}) faults.expect_survived(way);
}

INSTANTIATE_TEST_SUITE_P(UpdatesOn, FailedStep, testing::Values(Lane::compute, Lane::host_compute),
                         [](const testing::TestParamInfo<Lane>& info) { return name(info.param); });

}  // namespace
}  // namespace longshore::offload
