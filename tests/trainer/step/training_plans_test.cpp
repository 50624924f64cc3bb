// Options of a step as a config says them.
#include "trainer/step/training_plans.h"

#include <gtest/gtest.h>

#include "trainer/config/load_config.h"
#include "trainer/config/model_config.h"

namespace longshore::trainer {
namespace {

TEST(StepOptions, HaveTheConfigsOptimizer) {
  const Config config =
      load_config("quickstart.yml",
                  std::vector<std::string>{"adam_b1=0.8", "adam_b2=0.7", "adam_eps=1e-4",
                                           "adam_weight_decay=0.3", "seed=7",
                                           "gradient_clipping_threshold=0.25"},
                  default_configs_directory());
  constexpr models::Target kTarget = models::Target::cpu;
  const OptimizerOptions found =
      *step_options(config, make_model(config, kTarget), kTarget).optimizer;
  EXPECT_EQ(found.adamw.b1, 0.8);
  EXPECT_EQ(found.adamw.b2, 0.7);
  EXPECT_EQ(found.adamw.epsilon, 1e-4);
  EXPECT_EQ(found.adamw.weight_decay, 0.3);
  EXPECT_EQ(found.clipping_threshold, 0.25);
  EXPECT_EQ(found.seed, 7u);
}

}  // namespace
}  // namespace longshore::trainer
