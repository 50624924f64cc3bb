// Runs that learn what a teacher says: nothing where they are the teacher, the same numbers
// whatever moves, in the memory that is planned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "longshore/data/rows/batch.h"
#include "longshore/data/rows/token_file.h"
#include "tests/data/safetensors_samples.h"
#include "tests/data/temporary_folder.h"
#include "tests/trainer/checkpoint/tiny_run.h"
#include "tests/trainer/run/run_records.h"

namespace longshore::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;
using nlohmann::json;

constexpr int32_t kVocabulary = 61;

class Distillation : public testing::Test {
 protected:
  Distillation() {
    data::TokenFileWriter writer(plain, kVocabulary, 0, data::LossMask::present);
    for (int32_t i = 0; i < 50; ++i) {
      // The seventh is longer than a row, and another has nothing to say anything of.
      const int32_t count = i == 7 ? 75 : i == 9 ? 1 : 3 + i % 9;
      std::vector<int32_t> tokens;
      std::vector<uint8_t> carries_loss;
      for (int32_t k = 0; k < count; ++k) {
        tokens.push_back((i * 7 + k * (1 + i % 3)) % kVocabulary);
        carries_loss.push_back(k > i % 2 + 1);
      }
      writer.append(tokens, carries_loss);
    }
    writer.finish();
    const ProgramResult trained =
        run_program(tiny_train(folder / "", "steps=8 learning_rate=0.02 run_name=teacher"));
    EXPECT_EQ(trained.exit_code, 0) << trained.output;
  }

  // Writes what the teacher says of the plain tokens.
  ProgramResult teach(const std::string& name, const std::string& settings,
                      const fs::path& tokens = {}) {
    return run_program(TOKENIZE_PROGRAM " --teacher " + teacher.string() + " --out " +
                       (folder / name).string() + " " + (tokens.empty() ? plain : tokens).string() +
                       " backend=cpu dtype=float32 max_target_length=32 " + settings);
  }

  std::string command(const std::string& tokens, const std::string& settings) {
    return replaced(tiny_train(folder / "", "objective=distill " + settings),
                    "dataset_type=synthetic ",
                    "dataset_type=documents excess_length_strategy=split dataset_path=" +
                        (folder / tokens).string() + " ");
  }

  void run(const std::string& tokens, const std::string& settings) {
    const ProgramResult result = run_program(command(tokens, settings));
    ASSERT_EQ(result.exit_code, 0) << result.output;
  }

  std::vector<json> steps(const std::string& name) {
    static constexpr const char* kKeys[] = {"step", "loss", "grad_norm", "total_weights",
                                            "validation_loss"};
    return records_of(folder / name, kKeys);
  }

  data::TemporaryFolder folder;
  const fs::path plain = folder / "plain.tokens", teacher = folder / "teacher/model";
};

TEST_F(Distillation, HasNothingToLearnOfItself) {
  ASSERT_EQ(teach("all.tokens", "--top-k 61").exit_code, 0);
  ASSERT_EQ(teach("some.tokens", "--top-k 9 per_device_batch_size=2").exit_code, 0);
  const data::TokenFile some(folder / "some.tokens");
  some.verify({});
  EXPECT_EQ(some.token_count(), data::TokenFile(plain).token_count());
  std::vector<int32_t> first(9);
  some.read_column(data::kTeacherTokens, 0, 9, std::span(first));
  EXPECT_THAT(first, testing::Each(-1));
  const std::string base = "load_parameters_path=" + teacher.string() +
                           " enable_checkpointing=false steps=2 learning_rate=0 ";
  for (const char* how : {"all.tokens distill_top_k=61", "all.tokens distill_top_k=20",
                          "some.tokens distill_top_k=9 distill_loss=reverse_kl",
                          "some.tokens distill_top_k=4 distill_temperature=2"}) {
    SCOPED_TRACE(how);
    fs::remove_all(folder / "itself");
    const std::string text = how;
    const size_t space = text.find(' ');
    run(text.substr(0, space), base + "run_name=itself" + text.substr(space));
    for (const json& step : steps("itself")) {
      EXPECT_NEAR(step["loss"].get<double>(), 0, 1e-6);
      EXPECT_NEAR(step["grad_norm"].get<double>(), 0, 1e-4);
    }
  }
}

