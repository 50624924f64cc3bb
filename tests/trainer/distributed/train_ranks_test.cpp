// The train program as several processes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "longshore/base/atomic_file.h"
#include "longshore/data/rows/token_file.h"
#include "longshore/trainer/config/hardware_file.h"
#include "tests/base/process.h"
#include "tests/trainer/checkpoint/tiny_run.h"
#include "tests/trainer/distributed/mpirun.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;
using Losses = std::map<int64_t, std::pair<double, double>>;

class TrainRanks : public testing::Test {
 protected:
  TrainRanks()
      : output_(fs::path(testing::TempDir()) /
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(output_);
  }

  // Four sequences a step, on so many processes.
  ProgramResult train(const std::string& run, int ranks, const std::string& settings) const {
    return run_program((ranks > 1 ? mpirun(ranks) : "OMP_NUM_THREADS=1 ") +
                       command(run, ranks, settings));
  }
  std::string command(const std::string& run, int ranks, const std::string& settings) const {
    std::string text = tiny_train(output_, settings + " run_name=" + run);
    const std::string batch = "per_device_batch_size=2";
    return text.replace(text.find(batch), batch.size(),
                        "per_device_batch_size=" + std::to_string(4 / ranks));
  }
  Losses losses_of(const std::string& run) const { return losses(output_ / run); }

  fs::path output_;
};

void expect_near(const Losses& found, const Losses& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [step, values] : expected) {
    EXPECT_NEAR(found.at(step).first, values.first, 1e-5 * values.first) << step;
    EXPECT_NEAR(found.at(step).second, values.second, 1e-3 * values.second) << step;
  }
}

TEST_F(TrainRanks, LearnWhatOneLearns) {
  ASSERT_EQ(train("one", 1, "steps=6").exit_code, 0);
  for (auto [run, ranks, mesh] : {std::tuple{"fsdp", 2, ""},
                                  {"data", 2, "ici_data_parallelism=2 ici_fsdp_parallelism=1"},
                                  {"both", 4, "ici_data_parallelism=2"}}) {
    ProgramResult result = train(run, ranks, std::string("steps=6 ") + mesh);
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, HasSubstr("mpirun: rank 0 of " + std::to_string(ranks)));
    EXPECT_THAT(result.output, HasSubstr("the slowest is rank"));
    expect_near(losses_of(run), losses_of("one"));
  }
}

// Also where the last batch has rows for some of them only.
TEST_F(TrainRanks, EvaluateWhatOneEvaluates) {
  fs::create_directories(output_);
  const std::string tokens = (output_ / "text.tokens").string();
  data::TokenFileWriter writer(tokens, 61, 0);
  for (int32_t i = 0; i < 22; ++i) writer.append(std::vector(32, i * i % 61));
  writer.finish();
  auto validated = [&](int ranks, const std::string& settings) {
    const std::string run = "evaluated" + std::to_string(ranks);
    std::string text = command(run, ranks, settings + " steps=2 enable_checkpointing=false");
    const std::string without = "dataset_type=synthetic eval_dataset_path= ";
    text.replace(
        text.find(without), without.size(),
        "dataset_type=tokens dataset_path=" + tokens + " eval_dataset_path=" + tokens + " ");
    const ProgramResult result =
        run_program((ranks > 1 ? mpirun(ranks) : "OMP_NUM_THREADS=1 ") + text);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    const auto summary = nlohmann::json::parse(std::ifstream(output_ / run / "summary.json"));
    fs::remove_all(output_ / run);
    return std::pair<double, double>(summary.at("validation_loss"),
                                     summary.at("validation_unigram_loss"));
  };
  for (const char* settings : {"eval_steps=-1", "eval_steps=2"}) {
    const auto [loss, unigram_loss] = validated(1, settings);
    for (int ranks : {2, 4}) {
      const auto [found, found_unigram] = validated(ranks, settings);
      EXPECT_NEAR(found, loss, 1e-5 * loss) << settings << ", " << ranks;
      EXPECT_EQ(found_unigram, unigram_loss) << settings << ", " << ranks;
    }
  }
}

