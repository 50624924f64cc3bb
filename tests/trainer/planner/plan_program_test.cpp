// The plan program as a user meets it: its table, its explanations, its file and its exit codes.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "longshore/offload/policy/policy.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/config/hardware_file.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/step/memory_report.h"
#include "longshore/trainer/step/training_plans.h"
#include "tests/data/temporary_folder.h"
#include "tests/trainer/run_program.h"

namespace longshore::trainer {
namespace {

using data::TemporaryFolder;
using nlohmann::ordered_json;

ProgramResult run_plan(const std::string& arguments, const std::string& environment = "") {
  return run_program(environment + " " PLAN_PROGRAM " " + arguments);
}

const std::string kQuickstart = "--config quickstart.yml backend=cpu ";

bool contains(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

// First words of the lines below the table's head.
std::vector<std::string> policies_of(const std::string& output) {
  std::vector<std::string> names;
  std::istringstream lines(output);
  std::string line, name;
  while (std::getline(lines, line) && !line.starts_with("policy "))
    ;
  while (std::getline(lines, line) && std::istringstream(line) >> name) names.push_back(name);
  return names;
}

std::string line_of(const std::string& output, const std::string& first_word) {
  std::istringstream lines(output);
  std::string word;
  for (std::string line; std::getline(lines, line);)
    if (std::istringstream(line) >> word && word == first_word) return line;
  return "";
}

// What the program writes for a config and policies.
ordered_json json_of(const std::string& arguments) {
  TemporaryFolder folder;
  std::string file = (folder / "plans.json").string();
  ProgramResult result = run_plan(arguments + " --json " + file);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(folder.file_count(), 1u);
  return ordered_json::parse(data::read_file(file));
}

// A plan runs nothing.
// With everything else on the standard error, so that another program can read it.
// Before anything is downloaded.
TEST(PlanProgram, PlansAdaptersBeforeThereAreWeights) {
  const ProgramResult result =
      run_program(PLAN_PROGRAM
                  " --config llama3_8b_lora.yml --hardware h200 --no-advice "
                  "load_parameters_path=/nowhere/llama3_8b");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("fits: yes"), std::string::npos) << result.output;
}

TEST(PlanProgram, WritesJsonToTheStandardOutput) {
  const std::string arguments = "--config toy_a.yml backend=cpu --policies full,none";
  const ProgramResult result =
      run_program("(" PLAN_PROGRAM " " + arguments + " --json - 2>/dev/null)");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(ordered_json::parse(result.output), json_of(arguments));
  EXPECT_EQ(run_program("(" PLAN_PROGRAM " " + arguments + " --json - >/dev/full)").exit_code, 1);
}

TEST(PlanProgram, PlansBfloat16OnProcessorsWithoutAvx512) {
  const ProgramResult result =
      run_plan(kQuickstart + "dtype=bfloat16 --policies full,none", "DNNL_MAX_CPU_ISA=AVX2");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "this processor does not multiply bfloat16"))
      << result.output;
}

TEST(PlanProgram, AllIsEveryPolicyButCustom) {
  ProgramResult result = run_plan(kQuickstart + "--policies all");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  std::vector<std::string> expected;
  for (const offload::PolicyInfo& policy : offload::policies())
    if (policy.name != "custom") expected.push_back(policy.name);
  EXPECT_GT(expected.size(), 8u);
  EXPECT_EQ(policies_of(result.output), expected) << result.output;

  // Of a network with other labels, those that speak of none.
  result = run_plan("--config toy_a.yml backend=cpu --policies all");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(policies_of(result.output), (std::vector<std::string>{"none", "full"}));
}

