// Runs that learn preferences: the same numbers whatever moves and however often they stop, in the
// memory that is planned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "longshore/data/rows/token_file.h"
#include "tests/data/safetensors_samples.h"
#include "tests/data/temporary_folder.h"
#include "tests/trainer/checkpoint/tiny_run.h"
#include "tests/trainer/run/run_records.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;
using nlohmann::json;

constexpr int32_t kVocabulary = 61;

class PreferenceRuns : public testing::Test {
 protected:
  // Better answers count up from the prompt, worse ones down.
  PreferenceRuns() {
    data::TokenFileWriter writer(pairs, kVocabulary, 0, data::LossMask::present,
                                 data::Pairing::present);
    for (int32_t i = 0; i < 40; ++i)
      for (const int32_t step : {1, kVocabulary - 1}) {
        std::vector<int32_t> tokens{i * 7 % kVocabulary, i * 11 % kVocabulary};
        std::vector<uint8_t> carries_loss(2, 0);
        for (int32_t k = 1; k <= 2 + (i + step) % 4; ++k) {
          tokens.push_back((tokens[1] + k * step) % kVocabulary);
          carries_loss.push_back(1);
        }
        writer.append(tokens, carries_loss);
      }
    writer.finish();
  }

  std::string command(const std::string& settings) {
    return replaced(tiny_train(folder / "", "learning_rate=0.003 " + settings),
                    "dataset_type=synthetic ",
                    "dataset_type=documents dataset_path=" + pairs.string() + " ");
  }

  // What it printed.
  std::string run(const std::string& settings) {
    const ProgramResult result = run_program(command(settings));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return result.output;
  }

  std::vector<json> steps(const std::string& name) {
    static constexpr const char* kKeys[] = {"step",
                                            "loss",
                                            "sft_loss",
                                            "grad_norm",
                                            "total_weights",
                                            "rewards_chosen",
                                            "rewards_margins",
                                            "rewards_accuracies",
                                            "logps_rejected",
                                            "validation_loss",
                                            "validation_rewards_margins"};
    return records_of(folder / name, kKeys);
  }

  data::TemporaryFolder folder;
  const fs::path pairs = folder / "pairs.tokens";
};

TEST_F(PreferenceRuns, LearnTheSameToTheBitWhateverMoves) {
  for (const char* objective :
       {"objective=dpo", "objective=orpo gradient_accumulation_steps=2",
        "objective=kto gradient_accumulation_steps=2", "objective=ipo lora_rank=2"}) {
    SCOPED_TRACE(objective);
    const std::string base = std::string(objective) +
                             " steps=4 eval_fraction=0.2 eval_interval=2 "
                             "enable_checkpointing=false ";
    fs::remove_all(folder / "kept");
    run(base + "run_name=kept remat_policy=none");
    const std::vector<json> expected = steps("kept");
    ASSERT_EQ(expected.size(), 6U);
    EXPECT_NE(expected[4]["rewards_margins"], 0);
    EXPECT_TRUE(expected[5].contains("validation_rewards_margins"));
    for (const char* way : {"remat_policy=full reference_memory_host_offload=true "
                            "parameter_memory_host_offload=true",
                            "remat_policy=qkv_proj_offloaded parameter_memory_host_offload=true "
                            "optimizer_memory_host_offload=true gradient_memory_host_offload=true",
                            "optimizer_memory_host_offload=true optimizer_compute=host"}) {
      fs::remove_all(folder / "moved");
      run(base + "run_name=moved " + way);
      EXPECT_EQ(steps("moved"), expected) << way;
    }
  }
}

TEST_F(PreferenceRuns, GoOnAsIfTheyHadNeverStopped) {
  for (const char* objective :
       {"objective=dpo", "objective=kto gradient_clipping=previous_global_norm",
        "objective=dpo lora_rank=2 reference=adapter_start"}) {
    SCOPED_TRACE(objective);
    for (const char* name : {"whole", "halves"}) fs::remove_all(folder / name);
    run(std::string(objective) + " run_name=whole steps=6");
    run(std::string(objective) + " run_name=halves steps=3");
    run(std::string(objective) + " run_name=halves steps=6");
    EXPECT_EQ(steps("halves"), steps("whole"));
  }
}

