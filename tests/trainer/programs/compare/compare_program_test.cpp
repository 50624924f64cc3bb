// The compare program as a user meets it: its lines, its files and its exit codes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/data/temporary_folder.h"
#include "tests/trainer/run/colored_squares.h"
#include "tests/trainer/run_program.h"

namespace longshore::trainer {
namespace {

using data::TemporaryFolder;

const std::string kTiny =
    "--config quickstart.yml backend=cpu base_emb_dim=32 base_num_decoder_layers=2 base_mlp_dim=48 "
    "head_dim=16 base_num_query_heads=2 base_num_kv_heads=2 vocab_size=61 max_target_length=16 "
    "dataset_type=synthetic peak_tflops_per_device=1 ";

ProgramResult run_compare(const std::string& arguments) {
  return run_program(COMPARE_PROGRAM " " + arguments);
}

bool contains(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

TEST(CompareProgram, MeasuresPoliciesInWorkloads) {
  TemporaryFolder folder;
  ProgramResult result = run_compare(
      kTiny + "--policies full,qkv_proj_offloaded --steps 3 --sweep per_device_batch_size=1,2 " +
      "--price 2 --json " + (folder / "c.json").string() + " --html " +
      (folder / "c.html").string());
  ASSERT_EQ(result.exit_code, 0) << result.output;
  for (const char* word : {"per_device_batch_size=2: round 3 of 3, full: ", "gain over full",
                           "the same to the bit", "cost/M tokens", "to the byte"})
    EXPECT_TRUE(contains(result.output, word)) << word << "\n" << result.output;
  EXPECT_EQ(folder.file_count(), 2u);
  auto all = nlohmann::json::parse(data::read_file(folder / "c.json"));
  ASSERT_EQ(all["plans"].size(), 4u);
  for (const auto& plan : all["plans"]) {
    EXPECT_GT(plan["measured"]["step_seconds"].get<double>(), 0);
    for (const char* kind : {"device", "pinned_host"})
      EXPECT_EQ(plan["measured"]["memory"][kind]["peak_bytes"], plan["memory"][kind]["peak_bytes"]);
    EXPECT_GT(plan["measured"]["used_device_bytes"].get<int64_t>(),
              plan["memory"]["device"]["peak_bytes"].get<int64_t>());
  }
  EXPECT_EQ(all["plans"][1]["policy"], "qkv_proj_offloaded");
  EXPECT_EQ(all["plans"][1]["workload"], "per_device_batch_size=1");
  EXPECT_TRUE(data::read_file(folder / "c.html").ends_with("</html>\n"));
}

// With synthetic ones: neither the recipe's folder nor its data is there.
TEST(CompareProgram, MeasuresARecipeWithImages) {
  const ProgramResult result = run_compare(
      std::string("--config paligemma2_3b.yml --steps 2 --rounds 1 --policies "
                  "full,qkv_proj_offloaded load_parameters_path= backend=cpu image_token_id=887 "
                  "max_target_length=48 per_device_batch_size=2 peak_tflops_per_device=1") +
      kSmallImageModel);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  for (const char* word : {"the same to the bit", "to the byte"})
    EXPECT_TRUE(contains(result.output, word)) << word << "\n" << result.output;
}

TEST(CompareProgram, GivesAsManyTurnsAsRounds) {
  const ProgramResult result = run_compare(kTiny + "--policies full,none --steps 3 --rounds 1");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "round 1 of 1, none: ")) << result.output;
}

TEST(CompareProgram, WarnsOfKeysWithoutEffect) {
  const std::string keys = "--steps 1 lora_alpha=5 checkpoint_period=3 --policies full";
  const ProgramResult result = run_compare(kTiny + keys);
  EXPECT_TRUE(contains(result.output, "warning: command line lora_alpha: 5 has no effect"))
      << result.output;
  EXPECT_FALSE(contains(result.output, "checkpoint_period")) << result.output;
}

TEST(CompareProgram, MeasuresOneDevice) {
  ProgramResult result = run_compare(kTiny + "--policies full --steps 3 ici_fsdp_parallelism=4");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.output,
                       "ici_fsdp_parallelism = 4 (command line): found a mesh of 4 "
                       "devices, expected 1,"))
      << result.output;
}