TEST(PlanProgram, WritesWhatTheAnalysisSays) {
  std::vector<std::string> overrides{"backend=cpu", "gradient_accumulation_steps=2",
                                     "optimizer_memory_host_offload=true"};
  std::string arguments = "--config quickstart.yml --policies none,minimal_offloaded ";
  for (const std::string& override : overrides) arguments += override + " ";
  ordered_json plans = json_of(arguments)["plans"];
  ASSERT_EQ(plans.size(), 2u);
  for (const ordered_json& plan : plans) {
    std::vector<std::string> one = overrides;
    one.push_back("remat_policy=" + plan["policy"].get<std::string>());
    Config config = load_config("quickstart.yml", one, default_configs_directory());
    EXPECT_EQ(plan["memory"], json(analyze(plan_training({config, models::Target::cpu}))));
    for (const char* kind : {"device", "pinned_host"}) {
      const ordered_json& memory = plan["memory"][kind];
      auto bytes = [&](const char* key) { return memory.at(key).get<int64_t>(); };
      EXPECT_GT(bytes("argument_bytes"), 0);
      EXPECT_EQ(bytes("total_bytes"), bytes("argument_bytes") + bytes("output_bytes") -
                                          bytes("alias_bytes") + bytes("temp_bytes"));
      EXPECT_EQ(bytes("peak_bytes"), bytes("total_bytes"));
      int64_t by_category = 0;
      for (const auto& [category, part] : memory.at("by_category").items())
        by_category += part.get<int64_t>();
      EXPECT_GT(by_category, 0);
      EXPECT_LE(by_category, bytes("peak_bytes"));
    }
  }
  EXPECT_LT(plans[1]["memory"]["device"]["peak_bytes"], plans[0]["memory"]["device"]["peak_bytes"]);
  EXPECT_GT(plans[1]["memory"]["pinned_host"]["temp_bytes"],
            plans[0]["memory"]["pinned_host"]["temp_bytes"]);
}

TEST(PlanProgram, ExplainsWhatHappensToEachLabel) {
  ProgramResult result =
      run_plan(kQuickstart + "--explain dtype=float32 remat_policy=qkv_proj_offloaded");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  constexpr int64_t kTokens = 8 * 256, kWidth = 320, kMlpWidth = 864, kFloatBytes = 4;
  struct Expected {
    const char* label;
    int64_t width;
    const char* action;
  };
  for (const Expected& expected : {Expected{"query_proj", kWidth, "goes to pinned_host"},
                                   Expected{"value_proj", kWidth, "goes to pinned_host"},
                                   Expected{"decoder_layer_input", kWidth, "stays on the device"},
                                   Expected{"context", kWidth, "computed again"},
                                   Expected{"mlpwi_1", kMlpWidth, "computed again"},
                                   Expected{"mlpwo", kWidth, "not read again"}}) {
    std::string line = line_of(result.output, expected.label);
    EXPECT_TRUE(line.ends_with(expected.action)) << expected.label << ": " << line;
    EXPECT_TRUE(contains(line, offload::bytes_text(kTokens * expected.width * kFloatBytes)))
        << line;
  }
  for (const char* words :
       {"layers 0 to 4", "layer 5", "context.remat, attention", "swiglu.remat = swiglu("})
    EXPECT_TRUE(contains(result.output, words)) << words << "\n" << result.output;
  EXPECT_FALSE(contains(result.output, "query_proj.remat"));

  result = run_plan(kQuickstart + "--explain remat_policy=none");
  EXPECT_TRUE(contains(result.output, "nothing is computed again")) << result.output;
  EXPECT_FALSE(contains(run_plan(kQuickstart).output, "nodes recomputed"));
}

TEST(PlanProgram, ExplainsLayersThatTakeTurns) {
  const ProgramResult result =
      run_plan("--config llama3_8b.yml model_name=gemma2_2b backend=cuda --explain");
  EXPECT_TRUE(contains(result.output, "13 layers from 0 to 24:")) << result.output;
  EXPECT_TRUE(contains(result.output, "13 layers from 1 to 25:")) << result.output;
}

// JAX's tutorial networks, their layers' inputs in host memory: all but the last one's.
void expect_offloaded_inputs(const std::string& config, int64_t layers, int64_t input_bytes) {
  std::string arguments = "--config " + config + " backend=cpu x=offload --policies none,custom";
  ordered_json plans = json_of(arguments)["plans"];
  const ordered_json &none = plans[0]["memory"], &offloaded = plans[1]["memory"];
  auto bytes = [](const ordered_json& memory, const char* kind, const char* key) {
    return memory.at(kind).at(key).get<int64_t>();
  };
  EXPECT_EQ(
      bytes(offloaded, "pinned_host", "temp_bytes") - bytes(none, "pinned_host", "temp_bytes"),
      (layers - 1) * input_bytes);
  EXPECT_LT(bytes(offloaded, "device", "peak_bytes"), bytes(none, "device", "peak_bytes"));
}

TEST(PlanProgram, OffloadsTheTutorialsNetworks) {
  expect_offloaded_inputs("toy_a.yml remat_policy=custom", 10, 256 * 256 * 4);
  expect_offloaded_inputs("toy_b.yml remat_policy=custom", 4, int64_t{7168} * 7168 * 4);
}

