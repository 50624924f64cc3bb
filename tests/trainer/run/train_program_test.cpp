// The train program as a user meets it: its lines, its files and its exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/data/tokenizers/tokenizer.h"
#include "longshore/models/hf/config.h"
#include "longshore/trainer/checkpoint/checkpoint.h"
#include "longshore/trainer/checkpoint/frozen_weights.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/config/hardware_file.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/programs/probe/probe.h"
#include "longshore/trainer/step/flops.h"
#include "longshore/trainer/step/learning_rate.h"
#include "longshore/trainer/step/training_plans.h"
#include "longshore/trainer/weights/convert.h"
#include "tests/data/read_events.h"
#include "tests/data/safetensors_samples.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"
#include "tests/trainer/golden.h"
#include "tests/trainer/run_program.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

using data::TemporaryFolder;
using nlohmann::json;

ProgramResult run_train(const std::string& arguments, const std::string& environment = "") {
  return run_program(environment + " " TRAIN_PROGRAM " " + arguments);
}

const std::string kSmall =
    "--config quickstart.yml backend=cpu base_emb_dim=64 base_num_decoder_layers=3 "
    "base_num_query_heads=4 base_num_kv_heads=2 head_dim=16 base_mlp_dim=96 max_target_length=256 "
    "per_device_batch_size=2 ";
const std::string kSynthetic = kSmall + "vocab_size=257 dataset_type=synthetic ";

size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) ++found;
  return found;
}

std::vector<json> records(const std::filesystem::path& path) {
  std::istringstream lines(data::read_file(path));
  std::vector<json> records;
  for (std::string line; std::getline(lines, line);) records.push_back(json::parse(line));
  return records;
}

TEST(TrainProgram, SaysItsVersionAndThatItsFolderIsGone) {
  TemporaryFolder folder;
  const std::filesystem::path programs = std::filesystem::path(TRAIN_PROGRAM).parent_path();
  for (const char* name :
       {"train", "plan", "probe", "tokenize", "convert", "generate", "compare"}) {
    const std::string program = (programs / name).string();
    const ProgramResult version = run_program(program + " --version");
    EXPECT_EQ(version.exit_code, 0);
    EXPECT_TRUE(version.output.starts_with("longshore 0.")) << version.output;
    const std::string gone = (folder / "gone").string();
    const ProgramResult result = run_program("mkdir " + gone + " && cd " + gone + " && rmdir " +
                                             gone + " && " + program + " --help");
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.output, HasSubstr("the current folder: found one that has been removed"));
  }
}

TEST(TrainProgram, WritesTheRunDirectory) {
  TemporaryFolder folder;
  ProgramResult result =
      run_train(kSynthetic +
                "steps=4 gradient_accumulation_steps=2 peak_tflops_per_device=2 run_name=a "
                "base_output_directory=" +
                (folder / "").string());
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_TRUE(result.output.starts_with("backend: cpu (")) << result.output;
  EXPECT_EQ(count(result.output, "completed step: "), 4u);
  for (const char* name : {"config.yml", "plan.txt"})
    EXPECT_TRUE(std::filesystem::exists(folder / "a" / name)) << name;

  std::vector<json> steps = records(folder / "a" / "metrics.jsonl");
  ASSERT_EQ(steps.size(), 4u);
  for (const char* key : {"step", "seconds", "loss", "grad_norm", "learning_rate", "total_weights",
                          "tokens_per_second_per_device", "tflops_per_device", "mfu",
                          "device_peak_bytes", "pinned_host_peak_bytes"})
    for (const json& step : steps) EXPECT_TRUE(step.contains(key)) << key;
  EXPECT_EQ(steps[3]["step"], 3);
  EXPECT_EQ(steps[0]["total_weights"], 1024);
  EXPECT_NEAR(steps[0]["loss"].get<double>(), std::log(257.0), 0.3);

  const Config config =
      load_config((folder / "a" / "config.yml").string(), {}, default_configs_directory());
  const double flops = training_flops(make_model(config, models::Target::cpu), 2);
  for (const json& step : steps) {
    auto number = [&](const char* key) { return step.at(key).get<double>(); };
    EXPECT_NEAR(number("tokens_per_second_per_device") * number("seconds"), 1024, 1e-6);
    EXPECT_NEAR(number("tflops_per_device") * number("seconds") * 1e12 / flops, 1, 1e-9);
    EXPECT_NEAR(number("mfu") / number("tflops_per_device"), 1 / 2.0, 1e-9);
    EXPECT_EQ(number("learning_rate"), learning_rate_schedule(config).at(step["step"]));
  }

  json summary = json::parse(data::read_file(folder / "a" / "summary.json"));
  EXPECT_EQ(summary["steps"], 4);
  std::vector<double> seconds;  // of all steps but the first
  for (size_t i = 1; i < 4; ++i) seconds.push_back(steps[i]["seconds"]);
  std::ranges::sort(seconds);
  auto figure = [&](const char* key) { return summary.at(key).get<double>(); };
  EXPECT_EQ(figure("median_step_seconds"), seconds[1]);
  EXPECT_NEAR(figure("p90_step_seconds"), 0.2 * seconds[1] + 0.8 * seconds[2], 1e-12);
  EXPECT_NEAR(figure("tokens_per_second_per_device") * seconds[1], 1024, 1e-6);
  EXPECT_NEAR(figure("mfu") * seconds[1] * 2e12 / flops, 1, 1e-9);
  const json& device = summary["memory"]["device"];
  EXPECT_EQ(device["peak_bytes"], steps[0]["device_peak_bytes"]);
  auto bytes = [&](const char* key) { return device.at(key).get<int64_t>(); };
  EXPECT_EQ(bytes("peak_bytes"), bytes("argument_bytes") + bytes("output_bytes") -
                                     bytes("alias_bytes") + bytes("temp_bytes"));
  int64_t categories = 0;
  for (const auto& [name, part] : device["by_category"].items()) categories += part.get<int64_t>();
  EXPECT_EQ(categories, device["live_bytes"].get<int64_t>());

  // The figures of the only save are those of its line.
  const json& saves = summary["checkpoints"];
  EXPECT_EQ(saves["saves"], 1);
  int64_t bytes_of_files = 0;
  for (const SavedFile& file : open_checkpoint(folder / "a/checkpoints/00000004").manifest.files)
    bytes_of_files += file.bytes;
  EXPECT_EQ(saves["bytes"], bytes_of_files);
  std::smatch said;
  ASSERT_TRUE(std::regex_search(result.output, said,
                                std::regex("s, (\\d+) MB/s; training waited ([0-9.]+) s")))
      << result.output;
  EXPECT_NEAR(saves["bytes_per_second"].get<double>() / 1e6, std::stod(said[1]), 0.5001);
  EXPECT_NEAR(saves["median_stall_seconds"].get<double>(), std::stod(said[2]), 5.001e-4);

  // The run directory's config gives the same run again, under another policy too.
  ProgramResult again = run_train("--config " + (folder / "a" / "config.yml").string() +
                                  " run_name=b remat_policy=full checkpoint_period=2");
  ASSERT_EQ(again.exit_code, 0) << again.output;
  std::vector<json> steps_again = records(folder / "b" / "metrics.jsonl");
  ASSERT_EQ(steps_again.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(steps[i]["loss"], steps_again[i]["loss"]);
    EXPECT_EQ(steps[i]["grad_norm"], steps_again[i]["grad_norm"]);
    EXPECT_EQ(steps_again[i].contains("checkpoint_stall_seconds"), i == 2) << "behind the save";
  }
  const json summary_again = json::parse(data::read_file(folder / "b" / "summary.json"));
  EXPECT_EQ(summary_again["checkpoints"]["saves"], 2);
  EXPECT_EQ(summary_again["checkpoints"]["bytes"], bytes_of_files) << "of the last";
  EXPECT_NE(steps[0]["device_peak_bytes"], steps_again[0]["device_peak_bytes"]);
}

