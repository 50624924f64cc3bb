#include "longshore/trainer/weights/export_parameters.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "longshore/base/bfloat16.h"
#include "longshore/base/error.h"
#include "longshore/models/hf/config.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/trainer/config/trainable_mask.h"
#include "longshore/trainer/weights/adapter.h"
#include "longshore/trainer/weights/initialize.h"
#include "longshore/trainer/weights/load_parameters.h"
#include "tests/data/temporary_folder.h"
#include "tests/trainer/golden.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using data::TemporaryFolder;
using models::DecoderConfig;
using models::Dtype;
using offload::Copy;
using offload::MemoryKind;

DecoderConfig config_of(const std::string& name) {
  return models::parse_hf_config(data::read_file(golden_folder(name) / "config.json"));
}

// A model's weights where training has them.
struct Weights {
  Weights(const DecoderConfig& config, const offload::LayoutOptions& options,
          const std::vector<std::string>& mask = {})
      : model(config) {
    models::Model traced = models::decoder(model);
    Config masked;
    masked.trainable_parameters_mask = mask;
    apply_mask(masked, traced);
    layout = offload::lay_out(traced, options);
  }

  void load(const fs::path& folder, const fs::path& adapter = {}) {
    Config config;
    config.load_parameters_path = folder;
    config.load_adapter_path = adapter;
    load_parameters(config, model, layout, arguments);
  }

  void write(const fs::path& folder, Dtype dtype, const fs::path& source = {}) const {
    export_parameters(folder,
                      {.model = model,
                       .layout = layout,
                       .arguments = arguments,
                       .files = read_model_files(source, source)},
                      dtype);
  }

  // Of every bucket's compute and master weights, by argument.
  std::map<std::string, std::vector<std::byte>> buckets() const {
    std::map<std::string, std::vector<std::byte>> buckets;
    for (const offload::Bucket& bucket : layout.buckets)
      for (Copy copy : {Copy::compute, Copy::master}) {
        if (!bucket.has(copy)) continue;
        std::vector<std::byte>& contents = buckets[argument_name(bucket, copy)];
        contents.resize(static_cast<size_t>(bytes(bucket, copy)));
        arguments.read(argument_name(bucket, copy), contents.data(), bytes(bucket, copy));
      }
    return buckets;
  }

  DecoderConfig model;
  std::unique_ptr<offload::Backend> backend = offload::make_cpu_backend();
  offload::Ledger ledger;
  offload::Arguments arguments{*backend, ledger};
  offload::ParameterLayout layout;
};

struct Case {
  const char* name;
  Dtype compute, trained;
  std::vector<std::string> mask = {};  // what does not train has no master copy
};

class WriteParameters : public testing::TestWithParam<std::tuple<Case, MemoryKind>> {
 protected:
  const Case& of() const { return std::get<Case>(GetParam()); }
  offload::LayoutOptions options() const {
    const MemoryKind home = std::get<MemoryKind>(GetParam());
    return {.weight_dtype = of().trained, .homes = {home, home, home}};
  }
};

// What is written reads back to the bit: compute weights and masters, frozen and trained, with a
// config.json of our own.
TEST_P(WriteParameters, LoadsBackToTheBit) {
  DecoderConfig config = config_of(of().name);
  config.dtype = of().compute;
  Weights trained(config, options(), of().mask), loaded(config, options(), of().mask);
  initialize(trained.layout, 5, trained.arguments);
  TemporaryFolder temporary;
  trained.write(temporary / "to", Dtype::float32);
  loaded.load(temporary / "to");
  EXPECT_TRUE(trained.buckets() == loaded.buckets());

  DecoderConfig written = read_hf_config(temporary / "to").decoder;
  EXPECT_EQ(written.dtype, Dtype::float32);
  EXPECT_NE(data::SafetensorsFolder(temporary / "to").contains("lm_head.weight"),
            config.tied_embeddings);
}

