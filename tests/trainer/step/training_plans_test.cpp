// Options of a step as a config says them.
#include "longshore/trainer/step/training_plans.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/model_config.h"

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
      *step_options({config, kTarget}, make_model(config, kTarget)).optimizer;
  ASSERT_EQ(found.optimizers.size(), 1u);
  EXPECT_STREQ(found.optimizers[0].rule->name, "adamw");
  EXPECT_EQ(found.optimizers[0].numbers, (models::RuleNumbers{0.8, 0.7, 1e-4}));
  EXPECT_EQ(found.optimizers[0].weight_decay, 0.3);
  EXPECT_EQ(found.clipping_threshold, 0.25);
  EXPECT_EQ(found.seed, 7u);
}

TEST(StepOptions, GiveBOfAdaptersTheirLearningRate) {
  const Config config =
      load_config("quickstart.yml", std::vector<std::string>{"lora_rank=2", "loraplus_lr_ratio=16"},
                  default_configs_directory());
  constexpr models::Target kTarget = models::Target::cpu;
  const models::Model model = make_model(config, kTarget);
  const std::vector<models::Optimizer> found =
      step_options({config, kTarget}, model).optimizer->optimizers;
  ASSERT_EQ(found.size(), 2u);
  for (const offload::Bucket& bucket : offload::lay_out(model, layout_options(config)).buckets)
    for (const offload::Parameter& parameter : bucket.parameters)
      if (bucket.trainable == models::Trainable::yes) {
        EXPECT_EQ(found.at(static_cast<size_t>(bucket.optimizer)).learning_rate_ratio,
                  parameter.name.ends_with(".lora_B.weight") ? 16 : 1)
            << parameter.name;
      }
}

// Also where little is kept and states move, so that it matters when transfers start.
TEST(TrainingPlans, TakeNoMoreThanKeepingEverything) {
  int kept_all = 0;
  for (const char* layers : {"1", "3"})
    for (const char* hardware : {"hardware=h100", "hardware="})
      for (int homes = 0; homes < 8; ++homes) {
        std::vector<std::string> overrides{
            hardware,
            "dtype=bfloat16",
            "backend=cuda",
            "base_emb_dim=256",
            "base_mlp_dim=256",
            "base_num_query_heads=4",
            "base_num_kv_heads=2",
            "head_dim=16",
            "vocab_size=257",
            std::string("base_num_decoder_layers=") + layers,
            "max_target_length=16",
        };
        for (int bit = 0; const char* key : {"parameter", "gradient", "optimizer"})
          if (homes >> bit++ & 1)
            overrides.push_back(std::string(key) + "_memory_host_offload=true");
        auto plans_of = [&](const std::string& policy) {
          std::vector<std::string> all = overrides;
          all.push_back("remat_policy=" + policy);
          return plan_training({load_config("quickstart.yml", all, default_configs_directory()),
                                models::Target::cuda});
        };
        auto peak = [](const TrainingPlans& plans) {
          return analyze(plans)[offload::MemoryKind::device].peak_bytes;
        };
        const int64_t none = peak(plans_of("none"));
        for (const char* policy : {"full", "save_qkv_proj"}) {
          const TrainingPlans plans = plans_of(policy);
          EXPECT_LE(peak(plans), none)
              << policy << " " << layers << " " << hardware << " " << homes;
          kept_all += keeps_all_in_less(plans.options);
        }
      }
  EXPECT_GT(kept_all, 0) << "or the cases are none";
}

}  // namespace
}  // namespace longshore::trainer
