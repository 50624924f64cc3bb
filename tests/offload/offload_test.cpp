// What lives in host memory, and how far moves run ahead, changes no bit of losses, gradients or
// parameters: every policy with everything that can be offloaded, alone and together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "longshore/base/error.h"
#include "longshore/offload/memory/alignment.h"
#include "longshore/offload/plan/memory_analysis.h"
#include "longshore/trainer/step/memory_report.h"
#include "tests/models/cpu_dtypes.h"
#include "tests/offload/adamw_states.h"
#include "tests/offload/plan_checks.h"
#include "tests/offload/shuffled_backend.h"
#include "tests/offload/training.h"
#include "tests/offload/watching_backend.h"

namespace longshore::offload {
namespace {

using testing::HasSubstr;

constexpr MemoryKind kHost = MemoryKind::pinned_host;

struct Choice {
  const char* name;
  Homes homes;
};

const std::vector<Choice> kChoices{
    {"nothing", {}},
    {"parameters", {.parameters = kHost}},
    {"gradients", {.gradients = kHost}},
    {"optimizer", {.optimizer = kHost}},
    {"all", {.parameters = kHost, .gradients = kHost, .optimizer = kHost}}};

// Buckets that live on the host, by name and by what is really allocated there.
void expect_homes(const Training& training, const ParameterLayout& layout) {
  std::map<std::string, MemoryKind> kinds;
  for (const Plan* plan : training.plans.all())
    for (const Buffer& buffer : plan->buffers)
      if (buffer.owner == Owner::caller) kinds[buffer.name] = buffer.kind;
  for (const Bucket& bucket : layout.buckets)
    for (Copy copy : bucket.copies())
      if (auto kind = kinds.find(argument_name(bucket, copy)); kind != kinds.end()) {
        EXPECT_EQ(kind->second, bucket.homes.of(copy)) << kind->first;
      }
}

using Parameters = std::tuple<models::Dtype, double, int>;  // dtype, layers ahead, micro-batches

std::string first_of(const std::vector<std::string>& faults) {
  return faults.empty() ? "" : faults[0] + " (" + std::to_string(faults.size()) + " faults)";
}

class OffloadEquality : public testing::TestWithParam<Parameters> {};

TEST_P(OffloadEquality, EveryPolicyWithEverythingOffloadedGivesTheBitsOfNone) {
  auto [dtype, ahead, micro_batches] = GetParam();
  if (dtype == models::Dtype::bfloat16 && !models::multiplies_bfloat16())
    GTEST_SKIP() << "oneDNN has no bfloat16 products on this CPU";
  for (double threshold : {0.5, 0.0}) {
    TrainingOptions options{.model = models::decoder(tiny_llama(dtype)),
                            .micro_batches = micro_batches,
                            .clipping_threshold = threshold};
    Training none = train(options);
    options.transfers.prefetch_layers = ahead;
    for (const PolicyInfo& policy : policies())
      for (const Choice& choice : kChoices) {
        // Without clipping the update moves into the backward pass; a few policies show that.
        if (threshold == 0 && policy.name != "full" && policy.name != "minimal_offloaded") continue;
        SCOPED_TRACE(policy.name + ", " + choice.name + ", threshold " + std::to_string(threshold));
        options.policy = policy.name;
        options.custom.clear();
        if (policy.name == "custom")
          options.custom = {{"decoder_layer_input", Action::offload},
                            {"context", Action::offload},
                            {"mlpwi_0", Action::keep}};
        options.layout.homes = choice.homes;
        Training other = train(options);
        EXPECT_EQ(differences(none, other), "");
        EXPECT_EQ(first_fault(other.plans), "");
        expect_homes(other, lay_out(options.model, options.layout));
      }
  }
}

void expect_bits_of_none(const models::DecoderConfig& config) {
  TrainingOptions options{.model = models::decoder(config), .micro_batches = 2};
  const Training none = train(options);
  EXPECT_GT(none.results[0].auxiliary_loss, 0);
  EXPECT_GT(none.results[0].expert_load, 1);
  for (const PolicyInfo& policy : policies()) {
    if (policy.name == "custom") continue;
    SCOPED_TRACE(policy.name);
    options.policy = policy.name;
    options.layout.homes = kChoices.back().homes;
    const Training other = train(options);
    EXPECT_EQ(differences(none, other), "");
    EXPECT_EQ(first_fault(other.plans), "");
  }
}

// So do the losses of routers, whose tokens go to the same experts each time: those of each layer,
// and that to which all layers give; and adapters of experts.
TEST(OffloadedExperts, EveryPolicyGivesTheBitsOfNone) {
  models::DecoderConfig config = tiny_llama();
  config.family = &models::kMixtral;
  config.experts = 4;
  config.experts_per_token = 2;
  config.balance_loss_weight = 0.1;
  config.router_z_loss_weight = 0.01;
  expect_bits_of_none(config);
  config.balance_loss = models::BalanceLoss::model;
  config.lora = {.rank = 2, .targets = models::lora_targets(config.family->layer)};
  expect_bits_of_none(config);
}

std::string case_name(const testing::TestParamInfo<Parameters>& info) {
  auto [dtype, ahead, micro_batches] = info.param;
  return std::string(models::name(dtype)) + "_ahead_" + std::to_string(static_cast<int>(ahead)) +
         "_micro_batches_" + std::to_string(micro_batches);
}

INSTANTIATE_TEST_SUITE_P(Cases, OffloadEquality,
                         testing::Combine(testing::Values(models::Dtype::float32,
                                                          models::Dtype::bfloat16),
                                          testing::Values(0.0, 1.0, 3.0), testing::Values(1, 2)),
                         case_name);

// AdamW on the host, with gradients and weights there or brought to it.
TEST(Offload, UpdatesOnTheHostGiveTheBitsOfNone) {
  for (models::Dtype dtype : models::cpu_dtypes())
    for (double threshold : {0.5, 0.0})
      for (int64_t micro_batches : {1, 2}) {
        TrainingOptions options{.model = models::decoder(tiny_llama(dtype)),
                                .micro_batches = micro_batches,
                                .clipping_threshold = threshold};
        Training none = train(options);
        options.policy = "qkv_proj_offloaded";
        options.update_lane = Lane::host_compute;
        for (MemoryKind parameters : {MemoryKind::device, kHost})
          for (MemoryKind gradients : {MemoryKind::device, kHost}) {
            options.layout.homes = {parameters, gradients, kHost};
            Training other = train(options);
            EXPECT_EQ(differences(none, other), "") << name(parameters) << name(gradients);
            EXPECT_EQ(first_fault(other.plans), "");
            int updates = 0;
            for (const Plan* plan : other.plans.all())
              for (const Instruction& instruction : plan->instructions)
                updates += instruction.lane == Lane::host_compute;
            EXPECT_GT(updates, 0);
          }
      }
}

// No update waits then, wherever things live; and what that takes is what it takes without
// clipping.
TEST(Offload, ClippingByThePreviousNormGivesTheBitsOfNone) {
  struct Choice {
    const char* policy;
    Homes homes;
    Lane update = Lane::compute;
  };
  for (models::Dtype moment : {models::Dtype::float32, models::Dtype::uint8})
    for (int64_t micro_batches : {1, 4}) {
      TrainingOptions options{.micro_batches = micro_batches,
                              .clipping_norm = trainer::ClippingNorm::previous_global_norm};
      options.layout.optimizers = adamw_states(moment);
      const Training none = train(options);
      options.clipping_threshold = 0;
      const Training unclipped = train(options);
      options.clipping_threshold = 0.5;
      EXPECT_EQ(none.results[1].loss, unclipped.results[1].loss) << "the first step is not clipped";
      EXPECT_NE(none.results[2].loss, unclipped.results[2].loss);
      for (const Choice& choice :
           {Choice{"full", {}},
            {"minimal_offloaded", {.optimizer = kHost}},
            {"qkv_proj_offloaded", {kHost, kHost, kHost}},
            {"save_out_proj", {MemoryKind::device, kHost, kHost}, Lane::host_compute},
            {"full", {kHost, kHost, kHost}, Lane::host_compute}}) {
        SCOPED_TRACE(choice.policy);
        options.policy = choice.policy;
        options.layout.homes = choice.homes;
        options.update_lane = choice.update;
        const Training other = train(options);
        EXPECT_EQ(differences(none, other), "");
        EXPECT_EQ(first_fault(other.plans), "");
        EXPECT_FALSE(other.plans.flush);
        options.clipping_threshold = 0;
        const trainer::MemoryByKind planned = trainer::analyze(other.plans.all()),
                                    without = trainer::analyze(train(options).plans.all());
        options.clipping_threshold = 0.5;
        for (MemoryKind kind : {MemoryKind::device, kHost}) {
          EXPECT_EQ(other.allocated_bytes.at(kind), planned[kind].peak_bytes);
          EXPECT_EQ(planned[kind].peak_bytes, without[kind].peak_bytes);
        }
      }
    }
}

// Whether the next pass makes a deferred update or a flush does.
TEST(Offload, FlushedUpdatesGiveTheBitsOfNone) {
  for (int64_t micro_batches : {1, 2})
    for (models::Dtype moment : {models::Dtype::float32, models::Dtype::uint8})
      for (Lane lane : {Lane::compute, Lane::host_compute})
        for (const Homes& homes : {Homes{.optimizer = kHost}, Homes{kHost, kHost, kHost}}) {
          TrainingOptions options{.micro_batches = micro_batches, .steps = 4};
          options.layout.optimizers = adamw_states(moment);
          Training none = train(options);
          EXPECT_FALSE(none.plans.flush);
          options.layout.homes = homes;
          options.update_lane = lane;
          Training deferred = train(options);
          options.flushes = true;
          Training flushed = train(options);
          ASSERT_TRUE(flushed.plans.flush);
          EXPECT_EQ(differences(none, deferred), "");
          EXPECT_EQ(differences(none, flushed), "");
        }
}

// A gradient waits for its update where the step left it; the memory that takes is that of a step
// which updates at its end.
TEST(Offload, DeferringTakesNoMemoryButStaging) {
  for (const char* policy : {"none", "full", "minimal_offloaded"}) {
    TrainingOptions options{.policy = policy, .steps = 1};
    MemoryAnalysis at_once = analyze(train(options).plans.plans[0], MemoryKind::device);
    options.layout.homes.optimizer = kHost;
    options.transfers.prefetch_layers = 0.25;
    Training deferred = train(options);
    MemoryAnalysis step = analyze(deferred.plans.plans[0], MemoryKind::device);
    MemoryAnalysis flush = analyze(*deferred.plans.flush, MemoryKind::device);
    // Two chunks of both moments come and go.
    int64_t staging = 4 * 2 * options.update_chunk * int64_t{sizeof(float)};
    EXPECT_LE(step.temp_bytes, at_once.temp_bytes + staging) << policy;
    EXPECT_LE(flush.temp_bytes, step.temp_bytes + staging) << policy;
  }
}

// bf16 weights without a master copy, and moments of each kind: what is rounded at random is
// rounded the same, wherever it lies and in whatever parts it is updated.
TEST(Offload, EveryFormatGivesTheBitsOfNone) {
  if (!models::multiplies_bfloat16()) GTEST_SKIP() << "oneDNN has no bfloat16 products on this CPU";
  using enum models::Dtype;
  std::set<std::string> seen;
  for (models::Dtype weight : {float32, bfloat16})
    for (models::Dtype moment : {float32, bfloat16, uint8}) {
      SCOPED_TRACE(std::string(models::name(weight)) + " " + models::name(moment));
      TrainingOptions options{.model = models::decoder(tiny_llama(bfloat16))};
      options.layout = {.weight_dtype = weight, .optimizers = adamw_states(moment)};
      Training none = train(options);
      EXPECT_LT(none.results.back().loss, none.results.front().loss);
      EXPECT_TRUE(seen.insert(std::to_string(none.results.back().loss)).second);
      options.policy = "qkv_proj_offloaded";
      for (const Choice& choice : kChoices)
        for (Lane lane : {Lane::compute, Lane::host_compute}) {
          options.layout.homes = choice.homes;
          if (lane == Lane::host_compute) options.layout.homes.optimizer = kHost;
          options.update_lane = lane;
          Training other = train(options);
          EXPECT_EQ(differences(none, other), "") << choice.name << " " << name(lane);
          EXPECT_EQ(first_fault(other.plans), "");
        }
    }
}

// Stages that run once, frozen weights, tied weights, batch inputs and auxiliary losses.
TEST(Offload, HomesOfAToysStatesGiveTheBitsOfNone) {
  for (int64_t micro_batches : {1, 2}) {
    TrainingOptions options{.model = toy(), .micro_batches = micro_batches};
    Training none = train(options);
    for (const char* policy : {"none", "minimal_offloaded"})
      for (const Choice& choice : kChoices)
        for (double ahead : {0.0, 0.5, 2.0}) {
          options.policy = policy;
          options.layout.homes = choice.homes;
          options.transfers.prefetch_layers = ahead;
          Training other = train(options);
          EXPECT_EQ(differences(none, other), "") << policy << " " << choice.name;
          EXPECT_EQ(first_fault(other.plans), "");
        }
  }
}

// Lanes at their worst.
TEST(Offload, IsOrderedByWaitsAlone) {
  TrainingOptions options;
  Training none = train(options);
  for (Lane lane : {Lane::compute, Lane::host_compute})
    for (uint32_t seed = 0; seed < 3; ++seed) {
      auto backend = make_shuffled_backend(seed);
      options.policy = "minimal_offloaded";
      options.layout.homes = {kHost, kHost, kHost};
      options.update_lane = lane;
      options.backend = backend.get();
      EXPECT_EQ(differences(none, train(options)), "") << name(lane);
    }
}

// Kernels and copies write nothing but what is theirs, in either memory.
TEST(Offload, TouchesOnlyItsOwnMemory) {
  WatchingBackend watching;
  TrainingOptions options{.policy = "minimal_offloaded", .steps = 2, .backend = &watching};
  options.layout.homes = {kHost, kHost, kHost};
  train(options);
  EXPECT_EQ(first_of(watching.faults()), "");
}

TEST(Offload, LayersThatDoNotOffloadKeep) {
  TrainingOptions options{.policy = "qkv_proj_offloaded", .steps = 1};
  auto moves = [&](std::optional<int> layers) {
    options.offload_layers = layers;
    Training training = train(options);
    std::map<int, int> by_layer;
    for (const Instruction& instruction : training.plans.plans[0].instructions)
      if (instruction.lane == Lane::device_to_host && instruction.scope.stage == "decoder")
        ++by_layer[instruction.scope.layer];
    return by_layer;
  };
  int layers = tiny_llama().layers;
  ASSERT_GE(layers, 3);
  std::map<int, int> all_but_last = moves(std::nullopt), all = moves(layers), one = moves(1);
  EXPECT_EQ(static_cast<int>(all_but_last.size()), layers - 1);
  EXPECT_EQ(static_cast<int>(all.size()), layers);
  EXPECT_EQ(one, (std::map<int, int>{{0, 3}}));  // query, key and value
  EXPECT_TRUE(moves(0).empty());
  EXPECT_THROW(moves(layers + 1), ConfigError);
}

TEST(Offload, WhatNobodyReadsCannotBeOffloaded) {
  TrainingOptions options{.policy = "custom", .custom = {{"mlpwo", Action::offload}}};
  try {
    train(options);
    FAIL() << "mlpwo is never read";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("mlpwo"));
    EXPECT_THAT(error.what(), HasSubstr("mlpwi_0"));
  }
}

// Where the memory went: each choice takes its bytes from the device, and adds no more than stages.
TEST(Offload, TakesItsBytesFromTheDevice) {
  TrainingOptions options{.policy = "full", .steps = 1};
  auto analysis = [&](const Homes& homes, MemoryKind kind) {
    options.layout.homes = homes;
    return analyze(train(options).plans.plans[0], kind);
  };
  ParameterLayout layout = lay_out(options.model, {.optimizers = adamw_states()});
  auto total = [&](std::initializer_list<Copy> copies) {
    int64_t sum = 0;
    for (const Bucket& bucket : layout.buckets)
      for (Copy copy : copies) sum += bucket.has(copy) ? bytes(bucket, copy) : 0;
    return sum;
  };
  constexpr int64_t kDeferred = kArenaAlignment;  // the clip factor, where the update is deferred
  MemoryAnalysis nothing = analysis({}, MemoryKind::device);
  EXPECT_EQ(
      nothing.argument_bytes - analysis({.parameters = kHost}, MemoryKind::device).argument_bytes,
      total({Copy::compute}) - kDeferred);
  EXPECT_EQ(
      nothing.argument_bytes - analysis({.optimizer = kHost}, MemoryKind::device).argument_bytes,
      total({kFirstMoment, kSecondMoment}) - kDeferred);
  EXPECT_EQ(
      analysis({.optimizer = kHost}, kHost).argument_bytes - analysis({}, kHost).argument_bytes,
      total({kFirstMoment, kSecondMoment}));
  // Gradients alone: they never are on the device all at once.
  EXPECT_LT(analysis({.gradients = kHost}, MemoryKind::device).temp_bytes, nothing.temp_bytes);
}

}  // namespace
}  // namespace longshore::offload