TEST(PlanProgram, PlansASeventyBillionParameterModelAtOnce) {
#ifdef __SANITIZE_ADDRESS__
  constexpr double kMaxSeconds = 20;
#else
  constexpr double kMaxSeconds = 2;
#endif
  auto start = std::chrono::steady_clock::now();
  ProgramResult result = run_plan("--config llama3_70b.yml backend=cuda");
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "planned for cuda")) << result.output;
  std::printf("%.2f s\n", seconds);
  EXPECT_LT(seconds, kMaxSeconds);
}

// Its kernels take more memory than our own; a profile's rates are the device's, whoever's kernels
// run there.
TEST(PlanProgram, PlansCompositionsOnAGpu) {
  auto peak = [](const std::string& more) {
    ordered_json plans = json_of("--config quickstart.yml --policies none " + more);
    return plans["plans"][0]["memory"]["device"]["peak_bytes"].get<int64_t>();
  };
  EXPECT_LT(peak("backend=cuda"), peak("backend=cuda_composed"));
  EXPECT_EQ(peak("--hardware h200 backend=cuda"), peak("--hardware h200"));
  EXPECT_EQ(peak("--hardware h200 backend=cuda_composed"), peak("backend=cuda_composed"));
  auto largest = [](const std::string& backend) {
    const ProgramResult result = run_plan(
        "--config quickstart.yml --hardware h200 --largest per_device_batch_size "
        "remat_policy=none backend=" +
        backend);
    const std::string says = "the largest per_device_batch_size that fits is ";
    return std::stoll(result.output.substr(result.output.find(says) + says.size()));
  };
  EXPECT_GT(largest("cuda"), largest("cuda_composed"));
  ProgramResult result = run_plan("--config quickstart.yml backend=cuda_composed");
  EXPECT_TRUE(contains(result.output, "planned for cuda_composed")) << result.output;
}

TEST(PlanProgram, ChoosesAPolicy) {
  const std::string kTiny =
      "--config llama3_8b.yml model_name=llama3.2_1b backend=auto --hardware rtx4090 "
      "base_num_decoder_layers=3 "
      "vocab_size=1024 max_target_length=512 ";
  ProgramResult named = run_plan(kTiny + "remat_policy=auto");
  ASSERT_EQ(named.exit_code, 0) << named.output;
  EXPECT_TRUE(contains(named.output, "plans simulated: none")) << named.output;
  EXPECT_TRUE(contains(named.output, "  remat_policy: \"none\"")) << named.output;
  ordered_json plans = json_of(kTiny + "--policies auto,full");
  EXPECT_EQ(plans["plans"][0]["policy"], "auto");
  EXPECT_EQ(plans["plans"][0]["chosen"]["remat_policy"], "\"none\"");
  EXPECT_LT(plans["plans"][0]["step_seconds"], plans["plans"][1]["step_seconds"]);
  for (const auto& plan : plans["plans"]) {
    const double rate = plan["tokens_per_second_per_device"], seconds = plan["step_seconds"];
    EXPECT_NEAR(rate * seconds, 2 * 512, 1e-6);
    double phases = 0;
    for (const auto& [name, part] : plan["phases"].items()) phases += part.get<double>();
    EXPECT_NEAR(phases / seconds, 1, 1e-6);
    EXPECT_GT(plan["mfu"], 0);
    EXPECT_LT(plan["mfu"], 1);
    EXPECT_EQ(plan["phases"]["recompute"] > 0, plan["policy"] == "full");
  }
  // Others take the batch as it is.
  EXPECT_GT(
      json_of(kTiny + "remat_policy=auto auto_micro_batch=true --policies all")["plans"].size(),
      5u);

  for (const auto& [arguments, words] :
       std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"--config quickstart.yml remat_policy=auto", {"hardware", "a profile", "--measure"}},
           {"--config quickstart.yml auto_micro_batch=true", {"auto_micro_batch", "auto"}},
           {kTiny + "remat_policy=auto context=device,offload", {"context", "one action"}},
           {kTiny + "remat_policy=auto device_memory_limit=0.001",
            {"none fits", "over device_memory_limit"}},
           {kTiny + "remat_policy=auot", {"remat_policy", "auot", "nearest: auto"}}}) {
    ProgramResult result = run_plan(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    for (const std::string& word : words)
      EXPECT_TRUE(contains(result.output, word)) << result.output;
  }
}