// What stays allocated for other plans of the run counts too: those of further micro-batches.
TEST(TrainProgram, TakesTheMemoryThatPlanSays) {
  TemporaryFolder folder;
  const std::string config =
      kSynthetic + "gradient_accumulation_steps=2 steps=1 run_name=a base_output_directory=" +
      (folder / "").string();
  ASSERT_EQ(run_train(config).exit_code, 0);
  const ProgramResult planned =
      run_program(PLAN_PROGRAM " " + config + " --json " + (folder / "p").string());
  ASSERT_EQ(planned.exit_code, 0) << planned.output;
  const json measured = json::parse(data::read_file(folder / "a" / "summary.json"))["memory"];
  const json predicted = json::parse(data::read_file(folder / "p"))["plans"][0]["memory"];
  for (const char* kind : {"device", "pinned_host"})
    for (const auto& [key, value] : measured[kind].items())
      EXPECT_EQ(predicted[kind][key], value) << kind << " " << key;
}

// It would be known only after training that there is no config.json to save it with.
TEST(TrainProgram, RefusesWhatCannotBeSaved) {
  TemporaryFolder folder;
  const std::string config = kSynthetic + "attn_logits_soft_cap=30 steps=1 run_name=a " +
                             "base_output_directory=" + (folder / "").string();
  const ProgramResult refused = run_train(config);
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_EQ(count(refused.output, "enable_checkpointing: found true, but no model_type"), 1u)
      << refused.output;
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  EXPECT_EQ(run_train(config + " enable_checkpointing=false").exit_code, 0);
}

TEST(TrainProgram, RefusesAProfileThatIsNotThere) {
  TemporaryFolder folder;
  const ProgramResult refused =
      run_train(kSynthetic +
                "hardware=h2000 prefetch_layers=1 base_output_directory=" + (folder / "").string());
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_EQ(count(refused.output, "nearest: h200"), 1u) << refused.output;
}

// A run goes on from the model that another one of the same config wrote.
TEST(TrainProgram, ReadsItsOwnModelsWithDefaults) {
  TemporaryFolder folder;
  int number = 0;
  for (const std::string model :
       {"model_type=gemma3_text full_attention_period=2", "model_type=gemma2",
        "model_type=llama full_attention_period=7"}) {
    const std::string runs = (folder / std::to_string(++number)).string();
    const std::string config =
        kSynthetic + "sliding_window_size=8 steps=1 " + model + " base_output_directory=" + runs;
    const ProgramResult first = run_train(config + " run_name=a");
    ASSERT_EQ(first.exit_code, 0) << model << ": " << first.output;
    const ProgramResult second =
        run_train(config + " run_name=b load_parameters_path=" + runs + "/a/model");
    EXPECT_EQ(second.exit_code, 0) << model << ": " << second.output;
  }
}