TEST(CompareProgram, FailsWhereNothingFits) {
  TemporaryFolder folder;
  ProgramResult result = run_compare(
      "--config llama3_70b.yml backend=cpu dtype=auto --policies full,none --steps 1 --json " +
      (folder / "c.json").string());
  EXPECT_EQ(result.exit_code, 2) << result.output;
  for (const char* word : {"full: does not fit on this machine", "none: does not fit", "available",
                           "none of the policies can be measured here"})
    EXPECT_TRUE(contains(result.output, word)) << word << "\n" << result.output;
  auto all = nlohmann::json::parse(data::read_file(folder / "c.json"));
  EXPECT_EQ(all["plans"][0]["fits"], false);
}

struct Wrong {
  const char* name;
  const char* arguments;
  std::vector<std::string> words;
};

class CompareProgramRefuses : public testing::TestWithParam<Wrong> {};

TEST_P(CompareProgramRefuses, AndWritesNothing) {
  TemporaryFolder folder;
  ProgramResult result = run_compare(kTiny + "--json " + (folder / "c.json").string() + " --html " +
                                     (folder / "c.html").string() + " " + GetParam().arguments);
  EXPECT_EQ(result.exit_code, 2) << result.output;
  for (const std::string& word : GetParam().words)
    EXPECT_TRUE(contains(result.output, word)) << word << "\n" << result.output;
  EXPECT_EQ(folder.file_count(), 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Wrong, CompareProgramRefuses,
    testing::Values(
        Wrong{"NoPolicies", "--steps 3", {"--policies"}},
        Wrong{"Policy", "--policies full,nonne", {"'nonne'", "nearest: none"}},
        Wrong{"PolicyTwice", "--policies full,none,full", {"--policies: found full twice"}},
        Wrong{"NoSteps", "--policies full --steps 0", {"--steps: found 0"}},
        Wrong{"Steps", "--policies full --steps many", {"--steps"}},
        Wrong{"NoRounds", "--policies full --rounds 0", {"--rounds: found 0"}},
        Wrong{"SweptKey",
              "--policies full --sweep per_device_batch=1,2",
              {"per_device_batch", "unknown key", "nearest: per_device_batch_size"}},
        Wrong{"SweptValue",
              "--policies full --sweep per_device_batch_size=1,x",
              {"per_device_batch_size: found x"}},
        Wrong{"SweepTwice", "--policies full --sweep seed=1,1", {"found seed=1 twice"}},
        Wrong{"SweepWithoutValues", "--policies full --sweep seed=", {"--sweep: found seed="}},
        Wrong{"SweepOfPolicies", "--policies full --sweep remat_policy=none", {"--policies names"}},
        Wrong{"SweepOfAKeyThatIsGiven", "--policies full --sweep vocab_size=61,62", {"vocab_size"}},
        Wrong{"ConfigTwice", "--policies full --config quickstart.yml", {"quickstart.yml twice"}},
        Wrong{"Toy", "--policies full model_type=toy_a", {"model_type", "found a toy"}},
        Wrong{"Hardware", "--policies full --hardware h201", {"h201", "h200"}},
        Wrong{"HardwareOfAnotherKind",
              "--policies full --hardware h200",
              {"found h200", "another kind of machine", "this_machine"}},
        Wrong{"Price", "--policies full --price -1", {"--price"}},
        Wrong{"Folder", "--policies full --json /none/c.json", {"--json"}}),
    [](const testing::TestParamInfo<Wrong>& info) { return info.param.name; });

}  // namespace
}  // namespace longshore::trainer