// In bfloat16 the masters are rounded to nearest, as the compute weights were.
TEST_P(WriteParameters, InBfloat16EachWeightIsRoundedOnce) {
  DecoderConfig config = config_of(of().name);
  config.dtype = of().compute;
  Weights trained(config, options(), of().mask);
  initialize(trained.layout, 5, trained.arguments);
  TemporaryFolder temporary;
  trained.write(temporary / "f32", Dtype::float32);
  trained.write(temporary / "bf16", Dtype::bfloat16);
  const data::SafetensorsFolder wide(temporary / "f32"), narrow(temporary / "bf16");
  EXPECT_EQ(wide.names(), narrow.names());
  for (const std::string& name : wide.names()) {
    std::vector<float> expected = floats(wide.at(name));
    for (float& value : expected) value = to_float(to_bfloat16(value));
    EXPECT_EQ(narrow.at(name).dtype, data::SafetensorsDtype::bfloat16);
    EXPECT_EQ(floats(narrow.at(name)), expected) << name;
  }
  EXPECT_EQ(read_hf_config(temporary / "bf16").decoder.dtype, Dtype::bfloat16);
}

INSTANTIATE_TEST_SUITE_P(
    Models, WriteParameters,
    testing::Combine(testing::Values(Case{"llama2_mha_untied", Dtype::bfloat16, Dtype::float32},
                                     Case{"gemma2", Dtype::bfloat16, Dtype::bfloat16},
                                     Case{"gemma3_text", Dtype::float32, Dtype::float32},
                                     Case{"qwen2_bias",
                                          Dtype::bfloat16,
                                          Dtype::float32,
                                          {"self_attn", "mlp.down"}}),
                     testing::Values(MemoryKind::device, MemoryKind::pinned_host)),
    [](const auto& info) {
      return std::string(std::get<Case>(info.param).name) + "_" +
             (std::get<MemoryKind>(info.param) == MemoryKind::device ? "device" : "host");
    });

// A model that began as a checkpoint keeps that one's config.json but for the dtype and for RoPE,
// which is also written as older versions read it, and its tokenizer; unchanged weights give the
// same files.
TEST(WriteParametersFolder, CarriesOverWhatTrainingBeganFrom) {
  TemporaryFolder temporary;
  const fs::path source = temporary / "source";
  fs::create_directories(source);
  for (const char* file : {"config.json", "model.safetensors"})
    fs::copy_file(golden_folder("llama32_tied") / file, source / file);
  temporary.write("source/tokenizer.json", "{}");
  Weights weights(config_of("llama32_tied"), {});
  weights.load(source);
  weights.write(temporary / "f32", Dtype::float32, source);
  for (const char* file : {"model.safetensors", "tokenizer.json"})
    EXPECT_TRUE(data::read_file(temporary / "f32" / file) == data::read_file(source / file))
        << file;
  auto expect_config = [&](const char* folder, const std::string& expected) {
    auto found = nlohmann::json::parse(data::read_file(temporary / folder / "config.json"));
    nlohmann::json rope = found.at("rope_scaling");
    rope["rope_theta"] = found.at("rope_theta");
    EXPECT_EQ(rope, found.at("rope_parameters"));
    found.erase("rope_scaling");
    found.erase("rope_theta");
    EXPECT_EQ(found, nlohmann::json::parse(expected)) << folder;
  };
  const std::string config = data::read_file(source / "config.json");
  expect_config("f32", config);
  weights.write(temporary / "bf16", Dtype::bfloat16, source);
  expect_config("bf16", models::with_hf_dtype(config, "bfloat16"));
  EXPECT_THROW(weights.write(temporary / "i32", Dtype::int32, source), InternalError);
  EXPECT_FALSE(fs::exists(temporary / "i32"));
}

// Beside an adapter the base weights are written as they are.
TEST(WriteParametersFolder, LeavesAdaptersOut) {
  const fs::path golden = golden_folder("lora_gemma2");
  DecoderConfig config = config_of("lora_gemma2");
  config.lora = read_adapter_config(golden / "adapter", adapter_base(config));
  Weights weights(config, {});
  weights.load(golden, golden / "adapter");
  TemporaryFolder temporary;
  weights.write(temporary / "to", Dtype::float32, golden);
  EXPECT_TRUE(data::read_file(temporary / "to/model.safetensors") ==
              data::read_file(golden / "model.safetensors"));
}

}  // namespace
}  // namespace longshore::trainer
