#include "longshore/trainer/weights/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "longshore/base/bfloat16.h"
#include "longshore/base/error.h"
#include "longshore/base/philox.h"
#include "longshore/data/safetensors/safetensors_float.h"
#include "longshore/data/safetensors/safetensors_writer.h"
#include "longshore/models/hf/config.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/trainer/programs/probe/probe.h"
#include "longshore/trainer/weights/adapter.h"
#include "longshore/trainer/weights/adapter_format.h"
#include "longshore/trainer/weights/export_parameters.h"
#include "longshore/trainer/weights/initialize.h"
#include "tests/data/safetensors_samples.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"
#include "tests/trainer/golden.h"
#include "tests/trainer/run_program.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;
using data::read_file;
using data::SafetensorsDtype;
using data::TemporaryFolder;

std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file()) files[entry.path().filename()] = read_file(entry.path());
  return files;
}

std::string bytes_of(const data::SafetensorsTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()};
}

// Config and weights of a golden case, and a tokenizer's files.
fs::path source(const TemporaryFolder& temporary, const std::string& name) {
  const fs::path folder = temporary / name;
  fs::create_directories(folder);
  for (const fs::directory_entry& entry : fs::directory_iterator(golden_folder(name))) {
    const std::string file = entry.path().filename();
    if (file == "config.json" || file.starts_with("model"))
      fs::copy_file(entry.path(), folder / file);
  }
  temporary.write(name + "/tokenizer.json", "{\"any\": \"bytes\xff\"}");
  temporary.write(name + "/chat_template.jinja", "");
  temporary.write(name + "/README.md", "not copied");
  return folder;
}

