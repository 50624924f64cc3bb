#include "longshore/trainer/planner/advice/largest_that_fits.h"

#include <gtest/gtest.h>

#include "longshore/base/error.h"
#include "longshore/trainer/config/run_spec.h"
#include "longshore/trainer/planner/advice/choose_policy.h"
#include "longshore/trainer/planner/policy_plan.h"
#include "tests/message_of.h"
#include "tests/trainer/small_model_on.h"

namespace longshore::trainer {
namespace {

// The largest that fits, and not one more.
TEST(LargestThatFits, IsTheLargest) {
  Config config = small_model_on(
      "rtx4090",
      {"remat_policy=full", "optimizer_memory_host_offload=true", "max_target_length=1024"});
  offload::Hardware hardware = *RunSpec::on_profile(config).hardware();
  auto fits = [&](int64_t batch) {
    Config one = config;
    one.per_device_batch_size = batch;
    return plan_chosen_policy({one, hardware.target, hardware}).room.fits();
  };
  const auto [most, is_most_allowed] =
      largest_that_fits({config, hardware.target, hardware}, "per_device_batch_size");
  EXPECT_GT(most, 1);
  EXPECT_FALSE(is_most_allowed);
  EXPECT_TRUE(fits(most));
  EXPECT_FALSE(fits(most + 1));
  hardware.device_bytes = 1 << 30;
  EXPECT_EQ(largest_that_fits({config, hardware.target, hardware}, "per_device_batch_size").value,
            0);
}

TEST(LargestThatFits, SaysWhereTheKeyEndsBeforeTheMemory) {
  const Config config = load_config("toy_a.yml", {}, default_configs_directory());
  offload::Hardware hardware = offload::nominal_hardware(models::Target::cuda);
  hardware.device_bytes = hardware.host_bytes = int64_t{1} << 50;
  const auto [most, is_most_allowed] =
      largest_that_fits({config, hardware.target, hardware}, "per_device_batch_size");
  EXPECT_GT(most, 1000);
  EXPECT_TRUE(is_most_allowed);
}

// Also where the bytes are not linear in the value, or there is no plan.
TEST(LargestThatFits, IsFoundWithFewQuestions) {
  constexpr int64_t kNone = -(int64_t{1} << 60);
  struct Case {
    const char* name;
    int64_t (*spare)(int64_t);
    int most_asked;
  };
  for (const Case& one : {Case{"linear", [](int64_t v) { return 3 * (6001 - v) + 1; }, 6},
                          Case{"steps", [](int64_t v) { return 6001 / 7 - v / 7; }, 20},
                          Case{"curve", [](int64_t v) { return 6001 * 6001 - v * v; }, 25},
                          Case{"none", [](int64_t v) { return v > 6001 ? kNone : 9; }, 30}}) {
    int asked = 0;
    const int64_t most = largest_between(1, 100000, [&](int64_t value) {
      ++asked;
      return one.spare(value);
    });
    EXPECT_GE(one.spare(most), 0) << one.name;
    EXPECT_LT(one.spare(most + 1), 0) << one.name;
    EXPECT_LE(asked, one.most_asked) << one.name;
  }
}

TEST(LargestThatFits, NamesTheNearestKey) {
  EXPECT_EQ(message_of<ConfigError>([] { require_key_of_largest("max_target_lenght"); }),
            "--largest: found 'max_target_lenght', expected per_device_batch_size or "
            "max_target_length; nearest: max_target_length");
  EXPECT_NO_THROW(require_key_of_largest("per_device_batch_size"));
}

}  // namespace
}  // namespace longshore::trainer