// Adapters on a checkpoint: from peft's files, to peft's files, and on from there.
TEST(TrainProgram, TrainsAdapters) {
  TemporaryFolder folder;
  const std::filesystem::path golden = golden_folder("lora_llama");
  const std::string base =
      "--config quickstart.yml backend=cpu base_emb_dim=48 base_num_decoder_layers=3 "
      "base_num_query_heads=6 base_num_kv_heads=2 head_dim=8 base_mlp_dim=68 vocab_size=151 "
      "rope_max_timescale=500000 rope_type=llama3 rope_factor=8 "
      "rope_original_max_position_embeddings=36 dtype=float32 dataset_type=synthetic steps=2 "
      "max_target_length=32 per_device_batch_size=2 peak_tflops_per_device=1 "
      "load_parameters_path=" +
      golden.string() + " base_output_directory=" + (folder / "").string();
  auto adapter = [&](const char* run) {
    return data::read_file(folder / run / "adapter/adapter_model.safetensors");
  };
  std::string first = (golden / "adapter").string();
  ProgramResult a = run_train(base + " run_name=a load_adapter_path=" + first);
  ASSERT_EQ(a.exit_code, 0) << a.output;
  // Three layers of q and v: 4 * (48 + 48) + 4 * (48 + 16) elements.
  EXPECT_EQ(count(a.output, " M parameters, of which 0.00192 M train, "), 1u) << a.output;
  EXPECT_EQ(count(a.output, "adapter: " + first), 1u) << a.output;
  EXPECT_NE(adapter("a"), data::read_file(golden / "adapter/adapter_model.safetensors"));

  // From the run's own config, and with one more thing that trains.
  ProgramResult b = run_train("--config " + (folder / "a/config.yml").string() + " run_name=b");
  ASSERT_EQ(b.exit_code, 0) << b.output;
  EXPECT_EQ(adapter("a"), adapter("b"));
  ProgramResult c = run_train(base +
                              " run_name=c 'trainable_parameters_mask=^model.norm' "
                              "load_adapter_path=" +
                              (folder / "a/adapter").string());
  ASSERT_EQ(c.exit_code, 0) << c.output;
  EXPECT_EQ(count(c.output, "of which 0.001968 M train"), 1u) << c.output;
  EXPECT_NE(adapter("a"), adapter("c"));

  // A run that goes on needs the folder that its adapter began from no more.
  const std::filesystem::path moved = folder / "moved";
  std::filesystem::copy(golden / "adapter", moved);
  for (const char* steps : {" steps=2", " steps=3"}) {
    std::string goes_on = base + " run_name=e load_adapter_path=" + moved.string();
    goes_on.replace(goes_on.find(" steps=2"), std::string(" steps=2").size(), steps);
    ProgramResult e = run_train(goes_on);
    ASSERT_EQ(e.exit_code, 0) << e.output;
    std::filesystem::remove_all(moved);
  }

  // Nor does one go on upon other weights than those that it has trained on.
  std::filesystem::copy(golden, folder / "other", std::filesystem::copy_options::recursive);
  std::string weights = data::read_file(golden / "model.safetensors");
  weights.back() = static_cast<char>(weights.back() ^ 1);
  write_file(folder / "other/model.safetensors", weights);
  std::string upon_others = base + " run_name=a load_adapter_path=" + first;
  upon_others.replace(upon_others.find(golden.string()), golden.string().size(),
                      (folder / "other").string());
  ProgramResult refused = run_train(upon_others);
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_EQ(count(refused.output, "load_parameters_path: "), 1u) << refused.output;
  EXPECT_EQ(count(refused.output, ", with other weights"), 1u) << refused.output;

  ProgramResult d = run_train(base + " run_name=d lora_rank=8 load_adapter_path=" + first);
  EXPECT_EQ(d.exit_code, 2);
  EXPECT_EQ(count(d.output, "lora_rank: 8 (command line), 4 in the adapter"), 1u) << d.output;
}

// What an adapter has been trained on, its weights are merged into.
TEST(TrainProgram, AdaptersOfAQuantizedBaseAreMergedIntoThat) {
  TemporaryFolder folder;
  for (const std::string golden : {"llama2_mha_untied", "phi3", "gpt_oss"})
    for (const std::string dtype : {"nf4", "int8"}) {
      const std::string run = golden + "_" + dtype;
      const ProgramResult trained = run_train(
          "--config quickstart.yml backend=cpu model_name= dataset_type=synthetic dtype=float32 "
          "sample_tokens=0 steps=2 learning_rate=0.01 max_target_length=32 per_device_batch_size=1 "
          "peak_tflops_per_device=1 lora_rank=2 frozen_weight_double_quantization=" +
          std::string(dtype == "nf4" ? "true" : "false") + " frozen_weight_dtype=" + dtype +
          " load_parameters_path=" + golden_folder(golden).string() +
          " base_output_directory=" + (folder / "").string() + " run_name=" + run);
      ASSERT_EQ(trained.exit_code, 0) << trained.output;
      auto logits = [&](const std::filesystem::path& model, const std::filesystem::path& adapter,
                        const std::vector<std::string>& keys) {
        const std::filesystem::path out = folder / (run + ".out");
        probe({.model = model,
               .inputs = golden_folder(golden) / "golden.safetensors",
               .out = out,
               .adapter = adapter,
               .overrides = keys});
        return floats(data::SafetensorsFile(out).at("logits"));
      };
      const std::filesystem::path merged = folder / (run + "_merged");
      EXPECT_NE(convert({.run = folder / run, .to = merged}).find(dtype), std::string::npos);
      std::vector<std::string> keys{"frozen_weight_dtype=" + dtype};
      if (dtype == "nf4") keys.emplace_back("frozen_weight_double_quantization=true");
      const std::vector<float> expected =
                                   logits(golden_folder(golden), folder / run / "adapter", keys),
                               plain = logits(golden_folder(golden), folder / run / "adapter", {}),
                               found = logits(merged, {}, {});
      double largest = 0, difference = 0, other = 0;
      for (size_t i = 0; i < found.size(); ++i) {
        largest = std::max<double>(largest, std::abs(expected[i]));
        difference = std::max<double>(difference, std::abs(found[i] - expected[i]));
        other = std::max<double>(other, std::abs(plain[i] - expected[i]));
      }
      EXPECT_LE(difference, 3e-5 * largest) << run;
      EXPECT_GE(other, 10 * difference) << run;
    }
}

// Matrices that the folder has in few bits stay so, and give what their numbers give.
TEST(TrainProgram, ABaseOfAdaptersStaysAsItsFolderHasIt) {
  TemporaryFolder folder;
  for (const std::string golden : {"nf4_checkpoint", "gptoss_mxfp4_checkpoint"}) {
    auto trained = [&](const std::string& dtype) {
      const std::string run = golden + "_" + dtype;
      const ProgramResult result = run_train(
          "--config quickstart.yml backend=cpu model_name= dataset_type=synthetic dtype=float32 "
          "sample_tokens=0 steps=2 learning_rate=0.01 max_target_length=32 per_device_batch_size=1 "
          "peak_tflops_per_device=1 lora_rank=2 frozen_weight_dtype=" +
          dtype + " load_parameters_path=" + golden_folder(golden).string() +
          " base_output_directory=" + (folder / "").string() + " run_name=" + run);
      EXPECT_EQ(result.exit_code, 0) << result.output;
      return folder / run;
    };
    const std::filesystem::path stored = trained("auto"), plain = trained("float32");
    EXPECT_EQ(data::read_file(stored / "adapter/adapter_model.safetensors"),
              data::read_file(plain / "adapter/adapter_model.safetensors"));
    auto plan_says = [](const std::filesystem::path& run, const char* what) {
      return data::read_file(run / "plan.txt").find(what) != std::string::npos;
    };
    EXPECT_TRUE(plan_says(stored, "dequantize")) << golden;
    EXPECT_FALSE(plan_says(plain, "dequantize")) << golden;
    // What the adapter is merged into is the same as well.
    for (const std::filesystem::path& run : {stored, plain})
      convert({.run = run, .to = run / "merged"});
    EXPECT_EQ(data::read_file(stored / "merged/model.safetensors"),
              data::read_file(plain / "merged/model.safetensors"));
  }
}