// A smaller model learns from it; where the text counts alone, as from text.
TEST_F(Distillation, IsTheSameToTheBitWhateverMoves) {
  ASSERT_EQ(teach("taught.tokens", "--top-k 8").exit_code, 0);
  ASSERT_EQ(teach("streamed.tokens", "--top-k 8 parameter_memory_host_offload=true").exit_code, 0);
  EXPECT_TRUE(data::read_file(folder / "taught.tokens") ==
              data::read_file(folder / "streamed.tokens"));
  const std::string base =
      "steps=4 eval_fraction=0.2 eval_interval=2 "
      "distill_top_k=8 enable_checkpointing=false ";
  for (const char* loss :
       {"distill_weight=0.7 distill_temperature=1.5 learning_rate=0.003",
        "distill_loss=reverse_kl learning_rate=0.003",
        "distill_weight=0.5 gradient_accumulation_steps=2 lora_rank=2 learning_rate=0.01"}) {
    SCOPED_TRACE(loss);
    for (const char* name : {"kept", "moved"}) fs::remove_all(folder / name);
    run("taught.tokens", base + loss + std::string(" run_name=kept remat_policy=none"));
    const std::vector<json> expected = steps("kept");
    ASSERT_EQ(expected.size(), 6U);
    const bool is_adapter = std::string(loss).find("lora") != std::string::npos;  // in so few steps
    if (!is_adapter) {
      EXPECT_LT(expected[5]["validation_loss"], expected[2]["validation_loss"]);
    }
    run("taught.tokens", base + loss +
                             " run_name=moved remat_policy=qkv_proj_offloaded "
                             "parameter_memory_host_offload=true "
                             "optimizer_memory_host_offload=true "
                             "gradient_memory_host_offload=true");
    EXPECT_EQ(steps("moved"), expected);
  }
  run("taught.tokens", base + "distill_weight=1e-7 learning_rate=0.003 run_name=nearly");
  const ProgramResult plainly =
      run_program(replaced(command("taught.tokens", base + "learning_rate=0.003 run_name=text"),
                           "objective=distill", "objective=sft"));
  ASSERT_EQ(plainly.exit_code, 0) << plainly.output;
  const std::vector<json> nearly = steps("nearly"), of_text = steps("text");
  ASSERT_EQ(nearly.size(), of_text.size());
  for (size_t i = 0; i < nearly.size(); ++i)
    for (const auto& [key, value] : of_text[i].items())
      EXPECT_NEAR(nearly[i][key].get<double>(), value.get<double>(), 1e-4) << key;
}

TEST_F(Distillation, TakesTheMemoryThatPlanSays) {
  ASSERT_EQ(teach("taught.tokens", "--top-k 8").exit_code, 0);
  const std::string text = command("taught.tokens",
                                   "distill_top_k=6 distill_weight=0.5 run_name=run steps=2 "
                                   "gradient_accumulation_steps=2");
  const ProgramResult result = run_program(text);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  expect_planned_memory(text, folder / "run", folder / "p");
}

TEST_F(Distillation, SaysWhatDoesNotSuit) {
  EXPECT_THAT(teach("out.tokens", "--top-k 62").output,
              HasSubstr("--top-k: found 62, expected 1 to 61"));
  EXPECT_THAT(teach("plain.tokens", "--top-k 4").output, HasSubstr("plain.tokens"));
  EXPECT_THAT(teach("out.tokens", "steps=3").output, HasSubstr("steps"));
  const ProgramResult large = run_program(TOKENIZE_PROGRAM " --teacher " + teacher.string() +
                                          " --top-k 4 --out " + (folder / "out.tokens").string() +
                                          " " + plain.string() + " per_device_batch_size=65536");
  EXPECT_THAT(large.output,
              HasSubstr("per_device_batch_size: found 65536, expected at most 16777216 tokens"));
  std::string text = data::read_file(plain);
  text[80 + 2 * 5] ^= 1;  // a token
  const fs::path changed = folder.write("changed.tokens", text);
  EXPECT_THAT(teach("out.tokens", "--top-k 4", changed).output,
              HasSubstr("changed.tokens: changed since it was written"));
  const fs::path other = folder / "other.tokens";
  data::TokenFileWriter writer(other, kVocabulary + 1, 0, data::LossMask::present);
  writer.append(std::vector<int32_t>{1, 2, kVocabulary});
  writer.finish();
  EXPECT_THAT(teach("out.tokens", "--top-k 4", other).output,
              HasSubstr("other.tokens: token 2 is 61, expected less than 61, the vocab_size of "));
  EXPECT_FALSE(fs::exists(folder / "out.tokens"));
  const ProgramResult taught = teach("taught.tokens", "--top-k 4");
  ASSERT_EQ(taught.exit_code, 0);
  EXPECT_THAT(taught.output, HasSubstr("teacher/model: "));
  EXPECT_THAT(taught.output, HasSubstr(" bytes of device memory"));
  auto refusal = [&](const std::string& tokens, const std::string& settings) {
    const ProgramResult result = run_program(command(tokens, settings + " run_name=no steps=1"));
    EXPECT_NE(result.exit_code, 0);
    return result.output;
  };
  EXPECT_THAT(refusal("plain.tokens", "distill_top_k=4"),
              HasSubstr("plain.tokens: found nothing that a teacher says of its text, expected a "
                        "token file with that; nearest: tokenize --teacher"));
  EXPECT_THAT(
      refusal("taught.tokens", "distill_top_k=5"),
      AllOf(HasSubstr("taught.tokens: found 4 tokens of a teacher at each place, expected at "
                      "least distill_top_k = 5"),
            HasSubstr("; nearest: distill_top_k=4\n")));
  EXPECT_THAT(refusal("taught.tokens", "distill_top_k=64"),
              HasSubstr("distill_top_k: found 64, expected at most the vocab_size, 61"));
  const ProgramResult again =
      run_program(TOKENIZE_PROGRAM " --teacher " + teacher.string() + " --top-k 4 --out " +
                  (folder / "twice.tokens").string() + " " + (folder / "taught.tokens").string());
  EXPECT_THAT(again.output, HasSubstr("found numbers beside its tokens already"));
  EXPECT_FALSE(fs::exists(folder / "twice.tokens"));
}

}  // namespace
}  // namespace longshore::trainer
