#include "longshore/trainer/step/estimate.h"

#include <gtest/gtest.h>

#include "longshore/models/families/decoder.h"
#include "longshore/trainer/config/run_spec.h"
#include "longshore/trainer/planner/advice/choose_policy.h"
#include "longshore/trainer/planner/policy_plan.h"
#include "tests/offload/adamw_states.h"
#include "tests/offload/toy_models.h"
#include "tests/trainer/small_model_on.h"

namespace longshore::trainer {
namespace {

using offload::Hardware;
using offload::Lane;
using offload::RateCurve;

TEST(Estimate, PhasesAddUpToTheStep) {
  for (const char* policy : {"none", "full", "minimal_offloaded"})
    for (const char* homes : {"false", "true"})
      for (const char* compute : {"device", "host"}) {
        if (compute == std::string("host") && homes == std::string("false")) continue;
        const Config config = small_model_on(
            "h100", {std::string("remat_policy=") + policy,
                     std::string("optimizer_memory_host_offload=") + homes,
                     std::string("optimizer_compute=") + compute, "per_device_batch_size=4"});
        PolicyPlan plan = plan_chosen_policy({config, models::Target::cuda});
        const Estimate& e = *plan.estimate;
        EXPECT_NEAR(e.phases.total(), e.step_seconds, 1e-9 * e.step_seconds);
        EXPECT_EQ(e.phases.recompute > 0, policy != std::string("none"));
        EXPECT_GT(e.phases.backward, e.phases.forward);
        EXPECT_GT(plan.mfu, 0.05);
        EXPECT_LT(plan.mfu, 0.75);
        EXPECT_LE(e.busy_seconds[e.bottleneck], e.step_seconds * (1 + 1e-9));
      }
}

TEST(Estimate, TransfersAreExposedWhereTheLinkIsSlow) {
  Config config =
      small_model_on("h100", {"remat_policy=minimal_offloaded", "per_device_batch_size=4"});
  TrainingPlans plans = plan_training({config, models::Target::cuda});
  Hardware fast = *RunSpec::on_profile(config).hardware(), slow = fast;
  slow.link_to_device = slow.link_to_host = RateCurve(1e9);
  Estimate hidden = estimate(plans.step, fast), exposed = estimate(plans.step, slow);
  EXPECT_GT(exposed.phases.exposed_transfer, 10 * hidden.phases.exposed_transfer);
  EXPECT_NEAR(exposed.phases.backward, hidden.phases.backward, 1e-9);
  EXPECT_NE(exposed.bottleneck, Lane::compute);
  EXPECT_EQ(hidden.bottleneck, Lane::compute);
}

// Each lane that is slow shows as the wait for it.
TEST(Estimate, SaysWhatTheDeviceWaitsFor) {
  const Hardware fast = *RunSpec::on_profile(small_model_on("h100")).hardware();
  Hardware link = fast, host = fast, network = fast;
  link.link_to_device = link.link_to_host = RateCurve(2e9);
  host.bytes_per_second["host.memory"] = RateCurve(2e9);
  network.ici = RateCurve(2e9);
  struct Case {
    const Hardware& slow;
    std::vector<std::string> settings;
    double Phases::*waits;
  };
  for (const auto& [slow, settings, waits] : std::initializer_list<Case>{
           {link, {"remat_policy=minimal_offloaded"}, &Phases::exposed_transfer},
           {host,
            {"parameter_memory_host_offload=true", "optimizer_memory_host_offload=true",
             "optimizer_compute=host", "gradient_clipping_threshold=0"},
            &Phases::exposed_host},
           // Each update ends with a copy of weights, which is not what takes the time.
           {host,
            {"optimizer_memory_host_offload=true", "optimizer_compute=host"},
            &Phases::exposed_host},
           {network, {"ici_fsdp_parallelism=8"}, &Phases::exposed_collective}}) {
    const TrainingPlans plans =
        plan_training({small_model_on("h100", settings), models::Target::cuda});
    const Phases before = estimate(plans.step, fast).phases,
                 after = estimate(plans.step, slow).phases;
    EXPECT_GT(after.*waits, before.*waits + 0.2 * after.total()) << settings[0];
  }
}

// The same step, with a plan of its own for each micro-batch.
StepPlans unrolled(const StepPlans& step) {
  StepPlans result{.plans = {}, .micro_batches = step.micro_batches};
  for (const auto& [plan, times] : step.runs())
    for (int64_t number = 0; number < times; ++number) {
      offload::Plan& own = result.plans.emplace_back(*plan);
      for (offload::Instruction& instruction : own.instructions)
        for (offload::Operand& in : instruction.in)
          in.offset += number * own.buffers[in.buffer].run_stride;
    }
  return result;
}

void expect_equal_estimates(const StepPlans& step, const Hardware& hardware) {
  const Estimate short_way = estimate(step, hardware),
                 long_way = estimate(unrolled(step), hardware);
  const double tolerance = 1e-10 * long_way.step_seconds;
  EXPECT_NEAR(short_way.step_seconds, long_way.step_seconds, tolerance);
  for (double Phases::*phase :
       {&Phases::forward, &Phases::recompute, &Phases::backward, &Phases::optimizer,
        &Phases::exposed_transfer, &Phases::exposed_host, &Phases::exposed_collective})
    EXPECT_NEAR(short_way.phases.*phase, long_way.phases.*phase, tolerance);
  for (Lane lane : offload::kLanes)
    EXPECT_NEAR(short_way.busy_seconds[lane], long_way.busy_seconds[lane], tolerance);
  const std::vector<offload::Event> events = offload::events_of(short_way.runs),
                                    all = offload::events_of(long_way.runs);
  ASSERT_EQ(events.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(events[i].name, all[i].name);
    ASSERT_NEAR(events[i].span.begin, all[i].span.begin, tolerance) << all[i].name;
    ASSERT_NEAR(events[i].span.end, all[i].span.end, tolerance) << all[i].name;
  }
}

TEST(Estimate, OfMicroBatchesThatAreAlikeIsThatOfAllSimulated) {
  for (const std::vector<std::string>& settings : std::initializer_list<std::vector<std::string>>{
           {"remat_policy=minimal_offloaded"},
           {"remat_policy=full", "parameter_memory_host_offload=true",
            "gradient_memory_host_offload=true", "optimizer_memory_host_offload=true",
            "optimizer_compute=host"},
           {"remat_policy=none", "ici_fsdp_parallelism=4"}})
    for (int micro_batches : {2, 3, 7}) {
      SCOPED_TRACE(settings[0] + " " + std::to_string(micro_batches));
      std::vector<std::string> all = settings;
      all.push_back("gradient_accumulation_steps=" + std::to_string(micro_batches));
      const Config config = small_model_on("rtx4090", all);
      expect_equal_estimates(plan_training({config, models::Target::cuda}).step,
                             *RunSpec::on_profile(config).hardware());
    }
}

// What a micro-batch finds in a processor's cache depends on those before it.
TEST(Estimate, OfMicroBatchesThatAreAlikeKnowsTheCache) {
  const models::Model model = models::decoder(offload::tiny_llama());
  for (int micro_batches : {2, 3, 4, 9}) {
    const StepPlans step = plan_step(
        model, offload::lay_out(model, {.optimizers = offload::adamw_states()}),
        {.policy = offload::keep_all(),
         .micro_batches = micro_batches,
         .optimizer = OptimizerOptions{.optimizers = {models::adamw({})}, .clipping_threshold = 1}},
        models::Target::cpu);
    for (int64_t cache_bytes : {1 << 12, 1 << 16, 100'000, 1 << 18, 1 << 20, 1 << 24}) {
      SCOPED_TRACE(std::to_string(micro_batches) + " " + std::to_string(cache_bytes));
      Hardware hardware = offload::uniform_hardware(
          models::Target::cpu,
          {.flops_per_second = 1e9, .device_bytes_per_second = 1e9, .link_bytes_per_second = 1e9});
      hardware.cache_bytes = cache_bytes;
      hardware.fetch_bytes_per_second = 1e8;
      expect_equal_estimates(step, hardware);
    }
  }
}

TEST(Estimate, OfManyMicroBatchesTakesNoLongerThanOfAFew) {
  auto plan = [](int64_t micro_batches) {
    const Config config =
        small_model_on("h100", {"gradient_accumulation_steps=" + std::to_string(micro_batches)});
    return plan_chosen_policy({config, models::Target::cuda});
  };
  const PolicyPlan three = plan(3), four = plan(4), many = plan(65536);
  const double one = four.estimate->step_seconds - three.estimate->step_seconds;
  EXPECT_NEAR(many.estimate->step_seconds, three.estimate->step_seconds + 65533 * one,
              1e-6 * many.estimate->step_seconds);
  EXPECT_EQ(many.plans.step.plans.size(), 3U);
  auto batch_bytes = [](const PolicyPlan& plan) {
    return plan.memory[offload::MemoryKind::pinned_host].peak_bytes;
  };
  EXPECT_EQ(batch_bytes(many),
            batch_bytes(three) + 65533 * (batch_bytes(four) - batch_bytes(three)));
}

}  // namespace
}  // namespace longshore::trainer
