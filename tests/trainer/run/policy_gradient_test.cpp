// Runs that learn from rollouts: what these say, the same numbers whatever moves and however often
// they stop, in the memory that is planned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "longshore/data/rows/batch.h"
#include "longshore/data/rows/token_file.h"
#include "tests/data/temporary_folder.h"
#include "tests/trainer/checkpoint/tiny_run.h"
#include "tests/trainer/run/run_records.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;
using nlohmann::json;

constexpr int32_t kVocabulary = 61;

class PolicyGradientRuns : public testing::Test {
 protected:
  enum class Old { none, near };

  // Good answers count up from the prompt, bad ones down; their advantages are 1 and `bad`.
  fs::path rollouts(const std::string& name, Old old, float bad = -1) {
    fs::path path = folder / name;
    std::vector<data::TokenColumn> columns{{data::kAdvantages}, {data::kOldLogProbs}};
    if (old == Old::near) columns.push_back({data::kReferenceLogProbs});
    data::TokenFileWriter writer(path, kVocabulary, 0, data::LossMask::present,
                                 data::Pairing::absent, columns);
    for (int32_t i = 0; i < 60; ++i) {
      const bool is_good = i % 2 == 0;
      std::vector<int32_t> tokens{i * 7 % kVocabulary, i * 11 % kVocabulary};
      std::vector<uint8_t> carries_loss(2, 0);
      std::vector<float> beside(2 * columns.size(), 0);
      for (int32_t k = 1; k <= 2 + i % 4; ++k) {
        tokens.push_back((tokens[1] + k * (is_good ? 1 : kVocabulary - 1)) % kVocabulary);
        carries_loss.push_back(1);
        beside.push_back(is_good ? 1 : bad);
        beside.push_back(old == Old::none ? NAN : -4.1f + 0.1f * static_cast<float>((i + k) % 5));
        if (old == Old::near) beside.push_back(-4.2f);
      }
      writer.append(tokens, carries_loss);
      writer.append_beside(std::as_bytes(std::span(beside)));
    }
    writer.finish();
    return path;
  }

  std::string command(const fs::path& data, const std::string& settings) {
    return replaced(tiny_train(folder / "", "learning_rate=0.003 " + settings),
                    "dataset_type=synthetic ",
                    "dataset_type=documents dataset_path=" + data.string() + " ");
  }

  void run(const fs::path& data, const std::string& settings) {
    const ProgramResult result = run_program(command(data, settings));
    ASSERT_EQ(result.exit_code, 0) << result.output;
  }

  std::vector<json> steps(const std::string& name) {
    static constexpr const char* kKeys[] = {"step",         "loss",
                                            "grad_norm",    "total_weights",
                                            "policy_ratio", "policy_clip_fraction",
                                            "policy_kl",    "validation_loss"};
    return records_of(folder / name, kKeys);
  }

  data::TemporaryFolder folder;
};

// With advantages of 1, ratios of 1 and the mean over tokens the gradient is that of their
// cross-entropy.
TEST_F(PolicyGradientRuns, LearnAsTextWhatIsGood) {
  const fs::path drawn = rollouts("drawn.tokens", Old::none, 1);
  data::TokenFileWriter writer(folder / "text.tokens", kVocabulary, 0, data::LossMask::present);
  const data::TokenFile file(drawn);
  for (int64_t i = 0; i < file.document_count(); ++i) {
    const data::TokenFile::Range range = file.document(i);
    std::vector<int32_t> tokens(static_cast<size_t>(range.count));
    std::vector<uint8_t> carries_loss(tokens.size());
    file.read(range.first, tokens);
    file.read_loss_mask(range.first, carries_loss);
    writer.append(tokens, carries_loss);
  }
  writer.finish();
  const std::string base = "steps=5 enable_checkpointing=false gradient_accumulation_steps=2 ";
  run(drawn, base + "objective=policy_gradient policy_loss=dapo run_name=drawn");
  run(folder / "text.tokens", base + "run_name=text");
  const std::vector<json> by_policy = steps("drawn"), by_text = steps("text");
  ASSERT_EQ(by_policy.size(), 5U);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(by_policy[i]["total_weights"], by_text[i]["total_weights"]);
    EXPECT_EQ(by_policy[i]["loss"], -1);
    EXPECT_EQ(by_policy[i]["policy_ratio"], 1);
    EXPECT_NEAR(by_policy[i]["grad_norm"].get<double>(), by_text[i]["grad_norm"].get<double>(),
                1e-5 * by_text[i]["grad_norm"].get<double>());
  }
}