// As matrices are stored, quantized here, and as they are.
TEST(TrainProgram, WhatABaseHasBecomeSinceIsSeen) {
  struct Case {
    std::string golden, keys, tensor;
  };
  for (const auto& [golden, keys, tensor] :
       {Case{"nf4_checkpoint", "dtype=float32", "model.norm.weight"},
        Case{"gptoss_mxfp4_checkpoint", "dtype=float32",
             "model.layers.1.mlp.experts.down_proj_blocks"},
        Case{"llama2_mha_untied", "dtype=bfloat16 frozen_weight_dtype=nf4", "lm_head.weight"},
        Case{"llama2_mha_untied", "dtype=bfloat16 lora_dropout=0.1 trainable_token_indices=[3,7]",
             "model.layers.0.mlp.up_proj.weight"},
        Case{"llama32_tied", "dtype=float32 use_dora=true", "model.embed_tokens.weight"}}) {
    SCOPED_TRACE(golden + " " + keys);
    TemporaryFolder folder;
    const std::filesystem::path base = folder / "base", run = folder / "run";
    std::filesystem::copy(golden_folder(golden), base);
    const ProgramResult trained = run_train(
        "--config quickstart.yml backend=cpu model_name= dataset_type=synthetic sample_tokens=0 "
        "steps=1 max_target_length=16 per_device_batch_size=1 peak_tflops_per_device=1 lora_rank=2 "
        "load_parameters_path=" +
        base.string() + " base_output_directory=" + (folder / "").string() + " run_name=run " +
        keys);
    ASSERT_EQ(trained.exit_code, 0) << trained.output;
    EXPECT_NO_THROW(require_base_unchanged(run));
    const float other = 1;
    for (const std::filesystem::directory_entry& file : std::filesystem::directory_iterator(base))
      if (file.path().filename().string().starts_with("model") &&
          file.path().extension() == ".safetensors")
        data::change_tensor(file.path(), tensor, std::as_bytes(std::span(&other, 1)));
    EXPECT_THAT(message_of<DataError>([&] { require_base_unchanged(run); }),
                HasSubstr(base.string() + ": found other weights than those that the adapter of " +
                          run.string() +
                          " was trained beside, expected them as they were; "
                          "nearest: put those back, or convert --from "));
  }
}