// Whatever fits nowhere, or is chosen by times, is said of each profile.
TEST(PlanProgram, PlansOnEveryProfile) {
  const std::string config =
      "--config llama2_7b.yml base_num_decoder_layers=8 max_target_length=512 --hardware all ";
  // The homes are set, so that the search is short.
  const ProgramResult result =
      run_plan(config +
               "remat_policy=auto host_memory_limit=0.5 offload_layers=0 "
               "parameter_memory_host_offload=false "
               "gradient_memory_host_offload=false optimizer_memory_host_offload=false");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_TRUE(contains(line_of(result.output, "h200"), "yes")) << result.output;
  EXPECT_TRUE(contains(line_of(result.output, "h200"), "measured")) << result.output;
  EXPECT_TRUE(contains(line_of(result.output, "rtx4090"), "nothing")) << result.output;
  EXPECT_TRUE(contains(line_of(result.output, "hardware"), "tokens/s")) << result.output;
  for (const char* option : {"--trace x", "--explain"}) {
    const ProgramResult refused = run_plan(config + option);
    EXPECT_EQ(refused.exit_code, 2) << refused.output;
    for (const char* words : {"found --hardware all", "h200"})
      EXPECT_TRUE(contains(refused.output, words)) << refused.output;
  }
}

// A plan on all profiles is the plan on each of them.
TEST(PlanProgram, PlansPoliciesOnEveryProfile) {
  const std::string config =
      "--config llama2_7b.yml base_num_decoder_layers=2 max_target_length=512 "
      "ici_fsdp_parallelism=4 dcn_fsdp_parallelism=2 ";
  const ordered_json all = json_of(config + "--hardware all --policies full,none");
  const ordered_json h100 = json_of(config + "--hardware h100 --policies full,none");
  std::map<std::string, std::vector<ordered_json>> by_profile;
  for (const ordered_json& plan : all["plans"]) by_profile[plan["hardware"]].push_back(plan);
  EXPECT_EQ(by_profile["h100"], h100["plans"].get<std::vector<ordered_json>>());
  EXPECT_EQ(by_profile["h100"][0]["hardware_source"], "published_runs");
  for (const auto& [name, plans] : by_profile) EXPECT_EQ(plans.size(), 2u) << name;
  // Profiles of cards that nobody puts into several nodes.
  ASSERT_FALSE(all["not_planned"].empty());
  for (const ordered_json& one : all["not_planned"])
    EXPECT_TRUE(contains(one["reason"], "has no dcn")) << one;
  EXPECT_EQ(std::ssize(all["plans"]) + std::ssize(all["not_planned"]),
            2 * std::ssize(hardware_names(default_configs_directory())));
  const std::string table = run_plan(config + "--hardware all --policies full,none").output;
  EXPECT_TRUE(contains(line_of(table, "hardware"), "policy")) << table;
  EXPECT_TRUE(contains(line_of(table, "h100"), "full")) << table;
}

const std::string kSmall =
    "--config llama2_7b.yml base_num_decoder_layers=4 max_target_length=512 ";

int64_t number_after(const std::string& text, const std::string& words) {
  const size_t found = text.find(words);
  EXPECT_NE(found, std::string::npos) << words << "\n" << text;
  return found == std::string::npos ? -1 : std::stoll(text.substr(found + words.size()));
}

TEST(PlanProgram, PlansWithTheLargestThatFits) {
  const std::string largest = "--largest per_device_batch_size ";
  const ProgramResult result = run_plan(kSmall + "--hardware h100 " + largest);
  const int64_t most =
      number_after(result.output, "h100: the largest per_device_batch_size that fits is ");
  auto plan_of = [&](const std::string& more) {
    return json_of(kSmall + "--hardware h100 " + more)["plans"][0];
  };
  const ordered_json plan = plan_of(largest);
  EXPECT_EQ(plan["per_device_batch_size"], most);
  EXPECT_EQ(plan, plan_of("per_device_batch_size=" + std::to_string(most)));
  EXPECT_EQ(plan["fits"], true);
  EXPECT_EQ(plan_of("per_device_batch_size=" + std::to_string(most + 1))["fits"], false);
  // The same of each profile.
  const std::string all = run_plan(kSmall + "--hardware all " + largest).output;
  std::istringstream row(line_of(all, "h100"));
  std::string name, fits, number;
  row >> name >> fits >> number;
  EXPECT_EQ(fits, "yes") << all;
  EXPECT_EQ(number, std::to_string(most)) << all;
}