TEST(Convert, WithoutADtypeNothingChangesAndTheSecondTripGivesTheSameFiles) {
  TemporaryFolder temporary;
  for (const char* name : {"llama31_gqa", "llama32_tied"})
    for (int64_t max_shard_bytes : {int64_t{20'000}, kDefaultMaxShardBytes}) {
      const fs::path from = source(temporary, name);
      const fs::path first = temporary / "first", second = temporary / "second";
      convert({.from = from, .to = first, .dtype = {}, .max_shard_bytes = max_shard_bytes});
      convert({.from = first, .to = second, .dtype = {}, .max_shard_bytes = max_shard_bytes});
      EXPECT_TRUE(contents(first) == contents(second));

      data::SafetensorsFolder before(from), after(first);
      ASSERT_EQ(before.names(), after.names());
      for (const std::string& tensor : before.names()) {
        EXPECT_EQ(data::SafetensorsInfo(before.at(tensor)), after.at(tensor));
        EXPECT_TRUE(bytes_of(before.at(tensor)) == bytes_of(after.at(tensor))) << tensor;
      }
      const auto files = contents(first);
      EXPECT_EQ(files.at("config.json"),
                models::with_both_spellings(read_file(from / "config.json")));
      for (const char* same : {"tokenizer.json", "chat_template.jinja"})
        EXPECT_EQ(files.at(same), read_file(from / same));
      EXPECT_FALSE(files.contains("README.md"));
      EXPECT_EQ(files.contains("model.safetensors"), max_shard_bytes == kDefaultMaxShardBytes);
      EXPECT_EQ(files.contains("model.safetensors.index.json"),
                max_shard_bytes != kDefaultMaxShardBytes);
      for (const fs::path& folder : {from, first, second}) fs::remove_all(folder);
    }
}

TEST(Convert, WhatMakersPassOnGoesAlong) {
  TemporaryFolder temporary;
  const fs::path from = source(temporary, "llama32_tied");
  fs::create_directory(from / "additional_chat_templates");
  const std::vector<std::string> kept = {"LICENSE.txt",
                                         "Notice",
                                         "USE_POLICY.md",
                                         "licence",
                                         "generation_config.json",
                                         "additional_chat_templates/tool_use.jinja"};
  const std::vector<std::string> left = {"relicense.txt", "additional_chat_templates/readme"};
  for (const auto& names : {kept, left})
    for (const std::string& name : names)
      temporary.write("llama32_tied/" + name, "the text of " + name);
  convert({.from = from, .to = temporary / "to", .dtype = {}});
  for (const std::string& name : kept)
    EXPECT_EQ(read_file(temporary / "to" / name), "the text of " + name);
  for (const std::string& name : left) EXPECT_FALSE(fs::exists(temporary / "to" / name)) << name;
}

// transformers 5 saves rope_parameters alone, which 4 does not know.
TEST(Convert, RopeIsWrittenInBothSpellings) {
  TemporaryFolder temporary;
  for (const char* name : {"llama31_gqa", "gemma3_text"}) {
    const fs::path from = source(temporary, name);
    auto config = nlohmann::json::parse(read_file(from / "config.json"));
    const models::DecoderConfig decoder = read_hf_config(from).decoder;
    const std::vector<std::string> older = {"rope_theta", "rope_scaling", "rope_local_base_freq",
                                            "sliding_window_pattern", "_sliding_window_pattern"};
    const auto both = nlohmann::json::parse(models::with_both_spellings(config.dump()));
    auto newer_alone = both;
    for (const std::string& key : older) newer_alone.erase(key);
    temporary.write(std::string(name) + "/config.json", newer_alone.dump());
    convert({.from = from, .to = temporary / (std::string("to_") + name), .dtype = {}});
    const auto written =
        nlohmann::json::parse(read_file(temporary / (std::string("to_") + name) / "config.json"));
    EXPECT_EQ(written.at("rope_theta"), decoder.rope_base);
    EXPECT_TRUE(written.contains("rope_parameters"));
    EXPECT_EQ(written.contains("rope_scaling"), decoder.rope_scaling != models::RopeScaling{});
    EXPECT_EQ(written.contains("rope_local_base_freq"), decoder.window_rope_base > 0);
  }
}

// Each in its layers' order: a reader that wants one layer finds it in one file or two.
TEST(Convert, FilesHoldLayersInOrder) {
  TemporaryFolder temporary;
  convert({.from = golden_folder("llama31_gqa"),
           .to = temporary / "to",
           .dtype = {},
           .max_shard_bytes = 20'000});
  const auto index =
      data::parse_safetensors_index(read_file(temporary / "to" / "model.safetensors.index.json"));
  const std::string norm = ".input_layernorm.weight";
  EXPECT_LT(index.at("model.embed_tokens.weight"), index.at("model.layers.0" + norm));
  EXPECT_LT(index.at("model.layers.0" + norm), index.at("model.layers.1" + norm));
  EXPECT_LT(index.at("model.layers.1" + norm), index.at("model.layers.2" + norm));
}

TEST(Convert, EachWeightIsRoundedAndWidenedBackExactly) {
  TemporaryFolder temporary;
  const fs::path from = source(temporary, "qwen2_bias");
  convert({.from = from, .to = temporary / "bf16", .dtype = SafetensorsDtype::bfloat16});
  convert({.from = temporary / "bf16",
           .to = temporary / "back",
           .dtype = SafetensorsDtype::float32,
           .max_shard_bytes = 10'000});
  data::SafetensorsFolder original(from), narrow(temporary / "bf16"), wide(temporary / "back");
  for (const std::string& name : original.names()) {
    std::vector<float> expected = floats(original.at(name));
    for (float& value : expected) value = to_float(to_bfloat16(value));
    EXPECT_EQ(narrow.at(name).dtype, SafetensorsDtype::bfloat16);
    EXPECT_EQ(wide.at(name).dtype, SafetensorsDtype::float32);
    EXPECT_EQ(floats(narrow.at(name)), expected) << name;
    EXPECT_EQ(floats(wide.at(name)), expected) << name;
    EXPECT_EQ(wide.at(name).shape, original.at(name).shape);
  }
  EXPECT_EQ(read_hf_config(temporary / "bf16").decoder.dtype, models::Dtype::bfloat16);
  EXPECT_EQ(read_hf_config(temporary / "back").decoder, read_hf_config(from).decoder);
}

// A tied model's lm_head may be there as a copy, and stays.
TEST(Convert, RefusesWeightsThatAreNotTheModels) {
  TemporaryFolder temporary;
  const fs::path folder = source(temporary, "llama32_tied");
  const data::SafetensorsFolder weights(folder);
  std::vector<data::SafetensorsInfo> tensors;
  for (const std::string& name : weights.names()) tensors.push_back(weights.at(name));
  auto write = [&](const fs::path& to, float value) {
    write_hf_folder(to, {.files = {read_file(folder / "config.json"), {}},
                         .tensors = tensors,
                         .append_data = [&](const data::SafetensorsInfo& info, auto& writer) {
                           const auto count = static_cast<size_t>(info.bytes()) / 4;
                           const std::vector<float> values(count, value);
                           writer.append(info.name, std::as_bytes(std::span(values)));
                         }});
  };
  auto refusal = [&](const fs::path& from, std::optional<SafetensorsDtype> dtype = {}) {
    const std::string what = message_of<DataError>(
        [&] { convert({.from = from, .to = temporary / "to", .dtype = dtype}); });
    EXPECT_FALSE(fs::exists(temporary / "to"));
    return what;
  };
  write(temporary / "large", 65520);
  EXPECT_EQ(refusal(temporary / "large", SafetensorsDtype::float16),
            "tensor \"model.embed_tokens.weight\": found finite F32 values beyond what F16 can "
            "hold, expected none");

  tensors.push_back(tensors.front());
  tensors.back().name = "lm_head.weight";
  write(temporary / "tied", 1);
  EXPECT_NO_THROW(convert({.from = temporary / "tied", .to = temporary / "tied_too", .dtype = {}}));
  EXPECT_TRUE(data::SafetensorsFolder(temporary / "tied_too").contains("lm_head.weight"));

  write_hf_folder(temporary / "untied",
                  {.files = {read_file(folder / "config.json"), {}},
                   .tensors = tensors,
                   .append_data = [](const data::SafetensorsInfo& info, auto& writer) {
                     const std::vector<float> values(static_cast<size_t>(info.bytes()) / 4,
                                                     info.name == "lm_head.weight" ? 2.f : 1.f);
                     writer.append(info.name, std::as_bytes(std::span(values)));
                   }});
  EXPECT_THAT(refusal(temporary / "untied"),
              HasSubstr("lm_head.weight differs from model.embed_tokens.weight, expected a copy of "
                        "it, or tie_word_embeddings: false"));

  tensors.back().dtype = SafetensorsDtype::int32;
  const std::string missing = tensors[1].name;
  tensors[1].name += "x";
  write(temporary / "other", 1);
  const std::string what = refusal(temporary / "other");
  for (const std::string& part :
       {std::string("other: is not this model's"),
        std::string("lm_head.weight is I32, expected F32"),
        "missing " + missing + "; nearest:", "not expected: " + missing + "x"})
    EXPECT_THAT(what, HasSubstr(part));
  fs::remove(folder / "config.json");
  EXPECT_THAT(message_of<ConfigError>([&] { refusal(folder); }),
              HasSubstr("found no config.json, expected"));
  ASSERT_EQ(mkfifo((folder / "config.json").c_str(), 0600), 0);
  EXPECT_THAT(refusal(folder), HasSubstr("config.json: expected a regular file"));
  EXPECT_THAT(refusal(temporary / "nothing"), HasSubstr("nothing/config.json"));
}

TEST(Convert, RefusesScalesThatAreNotFinite) {
  const float huge = std::numeric_limits<float>::max();
  const std::byte largest{255};  // NaN in MXFP4, else the code of 1
  for (const auto& [golden, scales] :
       {std::pair<std::string, std::string>{"nf4_checkpoint",
                                            "model.layers.0.self_attn.q_proj.weight.absmax"},
        {"gptoss_mxfp4_checkpoint", "model.layers.1.mlp.experts.down_proj_scales"}}) {
    TemporaryFolder temporary;
    const fs::path folder = source(temporary, golden), file = folder / "model.safetensors";
    data::change_tensor(file, scales, std::span(&largest, 1));
    if (golden == "nf4_checkpoint")
      data::change_tensor(file, "model.layers.0.self_attn.q_proj.weight.nested_absmax",
                          std::as_bytes(std::span(&huge, 1)));
    EXPECT_THAT(message_of<DataError>([&] { convert({.from = folder, .to = temporary / "to"}); }),
                HasSubstr(folder.string() + ": tensor \"" + scales + "\": found "));
    EXPECT_FALSE(fs::exists(temporary / "to"));
  }
}

// A missing file among those to copy is none; one that cannot be read is an error, and nothing is
// left.
TEST(Convert, AFolderIsWholeOrNotThere) {
  TemporaryFolder temporary;
  const fs::path from = source(temporary, "llama32_tied");
  fs::create_symlink("nowhere", from / "tokenizer.model");
  EXPECT_THAT(
      message_of<DataError>([&] { convert({.from = from, .to = temporary / "to", .dtype = {}}); }),
      HasSubstr("tokenizer.model"));
  EXPECT_EQ(temporary.file_count(), 1u);
  fs::remove(from / "tokenizer.model");
  EXPECT_THAT(message_of<ConfigError>([&] { convert({.from = from, .to = from, .dtype = {}}); }),
              HasSubstr("nearest: " + from.string() + "-2"));
}

// --- models that also read images

// The golden text model inside a model that also reads images, as it is published or as
// transformers 4.52 and later write it, in several files.
fs::path with_images(const TemporaryFolder& temporary, const std::string& prefix) {
  const fs::path golden = golden_folder("gemma3_text"), folder = temporary / "with_images";
  nlohmann::json config = {{"model_type", "gemma3"},
                           {"architectures", {"Gemma3ForConditionalGeneration"}},
                           {"mm_tokens_per_image", 256},
                           {"vision_config", {{"hidden_size", 8}}}};
  config["text_config"] = nlohmann::json::parse(read_file(golden / "config.json"));
  const data::SafetensorsFolder text(golden);
  std::vector<data::SafetensorsInfo> tensors{
      {"vision_tower.vision_model.post_layernorm.weight", SafetensorsDtype::float32, {8}},
      {"model.multi_modal_projector.mm_input_projection_weight", SafetensorsDtype::float32, {8}}};
  std::map<std::string, std::string> names;
  for (const std::string& name : text.names()) {
    tensors.push_back(text.at(name));
    tensors.back().name = prefix + name.substr(std::string("model.").size());
    names[tensors.back().name] = name;
  }
  write_hf_folder(folder, {.files = {config.dump(), {}},
                           .tensors = tensors,
                           .append_data =
                               [&](const data::SafetensorsInfo& info, auto& writer) {
                                 const std::vector<std::byte> of_images(32);
                                 const auto name = names.find(info.name);
                                 writer.append(info.name, name == names.end()
                                                              ? std::span(of_images)
                                                              : text.at(name->second).data);
                               },
                           .max_shard_bytes = 20'000});
  return folder;
}

TEST(ModelsWithImages, AreReadAndConvertedAsTheirTextModels) {
  const Golden golden("gemma3_text");
  for (const char* prefix : {"language_model.model.", "model.language_model."}) {
    TemporaryFolder temporary;
    const fs::path from = with_images(temporary, prefix);
    auto outputs = [&](const fs::path& model, const fs::path& out) {
      probe({.model = model, .inputs = golden.folder / "golden.safetensors", .out = out});
      return read_file(out);
    };
    const std::string expected = outputs(golden.folder, temporary / "text");
    EXPECT_TRUE(outputs(from, temporary / "whole") == expected) << prefix;

    convert({.from = from, .to = temporary / "to", .dtype = {}});
    EXPECT_TRUE(outputs(temporary / "to", temporary / "converted") == expected) << prefix;
    const data::SafetensorsFolder text(golden.folder), converted(temporary / "to");
    EXPECT_EQ(converted.names(), text.names());
    EXPECT_EQ(models::parse_hf_config(read_file(temporary / "to" / "config.json")),
              read_hf_config(golden.folder).decoder);
  }
}

// --- adapters

data::SafetensorsFile probed(const TemporaryFolder& folder, const fs::path& model,
                             const Golden& golden) {
  static int count = 0;
  const fs::path out = folder / ("probe" + std::to_string(++count));
  probe({.model = model, .inputs = golden.folder / "golden.safetensors", .out = out});
  return data::SafetensorsFile(out);
}

// A base weight with the adapter of its module, whole.
std::vector<float> merged_weight(const data::SafetensorsFolder& base,
                                 const data::SafetensorsFile& adapter,
                                 const models::LoraConfig& config, const std::string& weight) {
  const std::string module = weight.substr(0, weight.rfind('.'));
  const std::vector<float> a = floats(adapter.at(peft_names(models::lora_a_name(module))[0]));
  const std::vector<float> b = floats(adapter.at(peft_names(models::lora_b_name(module))[0]));
  return merged(
      floats(base.at(weight)),
      {.a = a, .b = b, .rank = config.rank, .scale = config.scale({config.rank, config.alpha})});
}

bool is_of_experts(const std::string& name) { return name.find(".experts.") != name.npos; }

class MergedGoldens : public testing::TestWithParam<const char*> {};

// The base model with the adapter in its weights computes what peft computes with both.
TEST_P(MergedGoldens, GivesPeftsLogits) {
  Golden golden(GetParam());
  TemporaryFolder temporary;
  const fs::path adapter = golden.folder / "adapter", to = temporary / "to";
  const std::string said = convert({.from = golden.folder, .to = to, .adapter = adapter});
  EXPECT_THAT(said, HasSubstr("F32; "));
  EXPECT_THAT(said, HasSubstr("of them merged with " + adapter.string()));
  golden.expect("logits", floats(probed(temporary, to, golden).at("logits")),
                golden.tolerance("logits"));
  golden.expect("base_logits", floats(probed(temporary, golden.folder, golden).at("logits")),
                golden.tolerance("base_logits"));
  EXPECT_EQ(read_file(to / "config.json"),
            models::with_both_spellings(read_file(golden.folder / "config.json")));
}

// Each adapted weight is the sum in float32, rounded once; all else keeps its bits.
TEST_P(MergedGoldens, ChangesTheWeightsItIsForAndRoundsThemOnce) {
  Golden golden(GetParam());
  TemporaryFolder temporary;
  const fs::path folder = golden.folder / "adapter";
  convert({.from = golden.folder, .to = temporary / "f32", .adapter = folder});
  convert({.from = golden.folder,
           .to = temporary / "bf16",
           .adapter = folder,
           .dtype = SafetensorsDtype::bfloat16,
           .max_shard_bytes = 30'000});
  const models::LoraConfig config =
      read_adapter_config(folder, adapter_base(read_hf_config(golden.folder).decoder));
  const data::SafetensorsFile adapter(folder / "adapter_model.safetensors");
  const data::SafetensorsFolder base(golden.folder), wide(temporary / "f32"),
      narrow(temporary / "bf16");
  ASSERT_EQ(wide.names(), base.names());
  ASSERT_EQ(narrow.names(), base.names());
  int64_t adapted = 0;
  for (const std::string& name : base.names()) {
    std::vector<float> expected = floats(base.at(name));
    const std::string module = "base_model.model." + name.substr(0, name.rfind('.'));
    if (!is_of_experts(name) && name.ends_with(".weight") &&
        adapter.contains(module + ".lora_A.weight")) {
      ++adapted;
      expected = merged_weight(base, adapter, config, name);
      EXPECT_NE(floats(base.at(name)), expected) << name;
    }
    // The logits above say what these are.
    if (is_of_experts(name)) expected = floats(wide.at(name));
    EXPECT_EQ(floats(wide.at(name)), expected) << name;
    EXPECT_EQ(wide.at(name).shape, base.at(name).shape);
    for (float& value : expected) value = to_float(to_bfloat16(value));
    EXPECT_EQ(narrow.at(name).dtype, SafetensorsDtype::bfloat16);
    EXPECT_EQ(floats(narrow.at(name)), expected) << name;
  }
  EXPECT_EQ(2 * adapted,
            std::ranges::count_if(adapter.tensors(), [](const data::SafetensorsTensor& tensor) {
              return !is_of_experts(tensor.name);
            }));
  EXPECT_EQ(read_file(temporary / "bf16" / "config.json"),
            models::with_hf_dtype(
                models::with_both_spellings(read_file(golden.folder / "config.json")), "bfloat16"));
}

// Each module with its own rank and scale, some not at all.
TEST(MergedVariants, GivePeftsLogits) {
  for (const char* name :
       {"rslora", "patterns", "layers_to_transform", "dora", "modules_to_save", "regex"}) {
    Golden golden(std::string("lora_variants/") + name);
    TemporaryFolder temporary;
    const fs::path to = temporary / "to";
    convert({.from = golden_folder("lora_variants/base"),
             .to = to,
             .adapter = golden.folder / "adapter"});
    golden.expect("logits", floats(probed(temporary, to, golden).at("logits")),
                  golden.tolerance("logits"));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MergedGoldens,
                         testing::Values("lora_llama", "lora_gemma2", "lora_phi3", "lora_qwen3_moe",
                                         "lora_gpt_oss", "lora_llama4"),
                         [](const auto& info) { return std::string(info.param); });

// Weights that take several pieces, the last of them smaller, from and to bfloat16; and a module
// that has a bias, which stays.
TEST(ConvertWithAdapter, LargeWeightsAreMergedInPieces) {
  models::DecoderConfig model{.vocabulary = 11,
                              .width = 516,
                              .layers = 1,
                              .query_heads = 2,
                              .kv_heads = 1,
                              .head_dim = 4,
                              .mlp_width = 2200,
                              .family = &models::kQwen2};
  model.lora = {.rank = 3, .alpha = 7, .targets = {"q_proj", "up_proj", "down_proj"}};
  const offload::ParameterLayout layout = offload::lay_out(models::decoder(model));
  const auto backend = offload::make_cpu_backend();
  offload::Ledger ledger;
  offload::Arguments arguments(*backend, ledger);
  write_parameters(
      layout,
      [](const offload::Parameter& parameter, int64_t first, std::span<float> values) {
        uint32_t next = random_sequence(parameter.name) + static_cast<uint32_t>(first);
        for (float& value : values) {
          next = next * 1664525 + 1013904223;
          value = static_cast<float>(next >> 16) / 65536.f - 0.5f;
        }
      },
      arguments);
  TemporaryFolder temporary;
  export_parameters(temporary / "base", {.model = model, .layout = layout, .arguments = arguments},
                    models::Dtype::bfloat16);
  write_adapter(temporary / "adapter", model, "", layout, arguments);
  convert({.from = temporary / "base", .to = temporary / "to", .adapter = temporary / "adapter"});

  const data::SafetensorsFile adapter(temporary / "adapter/adapter_model.safetensors");
  const data::SafetensorsFolder base(temporary / "base"), result(temporary / "to");
  const std::string layer = "model.layers.0.", bias = layer + "self_attn.q_proj.bias";
  EXPECT_TRUE(bytes_of(base.at(bias)) == bytes_of(result.at(bias)));
  ASSERT_GT(base.at(layer + "mlp.up_proj.weight").element_count(), 1 << 20);
  for (const char* module : {"self_attn.q_proj", "mlp.up_proj", "mlp.down_proj"}) {
    const std::string name = layer + module + ".weight";
    std::vector<float> expected = merged_weight(base, adapter, model.lora, name);
    for (float& value : expected) value = to_float(to_bfloat16(value));
    EXPECT_EQ(floats(result.at(name)), expected) << name;
  }
}

TEST(ConvertWithAdapter, WhatCannotBeMergedIsRefusedAndLeavesNothing) {
  TemporaryFolder temporary;
  const fs::path llama = golden_folder("lora_llama");
  auto refusal = [&](const Conversion& conversion) {
    const std::string what = message_of<DataError>([&] { convert(conversion); });
    EXPECT_FALSE(fs::exists(temporary / "to"));
    return what;
  };
  // An adapter of another model: every tensor is listed.
  std::string what = refusal(
      {.from = golden_folder("lora_gemma2"), .to = temporary / "to", .adapter = llama / "adapter"});
  for (const char* part :
       {"adapter_model.safetensors: is not this model's",
        "layers.0.self_attn.q_proj.lora_A.weight is [4,48], expected [4,44]",
        "layers.1.self_attn.v_proj.lora_B.weight is [16,4], expected [28,4]",
        "not expected: base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight"})
    EXPECT_THAT(what, HasSubstr(part));
  EXPECT_THAT(message_of<ConfigError>(
                  [&] { refusal({.from = llama, .to = temporary / "to", .adapter = llama}); }),
              HasSubstr(llama.string() + ": found no adapter_config.json, expected a folder of an "
                                         "adapter"));

  // A base model in F64: nothing says to what the sum should be rounded.
  const data::SafetensorsFolder weights(llama);
  std::vector<data::SafetensorsInfo> tensors;
  for (const std::string& name : weights.names()) {
    tensors.push_back(weights.at(name));
    tensors.back().dtype = SafetensorsDtype::float64;
  }
  write_hf_folder(temporary / "f64",
                  {.files = {read_file(llama / "config.json"), {}},
                   .tensors = tensors,
                   .append_data = [&](const data::SafetensorsInfo& info, auto& writer) {
                     const auto values = floats(weights.at(info.name));
                     const std::vector<double> wide(values.begin(), values.end());
                     writer.append(info.name, std::as_bytes(std::span(wide)));
                   }});
  what = refusal({.from = temporary / "f64", .to = temporary / "to", .adapter = llama / "adapter"});
  EXPECT_THAT(what, HasSubstr("q_proj.weight is F64"));
  convert({.from = temporary / "f64",
           .to = temporary / "f32",
           .adapter = llama / "adapter",
           .dtype = SafetensorsDtype::float32});
  convert({.from = llama, .to = temporary / "same", .adapter = llama / "adapter"});
  EXPECT_TRUE(read_file(temporary / "f32/model.safetensors") ==
              read_file(temporary / "same/model.safetensors"));
}

// Finite weights and a finite adapter may have a sum that is not.
TEST(ConvertWithAdapter, SumsBeyondFloat32AreRefused) {
  TemporaryFolder temporary;
  const fs::path golden = golden_folder("lora_llama"), adapter = temporary / "adapter";
  fs::copy(golden / "adapter", adapter);
  const std::string config = read_file(golden / "adapter/adapter_config.json");
  auto refusal = [&](const std::string& alpha) {
    nlohmann::json changed = nlohmann::json::parse(config);
    changed["lora_alpha"] = nlohmann::json::parse(alpha);
    temporary.write("adapter/adapter_config.json", changed.dump());
    const std::string what = message_of<DataError>(
        [&] { convert({.from = golden, .to = temporary / "to", .adapter = adapter}); });
    EXPECT_FALSE(fs::exists(temporary / "to"));
    return what;
  };
  for (const char* alpha : {"1e300", "1e40", "1e-300", "0", "-1", "true"})
    EXPECT_THAT(refusal(alpha), HasSubstr("adapter_config.json: lora_alpha: found "));

  const data::SafetensorsFile small(golden / "adapter/adapter_model.safetensors");
  std::vector<data::SafetensorsInfo> tensors(small.tensors().begin(), small.tensors().end());
  data::SafetensorsWriter large(adapter / "adapter_model.safetensors", tensors);
  for (const data::SafetensorsInfo& tensor : tensors) {
    std::vector<float> values = floats(small.at(tensor.name));
    for (float& value : values) value *= 1e19f;
    large.append(tensor.name, std::as_bytes(std::span(values)));
  }
  large.finish();
  EXPECT_THAT(refusal("1e3"), HasSubstr("q_proj.weight\": found "));
}

TEST(ConvertProgram, ExitCodesTellDoneFailureAndWrongUsageApart) {
  TemporaryFolder temporary;
  const std::string program = CONVERT_PROGRAM;
  const std::string from = program + " --from " + golden_folder("qwen3_qknorm").string();
  auto to = [&](const char* name) { return " --to " + (temporary / name).string(); };

  const ProgramResult done =
      run_program(from + to("a") + " --dtype bfloat16 --max-shard-size 20KB");
  EXPECT_EQ(done.exit_code, 0) << done.output;
  EXPECT_EQ(done.output, (temporary / "a").string() + ": 35 tensors, 0.1 MB of BF16\n");
  const fs::path llama = golden_folder("lora_llama");
  EXPECT_EQ(run_program(program + " --from " + llama.string() + " --adapter " +
                        (llama / "adapter").string() + to("adapted"))
                .output,
            (temporary / "adapted").string() +
                ": 30 tensors, 0.3 MB of F32; 6 of them merged with " +
                (llama / "adapter").string() + "\n");
  std::set<std::string> files;
  for (const auto& [name, bytes] : contents(temporary / "a")) {
    files.insert(name);
    EXPECT_LE(bytes.size(), 25'000u) << name;
  }
  EXPECT_TRUE(files.contains("model.safetensors.index.json"));
  for (const std::string& wrong :
       {from, from + to("a"), program + " --from nothing" + to("c"),
        from + to("c") + " --adapter nothing", from + to("c") + " --dtype int8",
        from + to("c") + " --max-shard-size 0", from + to("c") + " --dtype q8_0",
        from + to("c") + " --to-gguf " + (temporary / "d").string(),
        from + " --to-gguf " + (temporary / "d").string() + " --max-shard-size 1MB",
        from + to("c") + " --adapter-only"}) {
    const ProgramResult result = run_program(wrong);
    EXPECT_EQ(result.exit_code, 2) << wrong << "\n" << result.output;
    EXPECT_NE(result.output, "");
  }
  EXPECT_EQ(run_program(program + " --from " + temporary.write("file", "").parent_path().string() +
                        to("c"))
                .exit_code,
            2);
  EXPECT_FALSE(fs::exists(temporary / "c"));
  EXPECT_FALSE(fs::exists(temporary / "d"));
  EXPECT_EQ(
      run_program(from + " --to-gguf " + (temporary / "d").string() + " --dtype float16").output,
      (temporary / "d").string() + ": 35 tensors, 0.1 MB of F16, F32\n");
}

}  // namespace
}  // namespace longshore::trainer
