#include "trainer/step/estimate.h"

#include <gtest/gtest.h>

#include "tests/trainer/small_model_on.h"
#include "trainer/config/named_hardware.h"
#include "trainer/planning/policy_plan.h"

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
        PolicyPlan plan = plan_policy(config, models::Target::cuda, named_hardware(config));
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
  TrainingPlans plans = plan_training(config, models::Target::cuda);
  Hardware fast = *named_hardware(config), slow = fast;
  slow.link_to_device = slow.link_to_host = RateCurve(1e9);
  Estimate hidden = estimate(plans.step, fast), exposed = estimate(plans.step, slow);
  EXPECT_GT(exposed.phases.exposed_transfer, 10 * hidden.phases.exposed_transfer);
  EXPECT_NEAR(exposed.phases.backward, hidden.phases.backward, 1e-9);
  EXPECT_NE(exposed.bottleneck, Lane::compute);
  EXPECT_EQ(hidden.bottleneck, Lane::compute);
}

// Each lane that is slow shows as the wait for it.
TEST(Estimate, SaysWhatTheDeviceWaitsFor) {
  const Hardware fast = *named_hardware(small_model_on("h100"));
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
        plan_training(small_model_on("h100", settings), models::Target::cuda);
    const Phases before = estimate(plans.step, fast).phases,
                 after = estimate(plans.step, slow).phases;
    EXPECT_GT(after.*waits, before.*waits + 0.2 * after.total()) << settings[0];
  }
}

}  // namespace
}  // namespace longshore::trainer