TEST(PlanProgram, FindsTheFewestDevices) {
  const std::string large = "--config llama2_7b.yml --hardware h100 ";
  const std::string says = "h100: the fewest devices that it fits are ";
  const int64_t fewest = number_after(run_plan(large + "--fewest-devices").output, says);
  EXPECT_EQ(json_of(large + "--fewest-devices")["plans"][0]["devices"], fewest);
  for (int64_t fewer : {0, 1})
    EXPECT_EQ(json_of(large +
                      "ici_fsdp_parallelism=" + std::to_string(fewest - fewer))["plans"][0]["fits"],
              fewer == 0);
  EXPECT_TRUE(contains(run_plan(kSmall + "--hardware h100 --fewest-devices").output,
                       "h100: 1 device is enough"));
}

TEST(PlanProgram, SaysWhatTrainingCosts) {
  const std::string asked = "--tokens 2e9 --price-per-hour h100=2.5,h200=4 ";
  const ordered_json plan =
      json_of(kSmall + "--hardware h100 ici_fsdp_parallelism=2 " + asked)["plans"][0];
  const double rate = plan["tokens_per_second_per_device"], days = plan["training_days"];
  EXPECT_NEAR(days, 2e9 / (2 * rate) / 86400, 1e-9 * days);
  EXPECT_NEAR(plan["training_cost"].get<double>(), days * 24 * 2 * 2.5, 1e-6);
  EXPECT_NEAR(plan["tokens_per_money"].get<double>() * plan["training_cost"].get<double>(), 2e9, 1);
  const std::string all = run_plan(kSmall + "--hardware all " + asked).output;
  for (const char* column : {"days", "cost", "tokens/money"})
    EXPECT_TRUE(contains(line_of(all, "hardware"), column)) << all;
  EXPECT_TRUE(contains(line_of(all, "a100_80g"), " - ")) << "no price of it is given\n" << all;
  EXPECT_TRUE(contains(run_plan(kSmall + "--hardware h100 " + asked).output, "2e+09 tokens take "));
  EXPECT_TRUE(contains(
      line_of(run_plan(kSmall + "--hardware h100 --policies full,none --tokens 1e9").output,
              "policy"),
      "days"));
  for (const auto& [options, words] :
       {std::pair{"--hardware h100 --tokens -1", "--tokens: found -1"},
        {"--hardware h100 --tokens nan", "--tokens: found nan"},
        {"--hardware h100 --tokens 0", "--tokens: found 0, expected a number from 1 to"},
        {"--hardware h100 --price-per-hour h100=2,h100=3",
         "--price-per-hour: found a second price for h100, expected one"},
        {"--hardware h100 --price-per-hour h200=2",
         "--price-per-hour: found none for h100, which is planned for; expected h100=PRICE"},
        {"--measure", "--config: found beside --measure, which plans nothing"},
        {"--policies full,none,full", "--policies: found full twice"},
        {"--hardware h100 --tokens 1e300", "--tokens: found 1e+300, expected a number from 1 to"},
        {"--hardware h100 --price-per-hour 1e-300", "--price-per-hour: found '1e-300'"},
        {"--hardware h100 --trace -", "--trace: found -, expected the name of a file"},
        {"--hardware h100 --trace written_twice.json --json ./written_twice.json",
         "--trace: found written_twice.json, which --json writes"},
        {"--hardware h100 --fewest-devices ici_fsdp_parallelism=2",
         "command line ici_fsdp_parallelism: found 2, expected none: it is what is asked for"},
        {"--hardware h100 --price-per-hour 0", "--price-per-hour: found '0'"},
        {"--hardware h100 --price-per-hour h10=2", "nearest: h100"},
        {"--tokens 1e9", "--tokens: found no hardware"},
        {"--price-per-hour 2", "--price-per-hour: found no hardware"},
        {"--fewest-devices", "--fewest-devices: found no hardware"},
        {"--hardware h100 --fewest-devices --largest max_target_length", "expected one of them"}}) {
    const ProgramResult refused = run_plan(kSmall + options);
    EXPECT_EQ(refused.exit_code, 2) << refused.output;
    EXPECT_TRUE(contains(refused.output, words)) << refused.output;
  }
}

