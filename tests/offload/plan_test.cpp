#include "longshore/offload/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "longshore/base/error.h"
#include "longshore/models/ir/add.h"
#include "longshore/models/ir/model.h"
#include "longshore/offload/lowering/plan_builder.h"
#include "longshore/offload/memory/alignment.h"
#include "longshore/offload/plan/memory_analysis.h"
#include "longshore/trainer/step/step_plans.h"
#include "tests/models/cpu_dtypes.h"
#include "tests/offload/adamw_states.h"
#include "tests/offload/plan_checks.h"
#include "tests/offload/random_plan.h"
#include "tests/offload/toy_models.h"

namespace longshore::offload {
namespace {

using testing::HasSubstr;

using models::Dtype;
using models::Target;

std::string first_of(const std::vector<std::string>& faults) {
  return faults.empty() ? "" : faults[0] + " (" + std::to_string(faults.size()) + " faults)";
}

trainer::StepPlans plans_of(const models::Model& model, const std::string& policy,
                            int64_t micro_batches = 1, Target target = Target::cpu) {
  int decoder = stage_index(model, "decoder");
  trainer::StepOptions options{
      .policy = make_policy(policy, {}, model.stages[decoder].programs[0]),
      .micro_batches = micro_batches,
      .optimizer = trainer::OptimizerOptions{.optimizers = {models::adamw({0.9, 0.95, 1e-8, 0.1})},
                                             .clipping_threshold = 1}};
  return trainer::plan_step(model, lay_out(model, {.optimizers = adamw_states()}), options, target);
}

void expect_sound(const trainer::StepPlans& plans) {
  for (size_t i = 0; i < plans.plans.size(); ++i) {
    const Plan& plan = plans.plans[i];
    SCOPED_TRACE(plan.name);
    EXPECT_EQ(first_of(placement_faults(plan)), "");
    EXPECT_EQ(first_of(data_flow_faults(plan, i == 0 ? Gradients::none_yet : Gradients::begun)),
              "");
    EXPECT_EQ(first_of(order_faults(plan)), "");
    for (MemoryKind kind : kMemoryKinds) {
      MemoryAnalysis analysis = analyze(plan, kind);
      EXPECT_EQ(analysis.live_bytes, live_bytes(plan, kind)) << name(kind);
      EXPECT_EQ(analysis.peak_bytes, plan.caller_bytes(kind) + plan.arena_bytes[kind]);
      EXPECT_EQ(analysis.total_bytes(), analysis.peak_bytes);
      EXPECT_LE(analysis.live_bytes, analysis.peak_bytes);
      int64_t by_category = 0;
      for (int64_t bytes : analysis.by_category) by_category += bytes;
      EXPECT_EQ(by_category, analysis.live_bytes);
    }
  }
}

TEST(StepPlan, LlamaUnderEveryPolicyIsSound) {
  for (const PolicyInfo& policy : policies())
    for (Dtype dtype : models::cpu_dtypes())
      for (bool tied : {false, true})
        for (int64_t micro_batches : {1, 3}) {
          SCOPED_TRACE(policy.name + " " + models::name(dtype) + (tied ? " tied " : " untied ") +
                       std::to_string(micro_batches));
          models::DecoderConfig config = tiny_llama(dtype);
          config.tied_embeddings = tied;
          expect_sound(plans_of(models::decoder(config), policy.name, micro_batches));
        }
}

TEST(StepPlan, TheToyUnderEveryPolicyIsSound) {
  for (const PolicyInfo& policy : policies())
    for (int64_t micro_batches : {1, 2, 3}) {
      SCOPED_TRACE(policy.name + " " + std::to_string(micro_batches));
      expect_sound(plans_of(toy(), policy.name, micro_batches));
    }
}

TEST(StepPlan, ForwardOnlyIsSoundAndKeepsNothing) {
  models::Model model = models::decoder(tiny_llama());
  Plan forward = trainer::plan_forward(model, lay_out(model), "evaluate", {}, Target::cpu);
  expect_sound({.plans = {forward}});
  for (const Buffer& buffer : forward.buffers) EXPECT_NE(buffer.category, Category::kept);
  EXPECT_LT(forward.arena_bytes[MemoryKind::device],
            plans_of(model, "full").plans[0].arena_bytes[MemoryKind::device]);
}

TEST(StepPlan, CarriesReturnedAreSoundWhereverWeightsLive) {
  models::DecoderConfig config = tiny_llama();
  models::Model model = models::decoder(config, {.head = models::Head::hidden_states});
  for (MemoryKind home : {MemoryKind::device, MemoryKind::pinned_host}) {
    Plan plan = trainer::plan_forward(model, lay_out(model, {.homes = {.parameters = home}}),
                                      "states", {}, Target::cpu, Carries::returned);
    expect_sound({.plans = {plan}});
    std::map<std::string, int64_t> results;
    for (const Buffer& buffer : plan.buffers)
      if (buffer.owner == Owner::caller) results[buffer.name] = buffer.bytes;
    int64_t tokens = config.batch * config.length, carry = tokens * config.width * 4;
    for (int layer = 0; layer <= config.layers; ++layer)
      EXPECT_EQ(results[host_name(carry_name("decoder", layer))], carry);
    EXPECT_EQ(results[host_name("output.0")], carry);
    EXPECT_EQ(results[host_name("output.1")], tokens * config.vocabulary * 4);
  }
}

// What lives on from the forward to the backward pass is what the ledger calls kept.
TEST(StepPlan, KeptIsWhatLivesOnIntoTheBackwardPass) {
  for (const PolicyInfo& policy : policies())
    for (const models::Model& model : {models::decoder(tiny_llama()), toy()}) {
      Plan plan = plans_of(model, policy.name).plans[0];
      std::vector<char> read_backward(plan.buffers.size());
      for (const Instruction& instruction : plan.instructions)
        if (instruction.scope.phase == Phase::backward)
          for (const Operand& in : instruction.in) read_backward[in.buffer] = true;
      for (size_t b = 0; b < plan.buffers.size(); ++b) {
        const Buffer& buffer = plan.buffers[b];
        if (buffer.owner != Owner::plan || buffer.category == Category::batch ||
            buffer.category == Category::gradients)
          continue;
        const Scope& born = plan.instructions[buffer.first].scope;
        bool lives_on = born.phase == Phase::forward && read_backward[b];
        EXPECT_EQ(buffer.category == Category::kept, lives_on)
            << policy.name << ": " << buffer.name << " of " << born.stage << "." << born.layer;
      }
    }
}

TEST(StepPlan, AFrozenTowerIsNotKeptAndHasNoBackwardPass) {
  models::Model model = toy();
  Plan plan = plans_of(model, "none").plans[0];
  std::set<std::string> forward, backward;
  for (const Instruction& instruction : plan.instructions)
    (instruction.scope.phase == Phase::backward ? backward : forward)
        .insert(instruction.scope.stage);
  for (const char* stage : {"patches", "tower", "projector", "embed", "decoder", "head"})
    EXPECT_TRUE(forward.count(stage)) << stage;
  EXPECT_EQ(backward, (std::set<std::string>{"projector", "embed", "decoder", "head"}));

  for (const Instruction& instruction : plan.instructions) {
    if (instruction.scope.stage != "tower" && instruction.scope.stage != "patches") continue;
    for (const Operand& out : instruction.out) {
      if (plan.buffers[out.buffer].category != Category::kept) continue;
      // Only what leaves the tower: the projector's weight gradient reads it.
      EXPECT_EQ(instruction.scope.layer, 2);
      EXPECT_EQ(instruction.name, "add");
    }
  }
}

// Full recomputation trades memory for work; the kept part must show it.
TEST(StepPlan, KeptBytesFollowThePolicy) {
  models::Model model = models::decoder(tiny_llama());
  auto kept_bytes = [&](const char* policy) {
    int64_t bytes = 0;
    trainer::StepPlans plans = plans_of(model, policy);
    for (const Buffer& buffer : plans.plans[0].buffers)
      if (buffer.category == Category::kept) bytes += buffer.bytes;
    return bytes;
  };
  const models::DecoderConfig config = tiny_llama();
  int64_t tokens = config.batch * config.length, float_bytes = 4;
  int64_t qkv = tokens * (config.query_heads + 2 * config.kv_heads) * config.head_dim * float_bytes;
  EXPECT_EQ(kept_bytes("save_qkv_proj") - kept_bytes("full"), config.layers * qkv);
  EXPECT_GT(kept_bytes("none"), kept_bytes("save_qkv_proj"));
}

// --- the checks themselves can fail

// With moves: the batch comes from the host, results go there.
TEST(PlanChecks, FindMissingWaits) {
  Plan plan = plans_of(models::decoder(tiny_llama()), "full").plans[0];
  int waits = 0;
  for (Instruction& instruction : plan.instructions) {
    waits += static_cast<int>(instruction.waits.size());
    instruction.waits.clear();
  }
  EXPECT_GT(waits, 3);
  EXPECT_NE(first_of(order_faults(plan)), "");
}

TEST(PlanChecks, FindSharedMemory) {
  Plan plan = plans_of(models::decoder(tiny_llama()), "none").plans[0];
  // The longest-lived temporary, put where others are.
  auto longest = std::max_element(
      plan.buffers.begin(), plan.buffers.end(), [](const Buffer& a, const Buffer& b) {
        auto life = [](const Buffer& x) { return x.owner == Owner::plan ? x.last - x.first : -1; };
        return life(a) < life(b);
      });
  longest->offset =
      longest->offset > 0 ? 0 : longest->bytes / 2 / kArenaAlignment * kArenaAlignment;
  EXPECT_NE(first_of(data_flow_faults(plan, Gradients::none_yet)), "");
}

TEST(PlanChecks, FindAMissingWrite) {
  Plan plan = plans_of(models::decoder(tiny_llama()), "none").plans[0];
  plan.instructions.erase(plan.instructions.begin() +
                          static_cast<int>(plan.instructions.size() / 3));
  EXPECT_NE(first_of(data_flow_faults(plan, Gradients::none_yet)), "");
}

// --- plans with moves on both copy lanes

TEST(PlanBuilder, RandomPlansAreSound) {
  int64_t waits = 0, reused = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    RandomPlan random = random_plan(seed);
    expect_sound({.plans = {random.plan}});
    for (const Instruction& instruction : random.plan.instructions)
      waits += static_cast<int64_t>(instruction.waits.size());
    for (const Buffer& a : random.plan.buffers)
      for (const Buffer& b : random.plan.buffers)
        reused += &a < &b && a.owner == Owner::plan && b.owner == Owner::plan && a.kind == b.kind &&
                  a.offset == b.offset;
  }
  // The plans do what they are for: lanes wait for each other, places change hands.
  EXPECT_GT(waits, 1000);
  EXPECT_GT(reused, 1000);
}

TEST(PlanBuilder, EveryWaitOfARandomPlanMatters) {
  int needed = 0, all = 0;
  for (uint32_t seed = 0; seed < 10; ++seed) {
    Plan plan = random_plan(seed).plan;
    for (size_t i = 0; i < plan.instructions.size(); ++i)
      for (size_t w = 0; w < plan.instructions[i].waits.size(); ++w, ++all) {
        Plan without = plan;
        auto& waits = without.instructions[i].waits;
        waits.erase(waits.begin() + static_cast<int>(w));
        needed += !order_faults(without).empty();
      }
  }
  EXPECT_GT(all, 100);
  EXPECT_EQ(needed, all);
}

// An output may lie in the place of an input that dies, but not when the op reads it twice and
// allows only one of the two.
TEST(PlanBuilder, TakesNoPlaceThatIsStillRead) {
  models::Op op{
      .name = "careful",
      .infer = [](const std::any&,
                  std::span<const models::Type> in) { return models::Types{in[0]}; },
      .reuse = [](const std::any&, int) { return std::vector<models::Reuse>{{.out = 0, .in = 0}}; },
      .cpu = {[](const models::KernelCall&) {}}};
  enum class Inputs { different, the_same };
  auto plan_of = [&](Inputs inputs) {
    models::Program program;
    models::ValueId a = program.add_input({.name = "a", .type = {{1000}}}),
                    b = inputs == Inputs::the_same
                            ? a
                            : program.add_input({.name = "b", .type = {{1000}}});
    program.add_node(op, {}, {a, b}, "c");
    PlanBuilder builder("plan", Target::cpu);
    PlanBuilder::Bindings bindings;
    for (const models::Value& value : {program[a], program[b]}) {
      Operand host{builder.argument(value.name, value.type.bytes(), MemoryKind::pinned_host,
                                    Category::batch),
                   0, value.type};
      Operand device =
          builder.temporary(value.name, value.type, MemoryKind::device, Category::temporaries);
      builder.move(Lane::host_to_device, host, device, {});
      bindings.push_back(device);
      if (inputs == Inputs::the_same) break;
    }
    builder.run(program, bindings, {});
    return builder.finish();
  };
  Plan shares = plan_of(Inputs::different), apart = plan_of(Inputs::the_same);
  expect_sound({.plans = {shares, apart}});
  // Two places either way: of two inputs, one is the output's as well.
  EXPECT_EQ(shares.arena_bytes[MemoryKind::device], 2 * align_up(4000));
  EXPECT_EQ(apart.arena_bytes[MemoryKind::device], 2 * align_up(4000));
}

// Nor when it is another part of a buffer: its bytes would come to lie over those of another input
// that is still read.
TEST(PlanBuilder, TakesNoPlaceOfAnotherPart) {
  const models::Type whole{{4096}}, part{{3000}};
  PlanBuilder builder("plan", Target::cpu);
  auto fetched = [&](const char* name, const models::Type& type) {
    const Operand device = builder.temporary(name, type, MemoryKind::device, Category::temporaries);
    builder.move(builder.argument(name + std::string(".host"), type, MemoryKind::pinned_host,
                                  Category::batch),
                 device, {});
    return device;
  };
  const Operand a = fetched("a", whole), c = fetched("c", part);
  const Operand sum = builder.temporary("sum", whole, MemoryKind::device, Category::temporaries);
  const Operand end{sum.buffer, whole.bytes() - part.bytes(), part};
  PlanBuilder::Bindings operands{{a.buffer, 0, part}, c, end};
  builder.run(models::addition(part), operands, {});
  for (const auto& [from, name] : {std::pair{end, "sum.host"}, {c, "c.remat"}})
    builder.move(from, builder.argument(name, part, MemoryKind::pinned_host, Category::batch), {});
  const Plan plan = builder.finish();
  EXPECT_NE(plan.buffers[a.buffer].offset, plan.buffers[sum.buffer].offset);
  expect_sound({.plans = {plan}});
}

// What a run leaves to the next takes the place of nothing that dies, and nothing takes its place
// when it was read: its bytes are its own across the end of the run.
TEST(PlanBuilder, WhatOutlivesARunSharesNoPlace) {
  const models::Type type{{1000}};
  const models::Program addition = models::addition(type);
  PlanBuilder builder("plan", Target::cpu);
  const Operand carried{
      builder.persistent("carried", type.bytes(), MemoryKind::device, Category::gradients), 0,
      type};
  auto fetched = [&](const char* name) {
    const Operand device = builder.temporary(name, type, MemoryKind::device, Category::temporaries);
    builder.move(builder.argument(std::string(name) + ".host", type, MemoryKind::pinned_host,
                                  Category::batch),
                 device, {});
    return device;
  };
  auto sum = [&](const Operand& a, const Operand& b, const Operand& to) {
    PlanBuilder::Bindings bindings{a, b, to};
    builder.run(addition, bindings, {});
    return bindings.back();
  };
  const Operand first = sum(carried, fetched("x"), {});
  sum(first, fetched("y"), carried);
  const Operand last = sum(fetched("z"), fetched("w"), {});
  builder.move(last, builder.argument("sum", type, MemoryKind::pinned_host, Category::batch), {});
  expect_sound({.plans = {builder.finish()}});
}

TEST(PlanBuilder, RefusesWhatDoesNotFit) {
  PlanBuilder builder("plan", Target::cpu);
  builder.argument("x", 64, MemoryKind::device, Category::batch);
  EXPECT_THROW(builder.argument("x", 65, MemoryKind::device, Category::batch), InternalError);
  Operand a = builder.temporary("a", {{4}}, MemoryKind::device, Category::temporaries);
  Operand b = builder.temporary("b", {{5}}, MemoryKind::device, Category::temporaries);
  EXPECT_THROW(builder.move(Lane::host_to_device, a, b, {}), InternalError);
  models::Program add = models::addition({{4}});
  PlanBuilder::Bindings nothing;
  EXPECT_THROW(builder.run(add, nothing, {}), InternalError);
  PlanBuilder::Bindings misfit{a, a, b};
  EXPECT_THROW(builder.run(add, misfit, {}), InternalError);
}

TEST(PlanBuilder, WhatNothingUsesTakesNoMemory) {
  PlanBuilder builder("plan", Target::cpu);
  builder.temporary("unused", 1000, MemoryKind::device, Category::temporaries);
  Plan plan = builder.finish();
  EXPECT_EQ(analyze(plan, MemoryKind::device).peak_bytes, 0);
  EXPECT_EQ(analyze(plan, MemoryKind::device).live_bytes, 0);
}

TEST(PlanText, EveryInstructionIsALine) {
  Plan plan = random_plan(3).plan;
  std::string printed = text(plan);
  EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'),
            static_cast<int64_t>(plan.instructions.size()) + 1);
  for (const char* part : {"plan random", "host_to_device", "device_to_host", "move(", "after "})
    EXPECT_THAT(printed, HasSubstr(part));
}