// They stop at the same step, and the first keeps the best.
TEST_F(TrainRanks, AgreeOnTheBestAndOnAnEarlyStop) {
  fs::create_directories(output_);
  const std::string tokens = (output_ / "text.tokens").string();
  data::TokenFileWriter writer(tokens, 61, 0);
  for (int32_t i = 0; i < 100; ++i) writer.append(std::vector(9, i * i % 61));
  writer.finish();
  std::string text = command("early", 2,
                             "steps=40 learning_rate=1 eval_interval=1 keep_best=validation_loss "
                             "early_stopping_patience=2 eval_steps=1");
  const std::string without = "dataset_type=synthetic eval_dataset_path= ";
  text.replace(text.find(without), without.size(),
               "dataset_type=tokens dataset_path=" + tokens + " eval_dataset_path=" + tokens + " ");
  const ProgramResult result = run_program(mpirun(2) + text);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("no better for 2 evaluations"));
  const fs::path run = output_ / "early";
  const auto best = nlohmann::json::parse(std::ifstream(run / "summary.json")).at("best");
  std::map<double, int64_t> steps;  // by their losses
  std::ifstream file(run / "metrics.jsonl");
  for (std::string line; std::getline(file, line);)
    if (const auto record = nlohmann::json::parse(line); record.contains("validation_loss"))
      steps.emplace(record["validation_loss"], record["step"].get<int64_t>() + 1);
  EXPECT_EQ(best.at("steps"), steps.begin()->second);
  EXPECT_EQ(open_checkpoint(run / "best").manifest.step, steps.begin()->second);
}

// Means are over the pairs, or answers, of all; so is kto's KL estimate.
TEST_F(TrainRanks, PreferWhatOnePrefers) {
  fs::create_directories(output_);
  const std::string pairs = (output_ / "pairs.tokens").string();
  data::TokenFileWriter writer(pairs, 61, 0, data::LossMask::present, data::Pairing::present);
  for (int32_t i = 0; i < 60; ++i)
    for (const int32_t step : {1, 60}) {
      std::vector<int32_t> tokens{i * 7 % 61, i * 11 % 61};
      for (int32_t k = 1; k < 3 + (i + step) % 4; ++k)
        tokens.push_back((tokens[1] + k * step) % 61);
      std::vector<uint8_t> carries_loss(tokens.size(), 1);
      carries_loss[0] = carries_loss[1] = 0;
      writer.append(tokens, carries_loss);
    }
  writer.finish();
  auto train = [&](const std::string& run, int ranks, const std::string& settings) {
    std::string text = command(run, ranks, "steps=4 enable_checkpointing=false " + settings);
    const std::string without = "dataset_type=synthetic ";
    text.replace(text.find(without), without.size(),
                 "dataset_type=documents dataset_path=" + pairs + " ");
    const ProgramResult result =
        run_program((ranks > 1 ? mpirun(ranks) : "OMP_NUM_THREADS=1 ") + text);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    std::vector<nlohmann::json> steps;
    std::ifstream file(output_ / run / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) steps.push_back(nlohmann::json::parse(line));
    fs::remove_all(output_ / run);
    return steps;
  };
  for (const char* objective : {"dpo", "dpo reference=precomputed", "orpo", "kto"}) {
    const std::string settings = std::string("objective=") + objective + " ";
    const std::vector<nlohmann::json> one = train("one", 1, settings + "eval_fraction=0.2");
    for (const char* mesh : {"", "ici_data_parallelism=2 ici_fsdp_parallelism=1 "}) {
      const std::vector<nlohmann::json> two =
          train("two", 2, settings + mesh + "eval_fraction=0.2");
      ASSERT_EQ(two.size(), one.size()) << objective;
      for (size_t i = 0; i < one.size(); ++i)
        for (const char* key : {"loss", "rewards_margins", "rewards_accuracies", "logps_chosen",
                                "validation_loss", "validation_rewards_margins"})
          if (one[i].contains(key)) {
            EXPECT_NEAR(two[i].at(key), one[i][key],
                        2e-5 * (1 + std::abs(one[i][key].get<double>())))
                << objective << ", " << i << ", " << key;
          }
    }
  }
}