// Without a profile the question is whether it fits here.
TEST(PlanProgram, SaysWhetherItFitsThisMachine) {
  const std::string tiny = "base_num_decoder_layers=2 max_target_length=64 ";
  EXPECT_TRUE(contains(run_plan(kQuickstart + tiny).output, "fits on this machine: yes"));
  EXPECT_EQ(json_of(kQuickstart + tiny)["plans"][0]["fits"], true);
  EXPECT_TRUE(contains(run_plan("--config llama3_70b.yml backend=cpu").output,
                       "fits on this machine: no: memory "));
  const std::string limited =
      run_plan(kQuickstart + tiny + "--policies full,none device_memory_limit=0.001").output;
  for (const char* policy : {"full", "none"}) {
    std::istringstream row(line_of(limited, policy));
    std::string name, fits;
    row >> name >> fits;
    EXPECT_EQ(fits, "no:") << limited;
    EXPECT_TRUE(contains(row.str(), "over device_memory_limit")) << limited;
  }
  EXPECT_TRUE(line_of(limited, "policy").starts_with("policy                           fits "))
      << limited;
}

TEST(PlanProgram, CallsALayersInputByItsName) {
  const std::string full =
      run_plan("--config llama3_8b.yml backend=cuda lora_rank=8 remat_policy=full").output;
  EXPECT_TRUE(contains(full, "decoder_layer_input 4.00 GiB (32)")) << full;
  EXPECT_FALSE(contains(full, "add_2")) << full;
}

// Before anything is measured or planned, which takes long.
TEST(PlanProgram, RefusesAtOnceWhatItCouldNotFinish) {
  for (const auto& [arguments, words] :
       {std::pair{"--measure-to /nowhere/x.yml",
                  "--measure-to: found /nowhere/x.yml, but there is no"},
        {"--config llama3_70b.yml --hardware h100 --json /nowhere/x", "--json: found /nowhere/x"},
        {"--config llama3_70b.yml --hardware h100 --largest per_device_batch",
         "nearest: per_device_batch_size"}}) {
    const ProgramResult result = run_plan(arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments;
    EXPECT_TRUE(contains(result.output, words)) << result.output;
  }
}

// As train does, although the plan is that of the first device.
TEST(PlanProgram, RefusesAMeshWhoseLastDeviceTrainsNothing) {
  const ProgramResult result = run_plan(
      kQuickstart +
      "base_emb_dim=64 base_num_decoder_layers=2 head_dim=16 lora_rank=1 lora_targets=q_proj "
      "ici_fsdp_parallelism=8");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.output, "ici_fsdp_parallelism: found 8 devices")) << result.output;
  EXPECT_TRUE(contains(result.output, "expected at most ")) << result.output;
}

TEST(PlanProgram, WarnsOfKeysWithoutEffect) {
  const std::string warning = "warning: command line offload_layers: 3 has no effect";
  const std::string keys = "offload_layers=3 ";
  EXPECT_TRUE(contains(run_plan(kQuickstart + keys).output, warning));
  EXPECT_FALSE(contains(run_plan(kQuickstart + keys + "--policies full,qkv_proj_offloaded").output,
                        warning));
  EXPECT_FALSE(contains(run_plan(kQuickstart).output, "warning"));
  const std::string open = run_plan(kQuickstart + "ici_fsdp_parallelism=-1").output;
  EXPECT_TRUE(contains(open, "ici_fsdp_parallelism: found -1, which is planned as 1")) << open;
}