TEST(TrainProgram, ScalesThatAreNotFiniteLeaveNoRun) {
  TemporaryFolder folder;
  std::filesystem::copy(golden_folder("gptoss_mxfp4_checkpoint"), folder / "model");
  const std::string scales = "model.layers.0.mlp.experts.gate_up_proj_scales";
  const std::byte nan{255};
  data::change_tensor(folder / "model/model.safetensors", scales, std::span(&nan, 1));
  const std::string said = (folder / "model").string() + ": tensor \"" + scales +
                           "\": found a scale of 255, expected at most 252";
  const ProgramResult trained = run_train(
      "--config quickstart.yml backend=cpu model_name= dataset_type=synthetic sample_tokens=0 "
      "lora_rank=2 load_parameters_path=" +
      (folder / "model").string() + " base_output_directory=" + (folder / "runs").string());
  EXPECT_EQ(trained.exit_code, 1);
  EXPECT_EQ(count(trained.output, said), 1u) << trained.output;
  EXPECT_FALSE(std::filesystem::exists(folder / "runs"));
  EXPECT_THAT(message_of<DataError>([&] {
                probe({.model = folder / "model",
                       .inputs = folder / "model/golden.safetensors",
                       .out = folder / "out"});
              }),
              HasSubstr(said));
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

// Longer texts than those that the weights were made for: what turns otherwise is saved so.
TEST(TrainProgram, SavesWhatItSaysOfRopeItself) {
  TemporaryFolder folder;
  auto trained = [&](const std::string& golden, const std::string& run, const std::string& keys) {
    return run_train(
        "--config quickstart.yml backend=cpu model_name= dataset_type=synthetic dtype=float32 "
        "sample_tokens=0 steps=1 max_target_length=32 per_device_batch_size=1 "
        "peak_tflops_per_device=1 "
        "load_parameters_path=" +
        golden_folder(golden).string() + " base_output_directory=" + (folder / "").string() +
        " run_name=" + run + " " + keys);
  };
  auto saved = [&](const std::string& model) {
    return models::parse_hf_config(data::read_file(folder / model / "config.json"));
  };
  const std::string scaled =
      "rope_type=yarn rope_factor=4 rope_original_max_position_embeddings=64 ";
  const models::RopeScaling yarn =
      models::YarnRopeScaling{4, 64, 32, 1, true, models::yarn_attention_factor(4)};
  const ProgramResult all =
      trained("llama2_mha_untied", "all", scaled + "max_position_embeddings=256");
  ASSERT_EQ(all.exit_code, 0) << all.output;
  EXPECT_EQ(count(all.output, "RoPE is scaled as these keys say"), 1u) << all.output;
  EXPECT_EQ(saved("all/model").rope_scaling, yarn);
  EXPECT_EQ(saved("all/model").max_position_embeddings, 256);

  // An adapter says nothing of it, but its run does.
  const ProgramResult adapter = trained("llama2_mha_untied", "adapter", scaled + "lora_rank=2");
  ASSERT_EQ(adapter.exit_code, 0) << adapter.output;
  convert({.run = folder / "adapter", .to = folder / "merged"});
  EXPECT_EQ(saved("merged").rope_scaling, yarn);

  const ProgramResult longer = trained("olmo3", "longer", "max_position_embeddings=4096");
  ASSERT_EQ(longer.exit_code, 0) << longer.output;
  EXPECT_EQ(count(longer.output, "RoPE is scaled"), 0u) << longer.output;
  EXPECT_EQ(saved("longer/model").max_position_embeddings, 4096);

  const ProgramResult unknown = trained("phi3", "unknown", scaled);
  EXPECT_EQ(unknown.exit_code, 2) << unknown.output;
  EXPECT_EQ(count(unknown.output, "what no config.json of phi3 says: rope_scaling"), 1u)
      << unknown.output;
}

// The text, tokenizer and shards are those that scripts/quickstart_data makes.
TEST(TrainProgram, TrainsValidatesAndSamplesTheQuickstart) {
  TemporaryFolder folder;
  ProgramResult result =
      run_train(kSmall + "steps=20 eval_interval=10 eval_steps=3 sample_tokens=5 " +
                "run_name=q base_output_directory=" + (folder / "").string());
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(count(result.output, "\nvalidation loss a"), 2u) << result.output;
  EXPECT_EQ(count(result.output, "sample: A ship is"), 1u) << result.output;
  json summary = json::parse(data::read_file(folder / "q" / "summary.json"));
  // Close to where a model of random weights starts, ln 4096, and below it.
  EXPECT_GT(summary["validation_loss"].get<double>(), 6.0);
  EXPECT_LT(summary["validation_loss"].get<double>(), std::log(4096.0));
  EXPECT_GT(summary["validation_unigram_loss"].get<double>(), 5.0);
  EXPECT_LT(summary["validation_unigram_loss"].get<double>(), 8.0);

  std::vector<json> validations = records(folder / "q" / "metrics.jsonl");
  std::erase_if(validations,
                [](const json& record) { return !record.contains("validation_loss"); });
  ASSERT_EQ(validations.size(), 2u);
  EXPECT_EQ(validations[0]["step"], 9);
  EXPECT_EQ(validations[1]["step"], 19);
  EXPECT_EQ(validations[1]["validation_loss"], summary["validation_loss"]);
  EXPECT_GT(validations[0]["validation_loss"], validations[1]["validation_loss"]);
}

TEST(TrainProgram, TunesOnConversations) {
  TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 40; ++i)
    lines += R"({"messages": [{"role": "user", "content": "The boats )" + std::to_string(i) +
             R"("}, {"role": "assistant", "content": ")" + std::string(1 + i * 17 % 90, 'a') +
             "\"}]}\n";
  std::string jsonl = folder.write("chat.jsonl", lines + "broken\n").string();
  std::string settings = kSmall +
                         "dtype=float32 vocab_size=512 dataset_type=documents chat_template=chatml "
                         "tokenizer_path=tests/goldens/tokenizers/bytelevel_bpe_qwen "
                         "steps=2 eval_interval=1 learning_rate=0 "
                         "peak_tflops_per_device=1 base_output_directory=" +
                         (folder / "").string() + " dataset_path=" + jsonl +
                         " eval_dataset_path=" + jsonl + " ";
  ProgramResult bad = run_train(settings);
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_EQ(count(bad.output, "train: command line dataset_path: " + jsonl + ":41: no valid JSON"),
            1u)
      << bad.output;

  settings += "skip_bad_lines=true ";
  ProgramResult packed = run_train(settings + "run_name=packed");
  ASSERT_EQ(packed.exit_code, 0) << packed.output;
  EXPECT_EQ(count(packed.output, ": 40 documents, "), 2u) << packed.output;
  EXPECT_EQ(count(packed.output, ", 1 bad line skipped"), 2u) << packed.output;
  ProgramResult alone = run_train(settings + "run_name=alone packing=false");
  ASSERT_EQ(alone.exit_code, 0) << alone.output;
  auto validation_loss = [&](const char* run) {
    return json::parse(data::read_file(folder / run / "summary.json"))["validation_loss"]
        .get<double>();
  };
  EXPECT_NEAR(validation_loss("packed"), validation_loss("alone"), 1e-5);
  EXPECT_LT(records(folder / "alone" / "metrics.jsonl")[0]["total_weights"].get<int64_t>(),
            records(folder / "packed" / "metrics.jsonl")[0]["total_weights"].get<int64_t>());
  // From the run's own config, with what was tokenized before.
  ProgramResult again =
      run_train("--config " + (folder / "packed/config.yml").string() + " run_name=again");
  ASSERT_EQ(again.exit_code, 0) << again.output;
  EXPECT_EQ(validation_loss("packed"), validation_loss("again"));
  using Iterator = std::filesystem::directory_iterator;
  EXPECT_EQ(std::distance(Iterator(folder / "tokens"), Iterator()), 1);

  // Others know where its texts and its turns end.
  const data::Tokenizer tokenizer(std::filesystem::path(LONGSHORE_SOURCE_DIR) /
                                  "tests/goldens/tokenizers/bytelevel_bpe_qwen");
  auto saved = [&](const char* file) {
    return json::parse(data::read_file(folder / "packed/model" / file));
  };
  EXPECT_EQ(saved("config.json")["eos_token_id"],
            json({tokenizer.eos_id(), *tokenizer.id_of("<|im_end|>")}));
  EXPECT_EQ(saved("config.json")["bos_token_id"], json());
  EXPECT_EQ(saved("generation_config.json")["eos_token_id"],
            json({tokenizer.eos_id(), *tokenizer.id_of("<|im_end|>")}));
}

// A policy that is chosen trains as any other does, and what was chosen is written down.
TEST(TrainProgram, TrainsUnderTheChosenPolicy) {
  constexpr auto kLimit = static_cast<int64_t>(0.004 * (1 << 30));
  TemporaryFolder folder;
  offload::Hardware machine = offload::nominal_hardware(models::Target::cpu);
  machine.device_bytes = machine.host_bytes = int64_t{1} << 34;
  write_file(folder / "machine.yml", text(machine));
  std::string base = kSynthetic + "steps=2 base_output_directory=" + (folder / "").string();
  ProgramResult plain = run_train(base + " run_name=a remat_policy=none"),
                chosen = run_train(base +
                                   " run_name=b remat_policy=auto device_memory_limit=0.004 "
                                   "hardware=" +
                                   (folder / "machine.yml").string());
  ASSERT_EQ(plain.exit_code, 0) << plain.output;
  ASSERT_EQ(chosen.exit_code, 0) << chosen.output;
  EXPECT_EQ(count(chosen.output, "the choice as a config says it:"), 1u) << chosen.output;
  std::vector<json> expected = records(folder / "a" / "metrics.jsonl"),
                    steps = records(folder / "b" / "metrics.jsonl");
  ASSERT_EQ(steps.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(steps[i]["loss"], expected[i]["loss"]);
    EXPECT_LE(steps[i]["device_peak_bytes"].get<int64_t>(), kLimit);
    EXPECT_GT(expected[i]["device_peak_bytes"].get<int64_t>(), kLimit) << "any policy would do";
  }
  std::string written = data::read_file(folder / "b" / "config.yml");
  EXPECT_THAT(written, HasSubstr("remat_policy: "));
  EXPECT_THAT(written, Not(HasSubstr("remat_policy: \"auto\"")));
}

