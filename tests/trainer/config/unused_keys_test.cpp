#include "longshore/trainer/config/unused_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "longshore/offload/policy/policy.h"
#include "longshore/trainer/config/load_config.h"
#include "tests/offload/toy_models.h"
#include "tests/trainer/config/config_fixture.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;

using Lines = std::vector<std::string>;

Lines unused(const std::string& config, const std::vector<std::string>& overrides = {}) {
  return unused_keys(load_config(config, overrides, default_configs_directory()));
}

TEST(UnusedKeys, AreToldWithWhatTurnsThemOff) {
  const Lines lines = unused("llama3_8b_lora.yml", {"lora_rank=0"});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].starts_with("configs/llama3_8b_lora.yml:")) << lines[0];
  EXPECT_TRUE(lines[0].ends_with("lora_alpha: 32 has no effect with lora_rank = 0 (command line)"))
      << lines[0];
  EXPECT_EQ(unused("llama3_8b.yml", {"checkpoint_period=5", "enable_checkpointing=false"}),
            Lines{"command line checkpoint_period: 5 has no effect with enable_checkpointing = "
                  "false (command line)"});
}

TEST(UnusedKeys, AreThoseOfEvaluationsThatThereAreNot) {
  EXPECT_EQ(unused("llama3_8b.yml", {"early_stopping_threshold=0.5"}),
            Lines{"command line early_stopping_threshold: 0.5 has no effect with "
                  "early_stopping_patience = 0 (default)"});
  for (const char* key : {"sample_temperature=0", "sample_top_k=3", "sample_top_p=0.5"})
    EXPECT_EQ(unused("llama3_8b.yml", {key}).size(), 1u) << key;
}

TEST(UnusedKeys, AreThoseOfOtherOptimizers) {
  EXPECT_EQ(unused("llama3_8b.yml", {"opt_type=lion", "adam_b1=0.8", "lion_b1=0.8"}),
            Lines{"command line adam_b1: 0.8 has no effect with opt_type = lion (command line)"});
  for (const std::string key : {"lion_b2=0.5", "lion_weight_decay=0", "sgd_momentum=0.5",
                                "sgd_nesterov=true", "sgd_weight_decay=1"}) {
    const Lines lines = unused("llama3_8b.yml", {key});
    ASSERT_EQ(lines.size(), 1u) << key;
    EXPECT_THAT(lines[0], HasSubstr("has no effect with opt_type = adamw"));
  }
}

TEST(UnusedKeys, IncludeTokensThatNobodyRemoves) {
  const std::vector<std::string> removed{"keep_tokens=false", "dataset_type=documents",
                                         "dataset_path=README.md", "tokenizer_path=README.md"};
  auto with_window = [&](const char* window) {
    std::vector<std::string> keys = removed;
    keys.push_back(std::string("shuffle_window=") + window);
    return unused("llama3_8b.yml", keys);
  };
  EXPECT_EQ(with_window("0"), Lines{"command line keep_tokens: false has no effect with "
                                    "shuffle_window = 0 (command line)"});
  EXPECT_EQ(with_window("5"), Lines());
}

TEST(UnusedKeys, IncludeTokensOfAnImageWhereEachPatchHasOne) {
  const Lines lines = unused("paligemma2_3b.yml", {"mm_tokens_per_image=64"});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("mm_tokens_per_image: 64 has no effect with model_type = "));
  EXPECT_EQ(unused("gemma3_4b_vision_lora.yml", {"mm_tokens_per_image=64"}), Lines());
}

TEST(UnusedKeys, IncludeTheProfilersKeysInRunsThatEndBeforeIt) {
  const std::vector<std::string> late{"steps=4", "profiler_steps=2"};
  auto skipping = [&](const char* steps) {
    std::vector<std::string> keys = late;
    keys.push_back(std::string("skip_first_n_steps_for_profiler=") + steps);
    return unused("llama3_8b.yml", keys);
  };
  EXPECT_EQ(skipping("3"), Lines());
  EXPECT_EQ(skipping("4").size(), 2u);
}

TEST(UnusedKeys, IncludeMemoryReportsAfterTheLastStep) {
  EXPECT_EQ(unused("llama3_8b.yml", {"steps=4", "memory_report_steps=[4,9]"}).size(), 1u);
  EXPECT_EQ(unused("llama3_8b.yml", {"steps=4", "memory_report_steps=[3,9]"}), Lines());
}

TEST(UnusedKeys, AreNoneWhereAllKeysAreRead) {
  EXPECT_EQ(unused("llama3_8b_lora.yml"), Lines());
  EXPECT_EQ(unused("llama3_8b.yml", {"profiler_steps=2", "skip_first_n_steps_for_profiler=3"}),
            Lines());
}

TEST(UnusedKeys, LeaveOutKeysSetToTheirDefaults) {
  EXPECT_EQ(unused("llama3_8b.yml", {"skip_first_n_steps_for_profiler=1", "profiler_steps=0"}),
            Lines());
}

// With a text as its data a key counts that it does not with random tokens.
TEST(UnusedKeys, GiveOneReasonEach) {
  EXPECT_EQ(unused("quickstart.yml"), Lines());
  for (const std::string& line : unused("quickstart.yml", {"dataset_type=synthetic"}))
    EXPECT_THAT(line, HasSubstr("with dataset_type = synthetic"));
}

TEST(UnusedKeys, OffloadLayersIsReadByPoliciesThatOffload) {
  const models::Model model = models::decoder(offload::tiny_llama());
  for (const offload::PolicyInfo& info : offload::policies()) {
    if (info.name == "custom") continue;
    const bool offloads =
        offload::make_policy(info.name, {}, model.stages[1].programs[0]).offloads();
    EXPECT_EQ(unused("llama3_8b.yml", {"remat_policy=" + info.name, "offload_layers=3"}).empty(),
              offloads)
        << info.name;
  }
}

TEST(UnusedKeys, PrefetchIsOfWhatMoves) {
  const std::string depth = "prefetch_layers=2", one = "ici_fsdp_parallelism=1";
  EXPECT_EQ(unused("llama3_8b.yml", {depth, one}).size(), 1u);
  for (const char* moving :
       {"parameter_memory_host_offload=true", "gradient_memory_host_offload=true",
        "optimizer_memory_host_offload=true", "ici_data_parallelism=2",
        "remat_policy=qkv_proj_offloaded"})
    EXPECT_TRUE(unused("llama3_8b.yml", {depth, one, moving}).empty()) << moving;
}

TEST(UnusedKeys, OthersTakeThePlaceOfThePolicy) {
  const std::vector<std::string> none{"remat_policy=none"};
  const Config config = load_config("llama3_8b.yml", none, default_configs_directory());
  EXPECT_EQ(unused_keys(config, {"full"}),
            Lines{"command line remat_policy: none has no effect with --policies"});
  EXPECT_TRUE(unused_keys(config, {"full", "none"}).empty());
  EXPECT_TRUE(
      unused_keys(load_config("llama3_8b.yml", {}, default_configs_directory()), {"none"}).empty());
}

TEST(UnusedKeys, ShippedConfigsHaveNone) {
  for (const fs::directory_entry& entry : fs::directory_iterator(default_configs_directory()))
    if (entry.is_regular_file()) {
      const std::string name = entry.path().filename();
      EXPECT_EQ(unused(name, overrides_of_recipe(name)), Lines()) << name;
    }
}

}  // namespace
}  // namespace longshore::trainer