// What goes with a policy is asked of those that are named, not of the config's own.
TEST(PlanProgram, PlansThePoliciesThatAreNamed) {
  const std::string small =
      "--config llama2_7b.yml base_num_decoder_layers=4 max_target_length=512 --hardware h100 ";
  auto peak = [&](const std::string& more) {
    return json_of(small + more)["plans"].back()["memory"]["device"]["peak_bytes"].get<int64_t>();
  };
  EXPECT_EQ(peak("--policies custom context=device"), peak("remat_policy=custom context=device"));
  EXPECT_EQ(peak("--policies full,custom context=device"),
            peak("remat_policy=custom context=device"));
  EXPECT_EQ(json_of(small + "--policies auto auto_micro_batch=true")["plans"].size(), 1u);
  // Those that fit stand first, though others are quicker.
  const std::string rows = "per_device_batch_size=16 ";
  const int64_t of_full = peak(rows + "--policies full"), of_none = peak(rows + "--policies none");
  ASSERT_LT(of_full, of_none);
  const double limit = static_cast<double>(of_full + of_none) / 2 / (1 << 30);
  EXPECT_EQ(policies_of(run_plan(small + rows + "--policies none,full device_memory_limit=" +
                                 std::to_string(limit))
                            .output),
            (std::vector<std::string>{"full", "none"}));
  const ProgramResult unread = run_plan(small + "--policies full,none context=device");
  EXPECT_EQ(unread.exit_code, 2);
  EXPECT_TRUE(contains(unread.output, "context")) << unread.output;

  auto largest = [&](const std::string& more) {
    const std::string output = run_plan(small + "--largest max_target_length " + more).output;
    return output.substr(output.rfind('\n', output.size() - 2) + 1);
  };
  const std::string full = largest("--policies full"), none = largest("--policies none");
  EXPECT_NE(full, none);
  EXPECT_EQ(full, largest("remat_policy=full"));
  EXPECT_EQ(largest("--policies none,full").substr(std::string("h100, full").size()),
            full.substr(std::string("h100").size()));
  const ProgramResult traced = run_plan(small + "--policies none,full --trace x");
  EXPECT_EQ(traced.exit_code, 2);
  EXPECT_TRUE(contains(traced.output, "--trace: found none,full")) << traced.output;
}

TEST(PlanProgram, AdvisesOnOnePolicy) {
  const std::string toy = "--config toy_b.yml --hardware h200 ";
  EXPECT_TRUE(contains(run_plan(toy).output, "advice, each change by itself"));
  EXPECT_FALSE(contains(run_plan(toy + "--explain --policies all").output, "advice"));
  EXPECT_FALSE(contains(run_plan(toy + "--no-advice").output, "advice"));
}

TEST(PlanProgram, SaysWhatTakesLessWhereNothingFits) {
  const std::string large = run_plan("--config llama2_7b.yml --hardware h100").output;
  ASSERT_TRUE(contains(large, "fits: no")) << large;
  EXPECT_TRUE(contains(large, "what would take less")) << large;
  EXPECT_TRUE(contains(large, "  optimizer_memory_host_offload=true ")) << large;
  // What `auto` is said to do, it does or does better.
  const std::string chosen =
      run_plan("--config llama2_7b.yml --hardware h100 remat_policy=auto").output;
  const std::string says = "step on h100: ";
  const size_t begin = chosen.find(says) + says.size();
  const double seconds = std::stod(chosen.substr(begin));
  std::smatch said;
  ASSERT_TRUE(std::regex_search(
      large, said, std::regex("\n  remat_policy=auto .*: fits, ([0-9.]+) s a step or less\n")))
      << large;
  EXPECT_GE(std::stod(said[1]), seconds);
  EXPECT_LE(std::stod(said[1]), 1.02 * seconds);
  EXPECT_FALSE(contains(large, "keeping ")) << large;
}

struct Wrong {
  const char* name;
  const char* arguments;
  std::vector<std::string> words;
};

class PlanProgramRefuses : public testing::TestWithParam<Wrong> {};

TEST_P(PlanProgramRefuses, AndNamesWhatCanBe) {
  TemporaryFolder folder;
  ProgramResult result = run_plan(kQuickstart + "--json " + (folder / "plans.json").string() + " " +
                                  GetParam().arguments);
  EXPECT_EQ(result.exit_code, 2) << result.output;
  for (const std::string& word : GetParam().words)
    EXPECT_TRUE(contains(result.output, word)) << word << "\n" << result.output;
  EXPECT_EQ(folder.file_count(), 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Wrong, PlanProgramRefuses,
    testing::Values(
        Wrong{"Policy",
              "remat_policy=fulll",
              {"remat_policy", "'fulll'", "minimal_offloaded", "nearest: full"}},
        Wrong{"OneOfSeveralPolicies", "--policies none,fulll", {"'fulll'", "nearest: full"}},
        Wrong{"Label", "remat_policy=custom qkv_proj=offload", {"qkv_proj", "nearest: key_proj"}},
        Wrong{"AnotherModelsLabel",
              "remat_policy=custom x=offload",
              {"x: the model emits no label 'x'", "query_proj"}},
        Wrong{"LabelOfAnotherPolicy", "context=offload", {"context", "remat_policy: custom"}},
        Wrong{"Action", "remat_policy=custom context=sometimes", {"context", "remat, device"}},
        Wrong{"UnreadValue",
              "remat_policy=custom mlpwo=offload",
              {"mlpwo: offload cannot be honoured", "context, mlpwi_0, mlpwi_1"}},
        Wrong{"UpdatesOnTheHost",
              "optimizer_compute=host",
              {"optimizer_compute", "optimizer_memory_host_offload: true"}},
        Wrong{"OffloadLayers",
              "offload_layers=7",
              {"offload_layers", "found 7", "base_num_decoder_layers = 6"}},
        Wrong{"Option", "--no-such-option", {"no-such-option"}}),
    [](const testing::TestParamInfo<Wrong>& info) { return info.param.name; });

TEST(PlanProgram, RefusesPoliciesThatTheModelHasNoLabelsFor) {
  ProgramResult result = run_plan("--config toy_a.yml backend=cpu --policies minimal");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.output, "it emits x, y")) << result.output;
}