// Of files that are opened as they are needed, and of which the last cannot be read: then all save
// what they did and end.
TEST_F(TrainRanks, StreamTheRowsThatOneStreams) {
  fs::create_directories(output_);
  for (int i = 0; i < 4; ++i) {
    std::ofstream file(output_ / ("shard-" + std::to_string(i) + ".jsonl"));
    for (int row = 0; row < 6; ++row) file << R"({"text": "the boats )" << i << row << " wait\"}\n";
    if (i == 3) file << "broken\n";
  }
  auto stream = [&](const std::string& run, int ranks, const std::string& settings) {
    std::string text = command(run, ranks, settings);
    auto replace = [&](const std::string& what, const std::string& by) {
      text.replace(text.find(what), what.size(), by);
    };
    replace("dataset_type=synthetic ", "dataset_type=documents packing=false 'dataset_path=" +
                                           (output_ / "shard-*.jsonl").string() + "' ");
    replace("tokenizer_path= ", "tokenizer_path=tests/goldens/tokenizers/sp_bpe ");
    replace("vocab_size=61 ", "vocab_size=2048 ");
    return run_program((ranks > 1 ? mpirun(ranks) : "OMP_NUM_THREADS=1 ") + text);
  };
  const std::string skipping = "shuffle_window=1 steps=9 skip_bad_lines=true ";
  const ProgramResult one = stream("one", 1, skipping);
  ASSERT_EQ(one.exit_code, 0) << one.output;
  fs::remove_all(output_ / "tokens");
  const ProgramResult bad = stream("two", 2, "shuffle_window=1 steps=9");
  EXPECT_NE(bad.exit_code, 0);
  EXPECT_THAT(bad.output, HasSubstr("shard-3.jsonl:7: no valid JSON"));
  EXPECT_THAT(bad.output, HasSubstr("the run goes on from it: "));
  const ProgramResult two = stream("two", 2, skipping);
  ASSERT_EQ(two.exit_code, 0) << two.output;
  EXPECT_THAT(two.output, HasSubstr("after 4 steps"));
  expect_near(losses_of("two"), losses_of("one"));
}

// By what plan says of the same mesh.
TEST_F(TrainRanks, TakeTheMemoryThatIsPlanned) {
  for (const char* policy : {"none", "qkv_proj_offloaded optimizer_memory_host_offload=true"}) {
    const std::string settings =
        "steps=3 enable_checkpointing=false remat_policy=" + std::string(policy);
    ASSERT_EQ(train("memory", 2, settings).exit_code, 0);
    std::string plan = command("memory", 2, settings + " ici_fsdp_parallelism=2");
    plan.replace(0, plan.find(' '),
                 std::string("OMP_NUM_THREADS=1 ") + PLAN_PROGRAM + " --json " +
                     (output_ / "plan.json").string());
    ProgramResult planned = run_program(plan);
    ASSERT_EQ(planned.exit_code, 0) << planned.output;
    auto read = [&](const char* file) {
      return nlohmann::json::parse(std::ifstream(output_ / file));
    };
    const auto expected = read("plan.json").at("plans").at(0).at("memory"),
               found = read("memory/summary.json").at("memory");
    for (const char* kind : {"device", "pinned_host"})
      EXPECT_EQ(found.at(kind).at("peak_bytes"), expected.at(kind).at("peak_bytes")) << kind;
    fs::remove_all(output_ / "memory");
  }
}

// Bit-identical to never having stopped on as many processes; near to it on others.
TEST_F(TrainRanks, ResumeOnAnyNumber) {
  ASSERT_EQ(train("straight", 2, "steps=8").exit_code, 0);
  for (int ranks : {2, 1, 4}) {
    const std::string run = "resumed_" + std::to_string(ranks);
    ASSERT_EQ(train(run, 2, "steps=4 checkpoint_period=2").exit_code, 0);
    ProgramResult result = train(run, ranks, "steps=8 remat_policy=full");
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, HasSubstr("after 4 steps"));
    if (ranks == 2)
      EXPECT_EQ(losses_of(run), losses_of("straight"));
    else
      expect_near(losses_of(run), losses_of("straight"));
  }
  ProgramResult refused = train("resumed_2", 2, "steps=9 gradient_accumulation_steps=2");
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("gradient_accumulation_steps: 2 here"));
}

// Each of two replicas updates half of the weights: the same bits, also after a stop, and one
// device goes on from what both have saved.
TEST_F(TrainRanks, UpdateAShareEach) {
  const std::string replicas = "ici_data_parallelism=2 ici_fsdp_parallelism=1 ",
                    divided = replicas + "shard_optimizer_over_data=true ";
  ASSERT_EQ(train("replicated", 2, replicas + "steps=6").exit_code, 0);
  ASSERT_EQ(train("divided", 2, divided + "steps=4 checkpoint_period=2").exit_code, 0);
  fs::copy(output_ / "divided", output_ / "alone",
           fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  const ProgramResult resumed = train("divided", 2, divided + "steps=6");
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("after 4 steps"));
  EXPECT_EQ(losses_of("divided"), losses_of("replicated"));
  ASSERT_EQ(train("alone", 1, "steps=6").exit_code, 0);
  expect_near(losses_of("alone"), losses_of("replicated"));
}