TEST_F(PolicyGradientRuns, AreTheSameToTheBitWhateverMoves) {
  const fs::path drawn = rollouts("drawn.tokens", Old::near);
  for (const char* loss : {"policy_loss=grpo policy_kl_weight=0.04", "policy_loss=dapo lora_rank=2",
                           "policy_loss=gspo policy_clip_low=0.05 policy_clip_high=0.05 "
                           "gradient_accumulation_steps=2"}) {
    SCOPED_TRACE(loss);
    const std::string base = std::string(loss) +
                             " objective=policy_gradient steps=4 eval_fraction=0.2 "
                             "eval_interval=2 enable_checkpointing=false ";
    for (const char* name : {"kept", "moved"}) fs::remove_all(folder / name);
    run(drawn, base + "run_name=kept remat_policy=none");
    const std::vector<json> expected = steps("kept");
    ASSERT_EQ(expected.size(), 6U);
    EXPECT_LT(expected[5]["validation_loss"], expected[2]["validation_loss"]);
    EXPECT_GT(expected[4]["policy_clip_fraction"], 0);
    EXPECT_GT(expected[4]["policy_kl"], 0);
    run(drawn, base +
                   "run_name=moved remat_policy=qkv_proj_offloaded "
                   "parameter_memory_host_offload=true optimizer_memory_host_offload=true "
                   "gradient_memory_host_offload=true");
    EXPECT_EQ(steps("moved"), expected);
  }
}

TEST_F(PolicyGradientRuns, GoOnAsIfTheyHadNeverStoppedInTheMemoryThatPlanSays) {
  const fs::path drawn = rollouts("drawn.tokens", Old::near);
  const std::string base = "objective=policy_gradient policy_kl_weight=0.1 ";
  run(drawn, base + "run_name=whole steps=6");
  run(drawn, base + "run_name=halves steps=3");
  run(drawn, base + "run_name=halves steps=6");
  EXPECT_EQ(steps("halves"), steps("whole"));
  expect_planned_memory(command(drawn, base + "run_name=whole steps=6"), folder / "whole",
                        folder / "p");
}

TEST_F(PolicyGradientRuns, AreMeansHoweverAStepIsDivided) {
  const fs::path drawn = rollouts("drawn.tokens", Old::near);
  for (const char* loss : {"policy_loss=grpo", "policy_loss=dapo", "policy_loss=gspo"}) {
    SCOPED_TRACE(loss);
    for (const char* name : {"one", "four"}) fs::remove_all(folder / name);
    const std::string base =
        std::string(loss) + " objective=policy_gradient steps=3 enable_checkpointing=false ";
    run(drawn, base + "run_name=one gradient_accumulation_steps=2");
    const ProgramResult divided =
        run_program(replaced(command(drawn, base + "run_name=four gradient_accumulation_steps=4"),
                             "per_device_batch_size=2", "per_device_batch_size=1"));
    ASSERT_EQ(divided.exit_code, 0) << divided.output;
    const std::vector<json> one = steps("one"), four = steps("four");
    ASSERT_EQ(one.size(), four.size());
    for (size_t i = 0; i < one.size(); ++i)
      for (const auto& [key, value] : one[i].items())
        EXPECT_NEAR(value.get<double>(), four[i][key].get<double>(), 1e-5) << key;
  }
}

TEST_F(PolicyGradientRuns, RefuseWhatDoesNotSuitThem) {
  const fs::path without = rollouts("without.tokens", Old::none);
  auto refusal = [&](const std::string& settings) {
    const ProgramResult result =
        run_program(command(without, settings + " run_name=refused steps=1"));
    EXPECT_NE(result.exit_code, 0);
    return result.output;
  };
  EXPECT_THAT(refusal("objective=sft"),
              HasSubstr("found rollouts, expected documents; nearest: objective: policy_gradient"));
  EXPECT_THAT(refusal("objective=dpo"),
              HasSubstr("found rollouts, expected pairs of answers; nearest: objective: policy"));
  EXPECT_THAT(refusal("objective=policy_gradient policy_kl_weight=0.1"),
              HasSubstr("without.tokens: found no reference_log_probs, expected them for "
                        "policy_kl_weight = 0.1"));
  EXPECT_THAT(refusal("objective=policy_gradient train_on=all"),
              HasSubstr("expected assistant or last_assistant with objective"));
}

}  // namespace
}  // namespace longshore::trainer