// Computed before the first step it is what a frozen copy says, to the bit, whatever moves; and it
// is computed once for all runs.
TEST_F(PreferenceRuns, PrecomputeWhatAFrozenCopySays) {
  for (const char* objective : {"objective=dpo", "objective=kto gradient_accumulation_steps=2"}) {
    SCOPED_TRACE(objective);
    for (const char* name : {"frozen", "first", "second"}) fs::remove_all(folder / name);
    const std::string base = std::string(objective) +
                             " steps=4 eval_fraction=0.2 eval_interval=2 "
                             "enable_checkpointing=false ";
    run(base + "run_name=frozen");
    EXPECT_THAT(run(base + "run_name=first reference=precomputed remat_policy=full"),
                HasSubstr(" of them computed in "));
    EXPECT_EQ(steps("first"), steps("frozen"));
    EXPECT_THAT(run(base + "run_name=second reference=precomputed preference_beta=0.2 "
                           "parameter_memory_host_offload=true"),
                HasSubstr(", computed before, in "));
    EXPECT_EQ(steps("second")[0]["logps_rejected"], steps("frozen")[0]["logps_rejected"]);
    EXPECT_NE(steps("second")[3], steps("frozen")[3]);
  }
}

// The run's own folder has what it needs.
TEST_F(PreferenceRuns, GoOnWithAPrecomputedReference) {
  const std::string base =
      "objective=dpo lora_rank=2 reference=precomputed eval_interval=3 "
      "keep_best=validation_rewards_margins ";
  const std::string held_out = "eval_fraction=0.2 eval_steps=1 ";
  run(base + held_out + "run_name=whole steps=6");
  run(base + held_out + "run_name=halves steps=3");
  fs::remove_all(folder / "tokens");
  const ProgramResult more =
      run_program(command(base + "eval_fraction=0.2 run_name=halves steps=6"));
  EXPECT_THAT(more.output, HasSubstr("found answers of which the precomputed reference says"));
  run(base + held_out + "run_name=halves steps=6");
  EXPECT_EQ(steps("halves"), steps("whole"));
  auto best = [&](const char* name) {
    return json::parse(data::read_file(folder / name / kSummaryFile))["best"];
  };
  EXPECT_EQ(best("halves"), best("whole"));
  EXPECT_EQ(best("whole")["steps"], 6);  // margins grow
  EXPECT_EQ(best("whole")["value"], steps("whole").back()["validation_rewards_margins"]);

  const fs::path kept = folder / "halves" / kReferenceFile;
  std::string bytes = data::read_file(kept);
  bytes.back() ^= 1;
  std::ofstream(kept) << bytes;
  const std::string go_on = command(base + held_out + "run_name=halves steps=7");
  EXPECT_THAT(run_program(go_on).output, HasSubstr(kReferenceFile + std::string(": found other")));
  fs::copy_file(folder / "whole" / kReferenceFile, folder / "theirs");
  fs::remove(kept);
  EXPECT_THAT(run_program(go_on).output, HasSubstr(kReferenceFile + std::string(": is not there")));
  fs::create_symlink(folder / "theirs", kept);
  EXPECT_THAT(run_program(go_on).output, HasSubstr("found a symbolic link"));
  fs::remove(kept);
  run(base + held_out + "run_name=other steps=3 seed=7");
  fs::copy_file(folder / "other" / kReferenceFile, kept);
  EXPECT_THAT(run_program(go_on).output, HasSubstr("found log-probabilities by another reference"));
}