// What was trained is there at the end, and training goes on from it.
TEST(TrainProgram, WritesTheWeights) {
  TemporaryFolder folder;
  std::string base =
      kSynthetic + "learning_rate=0.01 base_output_directory=" + (folder / "").string();
  ProgramResult first = run_train(base + " steps=4 run_name=a"),
                none = run_train(base + " steps=1 run_name=b enable_checkpointing=false"),
                on = run_train(base + " steps=1 run_name=c load_parameters_path=" +
                               (folder / "a/model").string());
  for (const ProgramResult* run : {&first, &none, &on}) ASSERT_EQ(run->exit_code, 0) << run->output;
  EXPECT_TRUE(std::filesystem::exists(folder / "a/model/config.json"));
  EXPECT_TRUE(std::filesystem::exists(folder / "c/model/model.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder / "b/model"));
  auto loss = [&](const char* run) {
    return records(folder / run / "metrics.jsonl")[0]["loss"].get<double>();
  };
  // The folder that a run began from may go; its files stay beside what the run saves.
  auto read = [&](const char* file) { return data::read_file(folder / file); };
  const std::string config = read("c/model/config.json");
  std::filesystem::create_directories(folder / "start");
  std::filesystem::copy(folder / "a/model/", folder / "start",
                        std::filesystem::copy_options::recursive);
  write_file(folder / "start/generation_config.json", "{}");
  for (const char* steps : {" steps=1", " steps=2"}) {
    ProgramResult goes_on =
        run_train(base + " run_name=d tokenizer_path= sample_tokens=0 load_parameters_path=" +
                  (folder / "start").string() + steps);
    ASSERT_EQ(goes_on.exit_code, 0) << goes_on.output;
    EXPECT_EQ(read("d/model/config.json"), config);
    EXPECT_EQ(read("d/model/generation_config.json"), "{}");
    std::filesystem::remove_all(folder / "start");
  }
  EXPECT_EQ(loss("b"), loss("a"));
  EXPECT_LT(loss("c"), loss("a") - 0.05) << "the same batch, on what has seen it";
}

// Tokenizing a text can take long.
TEST(TrainProgram, RefusesOtherWeightsBeforeItTokenizes) {
  TemporaryFolder folder;
  const std::string output = " base_output_directory=" + (folder / "").string();
  const ProgramResult saved = run_train(kSynthetic + "steps=1 run_name=a" + output);
  ASSERT_EQ(saved.exit_code, 0) << saved.output;
  write_file(folder / "text.txt", "A ship is at sea.\n");
  const ProgramResult refused =
      run_train(kSmall + "run_name=b dataset_type=documents eval_dataset_path= dataset_path=" +
                (folder / "text.txt").string() +
                " load_parameters_path=" + (folder / "a/model").string() + output);
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_EQ(count(refused.output, "vocab_size: 4096 here, 257 in the checkpoint"), 1u)
      << refused.output;
  EXPECT_FALSE(std::filesystem::exists(folder / "tokens"));
  EXPECT_FALSE(std::filesystem::exists(folder / "b"));
}

TEST(TrainProgram, RunsOnProcessorsWithoutAvx512) {
  TemporaryFolder folder;
  for (const char* isa : {"SSE41", "AVX2"}) {
    ProgramResult result = run_train(kSynthetic + "dtype=float32 steps=2 run_name=" + isa +
                                         " base_output_directory=" + (folder / "").string(),
                                     std::string("DNNL_MAX_CPU_ISA=") + isa);
    EXPECT_EQ(result.exit_code, 0) << result.output;
  }
  for (const char* key : {"dtype", "weight_dtype"}) {
    ProgramResult refused =
        run_train(kSynthetic + "steps=2 run_name=b " + key +
                      "=bfloat16 base_output_directory=" + (folder / "").string(),
                  "DNNL_MAX_CPU_ISA=AVX2");
    EXPECT_EQ(refused.exit_code, 2) << refused.output;
    EXPECT_EQ(count(refused.output, std::string("command line ") + key +
                                        ": found bfloat16, but this processor lacks"),
              1u)
        << refused.output;
  }
}

TEST(TrainProgram, RefusesWhatItCannotRunBeforeItAllocates) {
  TemporaryFolder folder;
  ProgramResult result = run_train(
      "--config llama3_70b.yml backend=cpu dtype=auto per_device_batch_size=2 "
      "base_output_directory=" +
      (folder / "").string());
  EXPECT_EQ(result.exit_code, 2);
  for (const char* word : {"does not fit", "device", "pinned_host", "optimizer", "available",
                           "per_device_batch_size=1", "max_target_length="})
    EXPECT_THAT(result.output, HasSubstr(word));
  EXPECT_EQ(folder.file_count(), 0u);
}

#ifndef __SANITIZE_ADDRESS__

// What the system would refuse is known before it is asked for.
TEST(TrainProgram, CountsWithTheLimitOfItsAddressSpace) {
  TemporaryFolder folder;
  // 337 MiB on the device, 1.48 GiB of activations in host memory; `ulimit` counts in KiB.
  ProgramResult result = run_train(
      "--config quickstart.yml backend=cpu base_emb_dim=64 base_num_decoder_layers=64 "
      "base_num_query_heads=4 base_num_kv_heads=2 head_dim=16 base_mlp_dim=96 vocab_size=257 "
      "max_target_length=2048 per_device_batch_size=8 dtype=float32 dataset_type=synthetic "
      "remat_policy=minimal_offloaded peak_tflops_per_device=1 steps=1 base_output_directory=" +
          (folder / "").string(),
      "ulimit -v 1500000;");
  EXPECT_EQ(result.exit_code, 2);
  for (const char* word : {" does not fit on this machine", "pinned_host   needs 1.48 GiB"})
    EXPECT_THAT(result.output, HasSubstr(word));
}

#endif

// What trace.json says of a recorded step, lane by lane in order of time.
using TracedLanes = std::map<int, std::vector<json>>;

TracedLanes expected_lanes(const Config& config) {
  static const std::map<offload::Phase, const char*> kPhases{
      {offload::Phase::forward, "forward"},
      {offload::Phase::backward, "backward"},
      {offload::Phase::optimizer, "optimizer"}};
  TrainingPlans plans = plan_training({config, models::Target::cpu});
  TracedLanes lanes;
  for (const offload::Plan* plan : plans.step.in_order())
    for (const offload::Instruction& instruction : plan->instructions) {
      const std::string phase = kPhases.at(instruction.scope.phase);
      json event{{"name", instruction.name},
                 {"cat", instruction.recomputes ? phase + ",recompute" : phase},
                 {"op", instruction.op ? instruction.op->name : "move"},
                 {"stage", instruction.scope.stage},
                 {"layer", instruction.scope.layer}};
      if (!instruction.op) event["bytes"] = instruction.in[0].type.bytes();
      lanes[static_cast<int>(instruction.lane)].push_back(event);
    }
  return lanes;
}

// As Perfetto reads them, which drops what reaches into the next event of its row.
int64_t whole_nanoseconds(const json& microseconds) {
  return static_cast<int64_t>(microseconds.get<double>() * 1000.0);
}

// By step; times are checked on the way.
std::map<int, TracedLanes> traced_lanes(const json& trace) {
  std::map<int, TracedLanes> steps;
  std::map<int, int64_t> lane_ends;
  for (const json& event : trace) {
    if (event["ph"] != "X") continue;
    int lane = event["tid"];
    const int64_t begin = whole_nanoseconds(event["ts"]),
                  duration = whole_nanoseconds(event["dur"]);
    EXPECT_GE(begin, lane_ends[lane]) << event;
    EXPECT_GE(duration, 0) << event;
    lane_ends[lane] = begin + duration;
    json what = event["args"];
    int step = what["step"];
    what.erase("step");
    what["name"] = event["name"];
    what["cat"] = event["cat"];
    steps[step][lane].push_back(what);
  }
  return steps;
}

// The most bytes that the counters show, by name; times are checked on the way.
std::map<std::string, int64_t> counted_peaks(const json& trace) {
  std::map<std::string, int64_t> peaks;
  std::map<std::string, double> times;
  for (const json& event : trace) {
    if (event["ph"] != "C") continue;
    const std::string name = event["name"];
    EXPECT_GE(event["ts"].get<double>(), times[name]) << event;
    times[name] = event["ts"];
    int64_t bytes = 0;
    for (const auto& [category, count] : event["args"].items()) bytes += count.get<int64_t>();
    peaks[name] = std::max(peaks[name], bytes);
  }
  return peaks;
}

// The most bytes that are live while a kernel runs.
std::map<std::string, int64_t> peaks_of_kernels(const Config& config) {
  const TrainingPlans plans = plan_training({config, models::Target::cpu});
  std::map<std::string, int64_t> peaks;
  const std::vector<const offload::Plan*> all = plans.step.of_step();
  for (offload::MemoryKind kind : {offload::MemoryKind::device, offload::MemoryKind::pinned_host}) {
    const std::vector<offload::Ledger::ByCategory> others = bytes_of_others(all, kind);
    for (size_t p = 0; p < all.size(); ++p) {
      const int64_t beside = std::accumulate(others[p].begin(), others[p].end(), int64_t{0});
      const std::vector<int64_t> live = live_bytes_by_instruction(*all[p], kind);
      int64_t& peak = peaks[std::string(name(kind)) + " bytes"];
      for (size_t i = 0; i < live.size(); ++i)
        if (all[p]->instructions[i].lane == offload::Lane::compute)
          peak = std::max(peak, live[i] + beside);
    }
  }
  return peaks;
}

TEST(TrainProgram, TracesTheChosenSteps) {
  TemporaryFolder folder;
  std::string settings = kSynthetic +
                         "steps=4 remat_policy=minimal_offloaded gradient_accumulation_steps=2 "
                         "optimizer_memory_host_offload=true optimizer_compute=host "
                         "peak_tflops_per_device=1 base_output_directory=" +
                         (folder / "").string() + " ";
  ProgramResult plain = run_train(settings + "run_name=plain");
  ASSERT_EQ(plain.exit_code, 0) << plain.output;
  ProgramResult traced =
      run_train(settings + "run_name=traced profiler_steps=2 skip_first_n_steps_for_profiler=1");
  ASSERT_EQ(traced.exit_code, 0) << traced.output;
  EXPECT_FALSE(std::filesystem::exists(folder / "plain" / "trace.json"));
  EXPECT_EQ(count(traced.output, "trace.json: 2 steps"), 1u) << traced.output;
  // As many as there are, where the run ends before.
  ProgramResult cut =
      run_train(kSynthetic + "steps=2 run_name=cut profiler_steps=9 base_output_directory=" +
                (folder / "").string());
  EXPECT_EQ(count(cut.output, "trace.json: 1 step;"), 1u) << cut.output;
  EXPECT_TRUE(std::filesystem::exists(folder / "cut" / "trace.json"));
  // Counted from where this process begins.
  ProgramResult resumed =
      run_train(kSynthetic + "steps=4 run_name=cut profiler_steps=1 base_output_directory=" +
                (folder / "").string());
  EXPECT_EQ(count(resumed.output, "trace.json: 1 step;"), 1u) << resumed.output;
  const std::vector<json> steps_of_both = records(folder / "cut" / "metrics.jsonl");
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(steps_of_both.at(i).contains("resumed"), i == 2) << i;

  json trace = json::parse(data::read_file(folder / "traced" / "trace.json"))["traceEvents"];
  std::map<int, std::string> names;
  for (const json& event : trace)
    if (event["name"] == "thread_name") names[event["tid"]] = event["args"]["name"];
  EXPECT_EQ(names, (std::map<int, std::string>{{0, "compute"},
                                               {1, "host_to_device"},
                                               {2, "device_to_host"},
                                               {3, "host_compute"},
                                               {4, "network"}}));

  const Config config =
      load_config((folder / "traced" / "config.yml").string(), {}, default_configs_directory());
  EXPECT_EQ(counted_peaks(trace), peaks_of_kernels(config));
  TracedLanes expected = expected_lanes(config);
  EXPECT_EQ(expected.size(), 4u);
  std::map<int, TracedLanes> steps = traced_lanes(trace);
  ASSERT_EQ(steps.size(), 2u);
  for (int step : {1, 2}) EXPECT_EQ(steps[step], expected) << step;
  // Labels as policies know them, layer by layer.
  std::set<int> layers;
  for (const json& event : expected[1])
    if (event["name"] == "query_proj") layers.insert(event["layer"].get<int>());
  EXPECT_EQ(layers, (std::set<int>{0, 1}));

  std::vector<json> without = records(folder / "plain" / "metrics.jsonl"),
                    with = records(folder / "traced" / "metrics.jsonl");
  ASSERT_EQ(without.size(), 4u);
  ASSERT_EQ(with.size(), 4u);
  for (size_t i = 0; i < 4; ++i)
    for (const char* key : {"loss", "grad_norm"}) EXPECT_EQ(without[i][key], with[i][key]) << i;
}

// A process that goes on begins another file.
TEST(TrainProgram, WritesEventFilesForTensorBoard) {
  TemporaryFolder folder;
  auto train = [&](const std::string& steps, const std::filesystem::path& events) {
    return run_train(kSynthetic + "run_name=a base_output_directory=" + (folder / "").string() +
                     " tensorboard_dir=" + events.string() + " steps=" + steps);
  };
  for (const char* steps : {"2", "3"}) {
    const ProgramResult result = train(steps, folder / "events");
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(count(result.output, "TensorBoard: tensorboard --logdir "), 1u) << result.output;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "events" / "a"))
    files.push_back(entry.path());
  std::ranges::sort(files);
  ASSERT_EQ(files.size(), 2u);
  std::vector<data::ReadEvent> steps;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::vector<data::ReadEvent> events = data::read_events(data::read_file(files[i]));
    EXPECT_EQ(events.at(1).step, i == 0 ? 0 : 2);
    EXPECT_NE(events.at(2).texts.at("config").at(0).find("    run_name: \"a\""), std::string::npos);
    for (const data::ReadEvent& event : events)
      if (event.scalars.contains("learning/loss")) steps.push_back(event);
  }
  const std::vector<json> expected = records(folder / "a" / "metrics.jsonl");
  ASSERT_EQ(steps.size(), expected.size());
  ASSERT_EQ(steps.size(), 3u);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  double before = std::chrono::duration<double>(now).count() - 600;
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].step, expected[i]["step"]);
    EXPECT_EQ(steps[i].time, expected[i]["time"]);
    EXPECT_EQ(steps[i].scalars.at("learning/loss"), expected[i]["loss"].get<float>());
    EXPECT_GE(steps[i].time, before);
    before = steps[i].time;
  }
  const ProgramResult refused = train("4", folder / "a" / "metrics.jsonl");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.output,
              testing::AllOf(HasSubstr("command line tensorboard_dir: "),
                             HasSubstr("metrics.jsonl/a: cannot be made: Not a directory")));
}

