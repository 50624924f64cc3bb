// The train program on pictures and texts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/data/temporary_folder.h"
#include "tests/trainer/checkpoint/tiny_run.h"
#include "tests/trainer/distributed/mpirun.h"
#include "tests/trainer/run/colored_squares.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;

class ImageTraining : public testing::Test {
 protected:
  ImageTraining()
      : lines_(colored_squares(folder_ / "train", 60, 1)),
        tokenizer_(image_tokenizer(folder_ / "tokenizer", {"<image>"}, 887)) {}

  struct Data {
    fs::path lines;
    int rows = 8;  // of a step
  };
  ProgramResult train(const std::string& run, const std::string& settings, int ranks = 1) const {
    return train_on({.lines = lines_}, run, settings, ranks);
  }
  ProgramResult train_on(const Data& data, const std::string& run, const std::string& settings,
                         int ranks = 1) const {
    return run_program(
        (ranks > 1 ? mpirun(ranks) : "") + std::string(TRAIN_PROGRAM) +
        " --config llama3_8b.yml model_name=paligemma2_3b_224" + kSmallImageModel +
        "image_token_id=887 max_target_length=48 dtype=float32 backend=cpu packing=false "
        "dataset_type=documents peak_tflops_per_device=1 learning_rate_schedule_steps=150 "
        "learning_rate=3e-3 dataset_path=" +
        data.lines.string() + " tokenizer_path=" + tokenizer_.string() +
        " base_output_directory=" + (folder_ / "runs").string() + " per_device_batch_size=" +
        std::to_string(data.rows / ranks) + " run_name=" + run + " " + settings);
  }
  fs::path run(const std::string& name) const { return folder_ / "runs" / name; }

  data::TemporaryFolder folder_;
  fs::path lines_, tokenizer_;
};

TEST_F(ImageTraining, IsTheSameToTheBitUnderPoliciesAndHomes) {
  ASSERT_EQ(train("none", "steps=3 remat_policy=none remat_policy_for_vit=none").exit_code, 0);
  const auto expected = losses(run("none"));
  ASSERT_EQ(expected.size(), 3);
  int number = 0;
  for (const char* settings :
       {"remat_policy=full",
        "remat_policy=qkv_proj_offloaded remat_policy_for_vit=minimal_offloaded",
        "remat_policy=minimal_offloaded parameter_memory_host_offload=true "
        "gradient_memory_host_offload=true optimizer_memory_host_offload=true "
        "optimizer_compute=host"}) {
    const std::string name = "run" + std::to_string(number++);
    const ProgramResult result = train(name, std::string("steps=3 ") + settings);
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(losses(run(name)), expected) << settings;
  }
}

TEST_F(ImageTraining, GoesOnAsIfItHadNeverStopped) {
  ASSERT_EQ(train("whole", "steps=5").exit_code, 0);
  ASSERT_EQ(train("parts", "steps=2").exit_code, 0);
  ASSERT_EQ(train("parts", "steps=5").exit_code, 0);
  EXPECT_EQ(losses(run("parts")), losses(run("whole")));
  const auto hashes = [](const std::vector<SavedFile>& files) {
    std::map<std::string, std::string> hashes;
    for (const SavedFile& file : files)
      if (file.path.ends_with(".safetensors")) hashes[file.path] = file.hash;
    return hashes;
  };
  EXPECT_EQ(hashes(saved_files(run("parts"), 5)), hashes(saved_files(run("whole"), 5)));
}

TEST_F(ImageTraining, OnSeveralRanksLearnsWhatOneLearns) {
  ASSERT_EQ(train("one", "steps=3").exit_code, 0);
  const auto expected = losses(run("one"));
  for (const auto& [name, mesh] :
       {std::pair{"fsdp", ""}, {"data", "ici_data_parallelism=2 ici_fsdp_parallelism=1"}}) {
    const ProgramResult result = train(name, std::string("steps=3 ") + mesh, 2);
    ASSERT_EQ(result.exit_code, 0) << result.output;
    for (const auto& [step, values] : losses(run(name))) {
      EXPECT_NEAR(values.first, expected.at(step).first, 1e-5 * values.first) << name << step;
      EXPECT_NEAR(values.second, expected.at(step).second, 1e-3 * values.second) << name << step;
    }
  }
}

TEST_F(ImageTraining, LearnsWhatStandsInThePicturesAlone) {
  const fs::path unseen = colored_squares(folder_ / "unseen", 24, 2);
  const fs::path lines = colored_squares(folder_ / "many", 200, 3);
  const ProgramResult result = train_on({.lines = lines, .rows = 16}, "squares",
                                        "steps=150 eval_dataset_path=" + unseen.string());
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const nlohmann::json summary =
      nlohmann::json::parse(data::read_file(run("squares") / "summary.json"));
  EXPECT_LT(summary.at("validation_loss").get<double>(), 0.1) << result.output;
  EXPECT_LT(summary.at("data_wait_fraction").get<double>(), 0.01) << result.output;
  std::ifstream lines_of_unseen(unseen);
  std::string line;
  for (int i = 0; i < 6 && std::getline(lines_of_unseen, line); ++i) {
    const nlohmann::json asked = nlohmann::json::parse(line);
    const ProgramResult said = run_program(
        "(" + std::string(GENERATE_PROGRAM) + " --run " + run("squares").string() + " --prompt '" +
        asked.at("prefix").get<std::string>() + "' --temperature 0 --max-tokens 8 --image " +
        (unseen.parent_path() / asked.at("image").get<std::string>()).string() + " 2>/dev/null)");
    EXPECT_EQ(said.output, asked.at("suffix").get<std::string>() + "\n") << line;
  }
}

// Two batches that stand ready and those of a step.
TEST_F(ImageTraining, CountsTheBatchesThatItHolds) {
  const ProgramResult result =
      train("counted", "steps=1 gradient_accumulation_steps=2 enable_checkpointing=false");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  constexpr int64_t kSize = 28, kTokensOfImage = 16, kLength = 48;
  constexpr int64_t kOfRow = 4 * (3 * kSize * kSize + kTokensOfImage + 4 * kLength);
  const nlohmann::json summary =
      nlohmann::json::parse(data::read_file(run("counted") / "summary.json"));
  const nlohmann::json& memory = summary.at("memory").at("unpinned_host");
  EXPECT_EQ(memory.at("peak_bytes"), 4 * 8 * kOfRow);
  EXPECT_EQ(memory.at("by_category").at("batch"), memory.at("peak_bytes"));
}

TEST_F(ImageTraining, SaysWhichLineHasABadImage) {
  data::TemporaryFolder bad;
  const fs::path lines =
      bad.write("bad.jsonl", R"({"image": "none.png", "prefix": "a", "suffix": "b"})");
  const ProgramResult result = train_on({.lines = lines}, "bad", "steps=1");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("bad.jsonl:1"));
  EXPECT_THAT(result.output, HasSubstr("none.png"));
}

}  // namespace
}  // namespace longshore::trainer