// Of some frozen weights a device holds nothing, of others all; of quantized ones bytes.
TEST_F(TrainRanks, ResumeAdapters) {
  const std::string settings = "lora_rank=2 frozen_weight_dtype=nf4 ici_fsdp_parallelism=2 ";
  ASSERT_EQ(train("straight", 2, settings + "steps=4").exit_code, 0);
  for (const char* steps : {"steps=2", "steps=4"}) {
    ProgramResult result = train("resumed", 2, settings + steps);
    ASSERT_EQ(result.exit_code, 0) << result.output;
  }
  EXPECT_EQ(losses_of("resumed"), losses_of("straight"));
}

TEST_F(TrainRanks, RefuseDifferentConfigs) {
  const auto start = std::chrono::steady_clock::now();
  ProgramResult result = run_program(mpirun(1) + command("mixed", 2, "steps=4") + " : -np 1 " +
                                     command("mixed", 2, "steps=5"));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("rank 1 has another config than rank 0"));
  EXPECT_THAT(result.output, HasSubstr("steps: 5"));
  EXPECT_FALSE(fs::exists(output_ / "mixed"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

// Told the same, of machines that make something else of it: on one, transfers want to start early.
TEST_F(TrainRanks, RefuseDifferentChoices) {
  offload::Hardware machine = offload::nominal_hardware(models::Target::cpu);
  machine.device_bytes = machine.host_bytes = int64_t{1} << 34;
  std::string processes;
  for (double bytes_per_second : {1e16, 1e9}) {
    const fs::path folder = output_ / fmt::format("{:g}", bytes_per_second);
    fs::create_directories(folder);
    machine.ici = offload::RateCurve({{1, bytes_per_second}});
    write_file(folder / "machine.yml", text(machine));
    processes += (processes.empty() ? mpirun(1) : " : -np 1 ") + "-wdir " + folder.string() + " " +
                 command("mixed", 2, "ici_fsdp_parallelism=2 hardware=/proc/self/cwd/machine.yml");
  }
  ProgramResult result = run_program(processes);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output,
              HasSubstr("rank 1 has another config than rank 0: 'prefetch_layers: "));
}

TEST_F(TrainRanks, RefuseAMeshOfAnotherSize) {
  ProgramResult result = train("mesh", 2, "steps=4 ici_fsdp_parallelism=4");
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("4 devices, expected 2"));
  result = run_program("RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=localhost MASTER_PORT=29500 " +
                       command("torchrun", 2, "steps=4"));
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("nearest: mpirun -np 2"));
}

std::vector<pid_t> children(pid_t parent) {
  const std::string id = std::to_string(parent);
  std::ifstream file("/proc/" + id + "/task/" + id + "/children");
  return {std::istream_iterator<pid_t>(file), {}};
}

// Whoever is left ends, too, and soon; the last checkpoint is whole.
TEST_F(TrainRanks, EndWithTheOneThatIsKilled) {
  ASSERT_EQ(train("straight", 2, "steps=300").exit_code, 0);
  fs::create_directories(output_);
  Process processes("env " + mpirun(2) + command("killed", 2, "steps=300 checkpoint_period=2"),
                    output_ / "log");
  ASSERT_TRUE(processes.wait_for("checkpoint after 2 steps")) << processes.output();
  const std::vector<pid_t> ranks = children(processes.id());
  ASSERT_EQ(ranks.size(), 2);
  kill(ranks[1], SIGKILL);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_NE(processes.wait(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_THAT(processes.output(), HasSubstr("rank 1"));
  ProgramResult result = train("killed", 2, "steps=300");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(losses_of("killed"), losses_of("straight"));
}

// A signal that one of them gets stops all of them behind the same step.
TEST_F(TrainRanks, StopTogether) {
  ASSERT_EQ(train("straight", 2, "steps=300").exit_code, 0);
  Process processes("env " + mpirun(2) + command("stopped", 2, "steps=300"), output_ / "log");
  ASSERT_TRUE(processes.wait_for("completed step: 3")) << processes.output();
  const std::vector<pid_t> ranks = children(processes.id());
  ASSERT_EQ(ranks.size(), 2);
  kill(ranks[1], SIGTERM);
  EXPECT_EQ(processes.wait(), 0) << processes.output();
  EXPECT_EQ(train("stopped", 2, "steps=300").exit_code, 0);
  EXPECT_EQ(losses_of("stopped"), losses_of("straight"));
}

}  // namespace
}  // namespace longshore::trainer