TEST(TrainProgram, ExitCodesTellUsageFromFailure) {
  TemporaryFolder folder;
  std::string out = "base_output_directory=" + (folder / "").string() + " ";
  EXPECT_EQ(run_train("--help").exit_code, 0);
  EXPECT_THAT(run_train("--help").output, HasSubstr("per_device_batch_size"));
  EXPECT_EQ(run_train("").exit_code, 2);
  for (const auto& [argument, nearest] :
       {std::pair{"--steps=3", "nearest: steps=VALUE"},
        {"--training.per-device-batch-size 3", "nearest: per_device_batch_size=VALUE"},
        {"--confg x.yml", "nearest: --config"}}) {
    const ProgramResult result = run_train(std::string("--config quickstart.yml ") + argument);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(count(result.output, nearest), 1u) << result.output;
  }
  // Of the misspelled and the missing option, the message is on the former.
  EXPECT_EQ(run_train("--confg quickstart.yml").output,
            "train: The following argument was not expected: --confg; nearest: --config\n"
            "Run with --help for more information.\n");
  EXPECT_EQ(run_train("--config no_such_file.yml").exit_code, 2);
  struct Wrong {
    const char *setting, *message;
  };
  for (Wrong wrong : {Wrong{"remat_polcy=full", "nearest: remat_policy"},
                      Wrong{"remat_policy=fulll", "nearest: full"},
                      Wrong{"context=device", "remat_policy"}, Wrong{"steps=abc", "steps"}}) {
    ProgramResult result = run_train(kSynthetic + out + wrong.setting);
    EXPECT_EQ(result.exit_code, 2) << wrong.setting;
    std::string lower = result.output, message = wrong.message;
    for (std::string* text : {&lower, &message})
      std::transform(text->begin(), text->end(), text->begin(), ::tolower);
    EXPECT_THAT(lower, HasSubstr(message)) << result.output;
  }
  EXPECT_EQ(folder.file_count(), 0u);

  ASSERT_EQ(run_train(kSynthetic + out + "steps=1 run_name=taken").exit_code, 0);
  for (const char* what : {"steps=2", "steps=1 enable_checkpointing=false"}) {
    std::filesystem::remove_all(folder / "taken/checkpoints");
    ProgramResult taken = run_train(kSynthetic + out + what + " run_name=taken");
    EXPECT_EQ(taken.exit_code, 2);
    EXPECT_THAT(taken.output, HasSubstr("taken holds a run "));
  }

  ProgramResult missing = run_train(kSmall + out + "dataset_path=/no/such.tokens run_name=none");
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.output, HasSubstr("/no/such.tokens"));
  folder.write("cut.tokens", "LSTOK");
  ProgramResult cut =
      run_train(kSmall + out + "run_name=none dataset_path=" + (folder / "cut.tokens").string());
  EXPECT_EQ(cut.exit_code, 1);
  EXPECT_THAT(cut.output, HasSubstr("cut.tokens: not a token file"));
  EXPECT_FALSE(std::filesystem::exists(folder / "none"));
}

}  // namespace
}  // namespace longshore::trainer
