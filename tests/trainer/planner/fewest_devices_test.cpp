#include "longshore/trainer/planner/advice/fewest_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "longshore/trainer/config/device_mesh.h"
#include "longshore/trainer/planner/advice/plan_question.h"
#include "tests/trainer/small_model_on.h"

namespace longshore::trainer {
namespace {

int64_t fewest(const Config& config, int64_t enough) {
  const std::optional<RunSpec> found = on_fewest_devices(
      RunSpec::on_profile(config),
      [&](const RunSpec& one) { return device_mesh(one.config()).devices() >= enough; });
  return found ? device_mesh(found->config()).devices() : 0;
}

// Any number within a node, then whole nodes.
TEST(FewestDevices, AreAsManyAsAreEnough) {
  const Config h100 = small_model_on("h100");
  for (auto [enough, devices] : {std::pair<int64_t, int64_t>{1, 1},
                                 {2, 2},
                                 {3, 3},
                                 {7, 7},
                                 {8, 8},
                                 {9, 16},
                                 {40, 40},
                                 {4096, 4096},
                                 {4097, 0}})
    EXPECT_EQ(fewest(h100, enough), devices) << enough;
  // Replicas stay.
  EXPECT_EQ(fewest(small_model_on("h100", {"ici_data_parallelism=2"}), 3), 4);
  // Cards of which no profile says how nodes reach each other.
  EXPECT_EQ(fewest(small_model_on("rtx4090"), 8), 8);
  EXPECT_EQ(fewest(small_model_on("rtx4090"), 9), 0);
}

TEST(FewestDevices, SayWhatTheProfileLacks) {
  const PlanAnswer none =
      answer({.fewest_devices = true},
             RunSpec::on_profile(small_model_on("rtx4090", {"device_memory_limit=0.01"})));
  EXPECT_FALSE(none.is_found);
  EXPECT_THAT(none.text, testing::HasSubstr("the profile has no dcn"));
}

}  // namespace
}  // namespace longshore::trainer
