#include "longshore/trainer/checkpoint/same_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "longshore/base/error.h"
#include "longshore/models/families/decoder.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/trainer/checkpoint/frozen_weights.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/distributed/connect.h"
#include "longshore/trainer/weights/initialize.h"
#include "tests/message_of.h"
#include "tests/trainer/distributed/store_worlds.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;

Config config_of(const std::vector<std::string>& settings) {
  return load_config("quickstart.yml", settings, default_configs_directory());
}

Manifest describe(const Config& config) {
  return describe_run(config, models::Dtype::float32, {"tokens"}, "frozen");
}

Checkpoint saved(const std::vector<std::string>& settings, int64_t step) {
  Checkpoint checkpoint{"c", describe(config_of(settings))};
  checkpoint.manifest.step = step;
  return checkpoint;
}

// Each of these by itself; "" where the run may go on.
std::string refusal(const std::string& setting) {
  const Config config = config_of({setting});
  try {
    require_same_run(config, describe(config), saved({}, 3));
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(SameRun, WhatDecidesStepsMayNotChange) {
  for (const char* setting :
       {"seed=1", "base_num_decoder_layers=2", "vocab_size=9000", "rope_max_timescale=20000",
        "lora_rank=4", "trainable_parameters_mask=norm", "max_target_length=64",
        "per_device_batch_size=3", "gradient_accumulation_steps=2", "weight_dtype=bfloat16",
        "learning_rate=0.5", "warmup_steps_fraction=0.5", "learning_rate_schedule_steps=7",
        "adam_b2=0.5", "gradient_clipping_threshold=0", "gradient_clipping=previous_global_norm",
        "moment_dtype=8bit", "dataset_type=documents"}) {
    const std::string key = std::string(setting).substr(0, std::string(setting).find('=')),
                      message = refusal(setting);
    EXPECT_THAT(message, HasSubstr("\n  " + key + ": ")) << setting;
    EXPECT_THAT(message, HasSubstr(" here (command line), "));
  }
}

TEST(SameRun, OtherKeysMayChange) {
  for (const char* setting : {"remat_policy=full",
                              "remat_policy=minimal_offloaded",
                              "offload_layers=2",
                              "parameter_memory_host_offload=true",
                              "optimizer_memory_host_offload=true",
                              "prefetch_layers=2",
                              "backend=cpu",
                              "run_name=x",
                              "base_output_directory=/x",
                              "checkpoint_period=5",
                              "async_checkpointing=false",
                              "max_num_checkpoints_to_keep=9",
                              "on_non_finite=skip",
                              "eval_interval=7",
                              "eval_steps=2",
                              "sample_tokens=0",
                              "profiler_steps=2",
                              "tensorboard_dir=/x",
                              "log_period=5",
                              "memory_report_steps=1,2",
                              "dataset_path=/moved/train.tokens",
                              "tokenizer_path=/moved",
                              "load_parameters_path=/moved"})
    EXPECT_EQ(refusal(setting), "") << setting;
}

TEST(SameRun, FilesAreComparedByContentNotByPath) {
  const Config config = config_of({"dataset_path=/other.tokens", "load_parameters_path=/b"});
  Manifest here = describe(config);
  here.data = {"other tokens"};
  here.frozen_weights = "others";
  const std::string message =
      message_of<ConfigError>([&] { require_same_run(config, here, saved({}, 3)); });
  for (const char* words :
       {"dataset_path: [\"/other.tokens\"] here (command line), ", "train.tokens\"] there",
        "load_parameters_path: \"/b\" here (command line), \"\" there, with other weights"})
    EXPECT_THAT(message, HasSubstr(words));
}

TEST(SameRun, KeysOfTheManifestAreReadAsTheConfigReadsThem) {
  const Config config = config_of({});
  for (const auto& [key, value] : {std::pair{"per_device_batch_size", "many"},
                                   {"per_device_batch_size", ""},
                                   {"ici_fsdp_parallelism", "99999999999999999999"},
                                   {"dcn_data_parallelism", "0"}}) {
    Checkpoint there = saved({}, 3);
    there.manifest.config[key] = value;
    const std::string message =
        message_of<DataError>([&] { require_same_run(config, describe(config), there); });
    EXPECT_TRUE(message.starts_with(std::string("c/manifest.json: config: ") + key + ": found "))
        << message;
    EXPECT_THAT(message, HasSubstr(", expected an integer"));
  }
}

// --- frozen weights

models::DecoderConfig adapted_model(int64_t vocabulary) {
  return {.length = 4,
          .vocabulary = vocabulary,
          .width = 24,
          .layers = 2,
          .query_heads = 2,
          .kv_heads = 1,
          .head_dim = 12,
          .mlp_width = 72,
          .lora = {.rank = 2, .targets = {"q_proj"}}};
}

// Of weights on so many devices, one of them with another number at `odd`.
std::string frozen_hash(int data, int fsdp, const std::string& odd_weight = "", int64_t odd = 0,
                        int64_t vocabulary = 301) {
  std::string hash;
  const auto work = [&](World& world) {
    const offload::DeviceMesh mesh{.data = {.size = data, .rank = world.rank() / fsdp},
                                   .fsdp = {.size = fsdp, .rank = world.rank() % fsdp}};
    const offload::ParameterLayout layout =
        offload::lay_out(models::decoder(adapted_model(vocabulary)), {.homes = {}, .mesh = mesh});
    const auto backend = offload::make_cpu_backend();
    offload::Ledger ledger;
    offload::Arguments arguments(*backend, ledger);
    write_parameters(
        layout,
        [&](const offload::Parameter& parameter, int64_t first, std::span<float> values) {
          for (int64_t i = 0; i < std::ssize(values); ++i)
            values[i] = static_cast<float>((first + i) % 1021);
          const int64_t at = odd - first;
          if (parameter.name == odd_weight && at >= 0 && at < std::ssize(values)) values[at] += 1;
        },
        arguments);
    const std::string mine = frozen_weights_hash(layout, arguments, world);
    if (world.is_first()) hash = mine;
  };
  if (data * fsdp > 1)
    on_ranks(data * fsdp, work);
  else
    work(*connect({}, models::Target::cpu));
  return hash;
}

TEST(FrozenWeights, CountToTheLastNumberOnHoweverManyDevices) {
  const std::string hash = frozen_hash(1, 1);
  EXPECT_EQ(frozen_hash(1, 1), hash);
  EXPECT_EQ(frozen_hash(1, 3), hash);
  EXPECT_EQ(frozen_hash(2, 2), hash);
  for (const auto& [name, count] : {std::pair{"model.embed_tokens.weight", 301 * 24},
                                    {"model.layers.1.mlp.down_proj.weight", 72 * 24},
                                    {"model.norm.weight", 24}})
    for (int64_t odd : {count / 2, count - 1})
      EXPECT_NE(frozen_hash(1, 1, name, odd), hash) << name << " " << odd;
  EXPECT_NE(frozen_hash(1, 3, "model.embed_tokens.weight", 301 * 24 - 1), hash);
  // Of a matrix that is read in several pieces.
  constexpr int64_t kMany = 700'000;
  EXPECT_NE(frozen_hash(1, 1, "model.embed_tokens.weight", kMany * 24 - 1, kMany),
            frozen_hash(1, 1, "", 0, kMany));
}

// A schedule as long as the run stays so when the run gets longer.
TEST(SameRun, MoreStepsMayBeAskedFor) {
  const Checkpoint there = saved({"steps=10"}, 10);
  auto go_on = [&](const std::vector<std::string>& settings) {
    const Config config = with_schedule_of(there, config_of(settings));
    require_same_run(config, describe(config), there);
    return config;
  };
  const Config longer = go_on({"steps=20"});
  EXPECT_EQ(longer.learning_rate_schedule_steps, 10);
  EXPECT_THAT(origin(longer, "learning_rate_schedule_steps"), HasSubstr("manifest.json"));
  EXPECT_NO_THROW(go_on({"steps=20", "learning_rate_schedule_steps=10"}));
  EXPECT_THROW(go_on({"steps=20", "learning_rate_schedule_steps=20"}), ConfigError);
  EXPECT_THAT(message_of<ConfigError>([&] { go_on({"steps=9"}); }),
              HasSubstr("steps: 9 here (command line), 10 done there"));
}

}  // namespace
}  // namespace longshore::trainer