// --- sizes that matter

// What fragmentation and alignment add to the bytes that are live, for whole training steps.
TEST(StepPlan, ArenasStayNearTheBound) {
  struct Shape {
    const char* name;
    models::DecoderConfig config;
    Target target;
    double most_over;  // percent of the temporaries
  };
  models::DecoderConfig small{.batch = 4,
                              .length = 512,
                              .vocabulary = 8192,
                              .width = 512,
                              .layers = 8,
                              .query_heads = 8,
                              .kv_heads = 2,
                              .head_dim = 64,
                              .mlp_width = 1536,
                              .dtype = models::cpu_dtypes().back()};
  for (const Shape& shape :
       {Shape{"8 layers of 512", small, Target::cpu, models::multiplies_bfloat16() ? 6. : 12.},
        Shape{"Llama 2 13B", llama2_13b(), Target::cuda, 1}})
    for (const PolicyInfo& policy : policies())
      for (int64_t micro_batches : {1, 2}) {
        models::Model model = models::decoder(shape.config);
        for (const Plan& plan : plans_of(model, policy.name, micro_batches, shape.target).plans) {
          MemoryAnalysis device = analyze(plan, MemoryKind::device);
          double over = 100.0 * static_cast<double>(device.peak_bytes - device.live_bytes) /
                        static_cast<double>(device.live_bytes - device.argument_bytes);
          std::printf("%-15s %-13s %-27s alive %s, taken %s, temporaries %.2f %% above\n",
                      shape.name, policy.name.c_str(), plan.name.c_str(),
                      bytes_text(device.live_bytes).c_str(), bytes_text(device.peak_bytes).c_str(),
                      over);
          EXPECT_LE(over, shape.most_over) << shape.name << " " << policy.name << " " << plan.name;
        }
      }
}

}  // namespace
}  // namespace longshore::offload