TEST(PlanProgram, RefusesWhatNoPolicySuits) {
  ProgramResult result = run_plan(
      "--config quickstart.yml --hardware h100 offload_layers=99 --policies all --trace x");
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_TRUE(contains(result.output, "offload_layers: found 99")) << result.output;
}

// Among all plans that auto tries there is none that honours the key.
TEST(PlanProgram, SaysWhyAutoCannotHonourALabel) {
  ProgramResult result = run_plan(
      "--config llama2_7b.yml base_num_decoder_layers=4 max_target_length=512 --hardware h100 "
      "remat_policy=auto mlpwo=offload");
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_TRUE(contains(result.output, "mlpwo: offload cannot be honoured")) << result.output;
}

// The first layers of the model stand for none that train.
TEST(PlanProgram, PlansAndAdvisesWhereOnlyTheLastLayersTrain) {
  for (const char* policy : {"full", "qkv_proj_offloaded", "auto"}) {
    ProgramResult result = run_plan(
        "--config llama2_7b.yml base_num_decoder_layers=8 max_target_length=512 --hardware h100 "
        "'trainable_parameters_mask=layers\\.7\\.' remat_policy=" +
        std::string(policy));
    EXPECT_EQ(result.exit_code, 0) << result.output;
  }
}

TEST(PlanProgram, FailsWhereTheFileCannotBeWritten) {
  const std::string nowhere = "/proc/plans.json";  // a folder that takes no files
  ProgramResult result = run_plan(kQuickstart + "--json " + nowhere);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.output, nowhere)) << result.output;
}

TEST(PlanProgram, PlansTheAdapterThatIsContinued) {
  const std::string model = std::filesystem::absolute("tests/goldens/models/lora_llama").string();
  TemporaryFolder folder;
  const std::string base =
      "--config " +
      folder.write("a.yml", "dataset_type: synthetic\nload_parameters_path: " + model + "\n")
          .string() +
      " steps=1 backend=cpu dtype=float32 ";
  auto peak = [&](const std::string& more) {
    ProgramResult result = run_plan(base + more);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return line_of(result.output, "device:");
  };
  EXPECT_EQ(peak("load_adapter_path=" + model + "/adapter"),
            peak("lora_rank=4 lora_alpha=8 lora_targets=q_proj,v_proj"));
  EXPECT_NE(peak("lora_rank=4"), peak(""));
  EXPECT_EQ(run_plan(base + "load_adapter_path=nowhere").exit_code, 1);
  // Which keys of policies are read is known where the policies are.
  EXPECT_EQ(run_plan(base + "--policies full,custom context=offload load_adapter_path=" + model +
                     "/adapter")
                .exit_code,
            0);
}

// Layers that offload are counted also where there are few.
TEST(PlanProgram, TakesAllLayersOfAFlatModel) {
  for (const char* layers : {"1", "2", "3"}) {
    ProgramResult result = run_plan(
        kQuickstart +
        "base_num_decoder_layers=3 remat_policy=qkv_proj_offloaded offload_layers=" + layers);
    EXPECT_EQ(result.exit_code, 0) << result.output;
  }
  ProgramResult refused = run_plan(
      kQuickstart + "base_num_decoder_layers=3 remat_policy=qkv_proj_offloaded offload_layers=4");
  EXPECT_TRUE(contains(refused.output, "found 4")) << refused.output;
}

}  // namespace
}  // namespace longshore::trainer