TEST_F(PreferenceRuns, TakeTheMemoryThatPlanSays) {
  for (const char* way : {"objective=dpo", "objective=dpo reference=precomputed",
                          "objective=kto reference_memory_host_offload=true",
                          "objective=dpo reference_weight_dtype=int8", "objective=dpo lora_rank=2",
                          "objective=dpo lora_rank=2 reference=adapter_start"}) {
    SCOPED_TRACE(way);
    fs::remove_all(folder / "run");
    const std::string text =
        command(std::string(way) + " run_name=run steps=2 gradient_accumulation_steps=2");
    ASSERT_EQ(run_program(text).exit_code, 0);
    EXPECT_THAT(expect_planned_memory(text, folder / "run", folder / "p"),
                HasSubstr("what a reference takes:"));
  }
}

// A step's pairs in other micro-batches.
TEST_F(PreferenceRuns, AreMeansOverPairsHoweverAStepIsDivided) {
  for (const char* objective : {"objective=dpo", "objective=orpo", "objective=kto"}) {
    SCOPED_TRACE(objective);
    for (const char* name : {"one", "four"}) fs::remove_all(folder / name);
    const std::string base = std::string(objective) + " steps=3 enable_checkpointing=false ";
    run(base + "run_name=one gradient_accumulation_steps=2");
    const ProgramResult divided =
        run_program(replaced(command(base + "run_name=four gradient_accumulation_steps=4"),
                             "per_device_batch_size=2", "per_device_batch_size=1"));
    ASSERT_EQ(divided.exit_code, 0) << divided.output;
    const std::vector<json> one = steps("one"), four = steps("four");
    ASSERT_EQ(one.size(), four.size());
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(one[i]["total_weights"], four[i]["total_weights"]);
      for (const char* key : {"loss", "rewards_margins", "rewards_accuracies"})
        EXPECT_NEAR(one[i][key].get<double>(), four[i][key].get<double>(), 1e-5) << key;
    }
  }
}

TEST_F(PreferenceRuns, RefuseWhatDoesNotSuitThem) {
  auto refusal = [&](const std::string& settings) {
    const ProgramResult result = run_program(command(settings + " run_name=refused steps=1"));
    EXPECT_NE(result.exit_code, 0);
    return result.output;
  };
  EXPECT_THAT(refusal("objective=sft"), HasSubstr("nearest: objective: dpo"));
  EXPECT_THAT(refusal("objective=dpo reference=adapter_off"),
              HasSubstr("reference: found adapter_off, expected frozen with lora_rank"));
  EXPECT_THAT(refusal("objective=dpo excess_length_strategy=split"),
              HasSubstr("expected truncate or skip with objective"));
  EXPECT_THAT(refusal("objective=dpo reference=precomputed shuffle_window=8"),
              HasSubstr("of which all rows are read before the first step"));
  EXPECT_THAT(refusal("objective=dpo load_full_state_path=" + (folder / "").string()),
              HasSubstr("load_parameters_path, whose weights the reference"));
  const fs::path singles = folder / "singles.tokens";
  data::TokenFileWriter writer(singles, kVocabulary, 0, data::LossMask::present,
                               data::Pairing::present);
  for (int32_t i = 0; i < 8; ++i) {
    writer.append(std::vector<int32_t>{i, 1, 2}, std::vector<uint8_t>{0, 1, 1});
    writer.append(std::vector<int32_t>{0}, std::vector<uint8_t>{0});
  }
  writer.finish();
  const ProgramResult without_pairs = run_program(replaced(
      command("objective=kto eval_interval=1 keep_best=validation_rewards_accuracies steps=1 "
              "run_name=refused"),
      "eval_dataset_path=", "eval_dataset_path=" + singles.string()));
  EXPECT_NE(without_pairs.exit_code, 0);
  EXPECT_THAT(without_pairs.output,
              HasSubstr("keep_best: found validation_rewards_accuracies, which this evaluation "
                        "does not have: its data has no pairs"));
}

}  // namespace
}  // namespace longshore::trainer
