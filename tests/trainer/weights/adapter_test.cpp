#include "longshore/trainer/weights/adapter.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "longshore/base/error.h"
#include "longshore/data/safetensors/safetensors_writer.h"
#include "longshore/models/families/decoder.h"
#include "longshore/models/hf/config.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/weights/adapter_format.h"
#include "longshore/trainer/weights/initialize.h"
#include "longshore/trainer/weights/load_parameters.h"
#include "tests/data/temporary_folder.h"
#include "tests/trainer/golden.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;
using data::TemporaryFolder;
using models::LoraConfig;
using nlohmann::json;

const fs::path kGolden = golden_folder("lora_llama");
const fs::path kAdapter = kGolden / "adapter";

std::string golden_config() { return data::read_file(kAdapter / "adapter_config.json"); }

models::DecoderConfig model_of(const fs::path& golden) {
  models::DecoderConfig config = models::parse_hf_config(data::read_file(golden / "config.json"));
  config.lora = parse_adapter_config(data::read_file(golden / "adapter/adapter_config.json"),
                                     adapter_base(config));
  return config;
}

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Weights of a golden case, base and adapter, where training would have them.
struct Loaded {
  explicit Loaded(const fs::path& golden, const fs::path& adapter,
                  const offload::LayoutOptions& options = {},
                  models::Dtype dtype = models::Dtype::float32) {
    models::DecoderConfig model = model_of(golden);
    model.dtype = dtype;
    layout = offload::lay_out(models::decoder(model), options);
    Config config;
    config.load_parameters_path = golden;
    config.load_adapter_path = adapter;
    config.seed = 3;
    said = load_parameters(config, model, layout, arguments);
  }

  std::vector<float> compute(const std::string& name) {
    auto location = layout.by_name.at(name);
    const offload::Parameter& parameter = layout.parameter(location);
    std::vector<float> values(static_cast<size_t>(parameter.type.shape.count()));
    arguments.read_part(argument_name(layout.bucket(location), offload::Copy::compute),
                        parameter.offset * 4, values.data(), std::ssize(values) * 4);
    return values;
  }

  std::unique_ptr<offload::Backend> backend = offload::make_cpu_backend();
  offload::Ledger ledger;
  offload::Arguments arguments{*backend, ledger};
  offload::ParameterLayout layout;
  std::string said;
};

// --- tensors

TEST(Adapter, RoundTripGivesPeftsBytes) {
  for (const char* name : {"lora_llama", "lora_gemma2", "lora_phi3", "lora_qwen3_moe",
                           "lora_gpt_oss", "lora_llama4"}) {
    fs::path golden = golden_folder(name);
    // Masters hold what bfloat16 weights have lost.
    for (models::Dtype dtype : {models::Dtype::float32, models::Dtype::bfloat16}) {
      TemporaryFolder folder;
      Loaded loaded(golden, golden / "adapter", {}, dtype);
      EXPECT_THAT(loaded.said, HasSubstr("adapter: "));
      write_adapter(folder / "a/b", model_of(golden), "..", loaded.layout, loaded.arguments);
      EXPECT_EQ(data::read_file(folder / "a/b/adapter_model.safetensors"),
                data::read_file(golden / "adapter/adapter_model.safetensors"));
      // Each key we write is one of peft's, with the value that peft wrote.
      json ours = json::parse(data::read_file(folder / "a/b/adapter_config.json"));
      json peft = json::parse(data::read_file(golden / "adapter/adapter_config.json"));
      for (const auto& [key, value] : ours.items()) EXPECT_EQ(value, peft.at(key)) << key;
      const AdapterBase base = adapter_base(model_of(golden));
      EXPECT_EQ(parse_adapter_config(ours.dump(), base), parse_adapter_config(peft.dump(), base));
      // Nothing is written over.
      EXPECT_THAT(
          refusal([&] { write_adapter(folder / "a/b", {}, "", loaded.layout, loaded.arguments); }),
          HasSubstr("holds an adapter already"));
    }
  }
}

// Without a file, A is uniform within ±1/sqrt(in) and B zero: the model as it was.
TEST(Adapter, StartsAsPeftStarts) {
  Loaded loaded(kGolden, "");
  int matrices = 0;
  for (const auto& [name, location] : loaded.layout.by_name) {
    if (!models::is_lora_weight(name)) continue;
    ++matrices;
    std::vector<float> values = loaded.compute(name);
    if (name.find("lora_B") != name.npos) {
      EXPECT_EQ(values, std::vector<float>(values.size(), 0.f)) << name;
      continue;
    }
    float bound = 1 / std::sqrt(48.f);
    auto [least, most] = std::ranges::minmax(values);
    double mean = 0, square = 0;
    for (float value : values) {
      mean += value / static_cast<double>(values.size());
      square += value * value / static_cast<double>(values.size());
    }
    EXPECT_GE(least, -bound);
    EXPECT_LE(most, bound);
    EXPECT_LT(least, -0.95 * bound);
    EXPECT_GT(most, 0.95 * bound);
    EXPECT_NEAR(mean, 0, 0.2 * bound);
    EXPECT_NEAR(square, bound * bound / 3, 0.2 * bound * bound / 3);
  }
  EXPECT_EQ(matrices, 12);
  Loaded again(kGolden, "");
  std::string a = "model.layers.0.self_attn.q_proj.lora_A.weight";
  EXPECT_EQ(loaded.compute(a), again.compute(a));
  EXPECT_NE(loaded.compute(a), loaded.compute("model.layers.1.self_attn.q_proj.lora_A.weight"));
}

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  float value = 0;
};

void write_tensors(const fs::path& folder, const std::vector<Tensor>& tensors) {
  std::vector<data::SafetensorsInfo> infos;
  for (const Tensor& tensor : tensors)
    infos.push_back({tensor.name, data::SafetensorsDtype::float32, tensor.shape});
  data::SafetensorsWriter writer(folder / "adapter_model.safetensors", infos);
  for (size_t i = 0; i < infos.size(); ++i) {
    std::vector<float> values(static_cast<size_t>(infos[i].element_count()), tensors[i].value);
    writer.append(infos[i].name, std::as_bytes(std::span(values)));
  }
  writer.finish();
}

TEST(Adapter, WhatDoesNotFitIsListedAtOnce) {
  TemporaryFolder folder;
  const std::string layer = "base_model.model.model.layers.0.self_attn.";
  write_tensors(folder / "", {{layer + "k_proj.lora_A.weight", {4, 48}},
                              {layer + "q_proj.lora_A.weight", {5, 48}},
                              {layer + "v_proj.lora_A.weight", {4, 48}}});
  std::string what = refusal([&] { Loaded(kGolden, folder / ""); });
  for (const std::string& part :
       {"not expected: " + layer + "k_proj.lora_A.weight",
        layer + "q_proj.lora_A.weight is [5,48], expected [4,48]",
        "missing " + layer + "q_proj.lora_B.weight", "missing " + layer + "v_proj.lora_B.weight"})
    EXPECT_THAT(what, HasSubstr(part));
  EXPECT_THAT(what, Not(HasSubstr("missing " + layer + "v_proj.lora_A")));
  const data::SafetensorsTensor integers{{"a", data::SafetensorsDtype::int32, {2}}, {}};
  EXPECT_EQ(refusal([&] {
              check_adapter_tensors({&integers, 1}, {{"a", {2}}, {"b", {}}});
            }),
            "a is I32, expected F32, BF16, F16 or F64\n  missing b");
  EXPECT_THAT(refusal([&] { Loaded(kGolden, kGolden); }), HasSubstr("adapter_model.safetensors"));
}

TEST(Adapter, WeightsInAnOlderFormatAreSaidToBeThat) {
  TemporaryFolder folder;
  folder.write("adapter_model.bin", "PK");
  const std::string what = refusal([&] { Loaded(kGolden, folder / ""); });
  for (const std::string& part :
       {(folder / "").string() + ": found no adapter_model.safetensors, but \"adapter_model.bin\"",
        std::string("s.save_file(")})
    EXPECT_THAT(what, HasSubstr(part));
  fs::copy(kAdapter / "adapter_model.safetensors", folder / "");
  EXPECT_EQ(refusal([&] { Loaded(kGolden, folder / ""); }), "");
}

TEST(Adapter, ValuesMustBeFinite) {
  TemporaryFolder folder;
  std::vector<Tensor> tensors;
  data::SafetensorsFile golden(kAdapter / "adapter_model.safetensors");
  for (const data::SafetensorsTensor& tensor : golden.tensors())
    tensors.push_back({tensor.name, tensor.shape, 1});
  tensors[3].value = std::numeric_limits<float>::infinity();
  write_tensors(folder / "", tensors);
  std::string what = refusal([&] { Loaded(kGolden, folder / ""); });
  EXPECT_THAT(what, HasSubstr(tensors[3].name + ": 0 NaN and 64 infinite"));
}

// --- the config

TEST(AdapterConfig, ReadsPefts) {
  EXPECT_EQ(parse_adapter_config(golden_config(), {.layers = 2}),
            (LoraConfig{.rank = 4, .alpha = 8, .targets = {"q_proj", "v_proj"}}));
  json object = json::parse(golden_config());
  object["target_modules"] = {"down_proj", "q_proj"};
  object["lora_alpha"] = 2.5;
  object["some_future_method"] = false;
  EXPECT_EQ(parse_adapter_config(object.dump(), {.layers = 2}),
            (LoraConfig{.rank = 4, .alpha = 2.5, .targets = {"q_proj", "down_proj"}}));
}

TEST(AdapterConfig, WhatWouldChangeResultsIsRefused) {
  auto with = [](const std::string& key, const json& value) {
    json object = json::parse(golden_config());
    object[key] = value;
    return refusal([&] { parse_adapter_config(object.dump(), {.layers = 2}); });
  };
  EXPECT_EQ(with("peft_version", "0.1"), "");
  EXPECT_EQ(with("lora_dropout", 0.05), "");  // of training alone
  EXPECT_EQ(with("trainable_token_indices", {7, 3}), "");
  for (const char* name : {"embed_tokens", "model.embed_tokens"})
    EXPECT_EQ(with("trainable_token_indices", {{name, {7}}}), "");
  for (const auto& [key, value] : std::vector<std::pair<std::string, json>>{
           {"use_dora", "yes"},
           {"use_rslora", "yes"},
           {"lora_bias", true},
           {"bias", "all"},
           {"bias", "lora_only"},
           {"lora_dropout", 1.5},
           {"lora_dropout", "0.05"},
           {"rank_pattern", {{"q_proj", 0}}},
           {"rank_pattern", {{"q_proj", "8"}}},
           {"rank_pattern", json::array({8})},
           {"rank_pattern", {{"q_(", 8}}},
           {"alpha_pattern", {{"q_proj", -1}}},
           {"modules_to_save", json::array({"lm_head", "norm"})},
           {"modules_to_save", "lm_head"},
           {"layers_to_transform", json::array({0, "1"})},
           {"layers_to_transform", -1},
           {"layer_replication", json::array({json::array({0, 2})})},
           {"exclude_modules", 3},
           {"exclude_modules", "("},
           {"target_parameters", json::array({"w"})},
           {"trainable_token_indices", json::array({1, -2})},
           {"trainable_token_indices", json::array({7, 7})},
           {"trainable_token_indices", {{"lm_head", {7}}}},
           {"trainable_token_indices", {{"tokens", {7}}}},
           {"trainable_token_indices", {{"other.embed_tokens", {7}}}},
           {"trainable_token_indices", {{"embed_tokens", {7}}, {"lm_head", {7}}}},
           {"fan_in_fan_out", true},
           {"init_lora_weights", "pissa"},
           {"init_lora_weights", "olora"},
           {"loftq_config", {{"loftq_bits", 4}}},
           {"megatron_config", {{"a", 1}}},
           {"use_qalora", true},
           {"some_future_method", "on"},
           {"peft_type", "IA3"},
           {"peft_type", nullptr},
           {"task_type", "SEQ_CLS"},
           {"r", 0},
           {"r", -1},
           {"r", 4.5},
           {"r", "4"},
           {"r", 1 << 20},
           {"r", uint64_t{1} << 63},
           {"r", nullptr},
           {"lora_alpha", 0},
           {"lora_alpha", -1},
           {"lora_alpha", "8"},
           {"target_modules", "q_proj"},  // an expression for a whole name
           {"target_modules", "(.*)*q_proj(x+x+)+y"},
           {"target_modules", ".*"},  // lm_head too
           {"target_modules", json::array({"norm"})},
           {"target_modules", json::array({"wte"})},
           {"target_modules", json::array()},
           {"target_modules", json::array({"embed_tokens"})},
           {"target_modules", json::array({"q_proj", 1})},
           {"target_modules", nullptr}}) {
    std::string what = with(key, value);
    EXPECT_TRUE(what.starts_with(key + ": found ") || what.starts_with('"' + key + "\": found "))
        << key << " " << value << ": " << what;
  }
}

// peft's rules for names, on a model of 12 layers: tried with peft 0.21.
TEST(AdapterConfig, TargetsAreFoundAsPeftFindsThem) {
  auto modules = [](const json& more) {
    json object = json::parse(golden_config());
    object.update(more);
    const LoraConfig config = parse_adapter_config(object.dump(), {.layers = 12});
    std::string text;
    for (int layer = 0; layer < 12; ++layer)
      for (const std::string& module : models::linear_modules(models::kLlama.layer)) {
        const auto found = adapter_of(config, models::lora_module_name(layer, module));
        if (found)
          text += fmt::format("{}.{}={}/{} ", layer, models::lora_target(module), found->rank,
                              found->alpha);
      }
    if (const auto head = adapter_of(config, models::kHeadModule))
      text += fmt::format("lm_head={}/{} ", head->rank, head->alpha);
    // What is written reads as the same.
    EXPECT_EQ(
        parse_adapter_config(write_adapter_config(config, {.layers = 12}, ""), {.layers = 12}),
        config)
        << text;
    return text;
  };
  auto all = [](std::initializer_list<std::string_view> targets, const std::string& size) {
    std::string text;
    for (int layer = 0; layer < 12; ++layer)
      for (std::string_view target : targets) text += fmt::format("{}.{}={} ", layer, target, size);
    return text;
  };
  const std::string q = all({"q_proj"}, "4/8");
  EXPECT_EQ(modules({{"target_modules", {"self_attn.q_proj", "c_attn"}}}), q);
  EXPECT_EQ(modules({{"target_modules", R"(.*\.q_proj)"}}), q);
  EXPECT_EQ(modules({{"target_modules", "all-linear"}}),
            modules({{"target_modules", models::lora_targets(models::kLlama.layer)}}));
  EXPECT_EQ(modules({{"target_modules", {"lm_head", "q_proj"}}}), q + "lm_head=4/8 ");
  EXPECT_EQ(modules({{"target_modules", "lm_head|.*q_proj"}, {"rank_pattern", {{"lm_head", 2}}}}),
            q + "lm_head=2/8 ");
  EXPECT_EQ(
      modules({{"target_modules", "all-linear"}, {"exclude_modules", {"mlp.up_proj", "o_proj"}}}),
      all({"q_proj", "k_proj", "v_proj", "gate_proj", "down_proj"}, "4/8"));
  EXPECT_EQ(
      modules({{"target_modules", {"model.layers.1.mlp.up_proj", "layers.11.self_attn.k_proj"}}}),
      "1.up_proj=4/8 11.k_proj=4/8 ");
  EXPECT_EQ(modules({{"target_modules", {"q_proj"}}, {"layers_to_transform", 1}}), "1.q_proj=4/8 ");
  EXPECT_EQ(modules({{"target_modules", {"q_proj"}},
                     {"layers_to_transform", {1, 10}},
                     {"layers_pattern", "layers"}}),
            "1.q_proj=4/8 10.q_proj=4/8 ");
  EXPECT_EQ(modules({{"target_modules", {"q_proj"}}, {"rank_pattern", {{"q_proj", 2}}}}),
            all({"q_proj"}, "2/8"));
  // The first that matches counts; a number is matched whole.
  EXPECT_EQ(modules({{"target_modules", {"k_proj"}},
                     {"layers_to_transform", {1, 11}},
                     {"rank_pattern", {{"layers.1.self_attn.k_proj", 2}, {"k_proj", 3}}},
                     {"alpha_pattern", {{R"(layers\.1\d\..*)", 2.5}}}}),
            "1.k_proj=3/8 11.k_proj=3/2.5 ");
  EXPECT_EQ(modules({{"target_modules", R"(model\.layers\.[03]\.mlp\.(up|down)_proj)"},
                     {"exclude_modules", R"(.*3.*up_proj)"}}),
            "0.up_proj=4/8 0.down_proj=4/8 3.down_proj=4/8 ");
}

// Of all experts as parameters, or of each as modules.
TEST(AdapterConfig, ExpertsAreFoundAsPeftFindsThem) {
  AdapterBase base{.family = &models::kQwen3Moe, .layers = 2};
  auto parsed = [&](const json& more) {
    json object = json::parse(golden_config());
    object.update(more);
    const LoraConfig config = parse_adapter_config(object.dump(), base);
    const std::string written = write_adapter_config(config, base, "");
    EXPECT_EQ(parse_adapter_config(written, base), config) << written;
    return config;
  };
  const json q{"q_proj"}, all{"q_proj", "gate_proj", "up_proj", "down_proj"},
      parameters{"mlp.experts.gate_up_proj", "experts.down_proj"};
  const std::vector<std::string> both{"q_proj", "experts.gate_up_proj", "experts.down_proj"};
  const LoraConfig joint = parsed({{"target_modules", q}, {"target_parameters", parameters}});
  EXPECT_EQ(joint.targets, both);
  EXPECT_FALSE(joint.per_expert);
  const LoraConfig each = parsed({{"target_modules", all}});
  EXPECT_EQ(each.targets, both);
  EXPECT_TRUE(each.per_expert);
  EXPECT_EQ(
      parsed({{"target_modules", json::array()}, {"target_parameters", {"down_proj"}}}).targets,
      std::vector<std::string>{"experts.down_proj"});
  // Where some layers have an MLP in their place, that is a module of its own, which peft finds by
  // its weight.
  base.has_dense_layers = true;
  base.experts = 2;
  auto written = [&](const LoraConfig& config) {
    const json object = json::parse(write_adapter_config(config, base, ""));
    return json{object["target_modules"], object.value("target_parameters", json())};
  };
  const std::vector<std::string> everything{
      "q_proj", "gate_proj", "up_proj", "down_proj", "experts.gate_up_proj", "experts.down_proj"};
  const LoraConfig dense_and_each = parsed({{"target_modules", all}});
  EXPECT_EQ(dense_and_each.targets, everything);
  EXPECT_TRUE(dense_and_each.per_expert);
  EXPECT_EQ(written(dense_and_each),
            (json{{"q_proj", "mlp.experts.0.gate_proj", "mlp.experts.1.gate_proj",
                   "mlp.experts.0.up_proj", "mlp.experts.1.up_proj", "mlp.experts.0.down_proj",
                   "mlp.experts.1.down_proj"},
                  {"mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"}}));
  const LoraConfig dense_and_joint =
      parsed({{"target_modules", all}, {"target_parameters", parameters}});
  EXPECT_EQ(dense_and_joint.targets, everything);
  EXPECT_FALSE(dense_and_joint.per_expert);
  EXPECT_EQ(written(dense_and_joint),
            (json{q,
                  {"mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight",
                   "experts.gate_up_proj", "experts.down_proj"}}));
  EXPECT_EQ(parsed({{"target_modules", {"gate_proj"}}, {"target_parameters", parameters}}).targets,
            (std::vector<std::string>{"gate_proj", "experts.gate_up_proj", "experts.down_proj"}));
  // Experts alone.
  const LoraConfig numbered =
      parsed({{"target_modules",
               {"q_proj", "experts.0.gate_proj", "experts.0.up_proj", "experts.0.down_proj",
                "experts.1.gate_proj", "experts.1.up_proj", "experts.1.down_proj"}}});
  EXPECT_EQ(numbered.targets, both);
  EXPECT_TRUE(numbered.per_expert);
  // Module by module, each by its weight.
  const LoraConfig single = parsed({{"target_modules", q},
                                    {"target_parameters", {"1.mlp.up_proj.weight"}},
                                    {"rank_pattern", {{R"(up_proj\.weight)", 2}}}});
  EXPECT_EQ(adapter_of(single, "model.layers.0.mlp.up_proj"), std::nullopt);
  EXPECT_EQ(adapter_of(single, "model.layers.1.mlp.up_proj")->rank, 2);
  EXPECT_EQ(written(single),
            (json{{"model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj"},
                  json::array({"model.layers.1.mlp.up_proj.weight"})}));
  base.has_dense_layers = false;
  // Another rank of experts; those of one layer.
  const LoraConfig other = parsed({{"target_modules", q},
                                   {"target_parameters", {"1.mlp.experts.down_proj"}},
                                   {"rank_pattern", {{"experts.down_proj", 2}}}});
  EXPECT_EQ(other.modules.size(), 3u);
  EXPECT_EQ(adapter_of(other, "model.layers.1.mlp.experts.down_proj")->rank, 2);
  for (const auto& [more, words] :
       {std::pair{json{{"target_modules", {"gate_proj"}}},
                  "target_modules: found mlp.experts.0.gate_proj among them and not"},
        {json{{"target_modules", all}, {"rank_pattern", {{"q_proj", 2}}}},
         "rank_pattern: found some with each expert's modules among the targets, expected none"},
        {json{{"target_parameters", {"experts.gate_proj"}}},
         "target_parameters: found \"experts.gate_proj\", expected those of experts, "
         "mlp.experts.gate_up_proj, mlp.experts.down_proj, or weights of projections, such as "
         "self_attn.q_proj.weight"}})
    EXPECT_THAT(refusal([&] { parsed(more); }), HasSubstr(words));
}

TEST(AdapterConfig, RankStabilizedAdaptersHaveAnotherScale) {
  json object = json::parse(golden_config());
  object["use_rslora"] = true;
  const LoraConfig config = parse_adapter_config(object.dump(), {.layers = 2});
  EXPECT_EQ(config.scale({.rank = 4, .alpha = 8}), 4);
  EXPECT_EQ(config.scale({.rank = 16, .alpha = 8}), 2);
  EXPECT_EQ(parse_adapter_config(write_adapter_config(config, {.layers = 2}, ""), {.layers = 2}),
            config);
}

TEST(AdapterConfig, AllThatIsWrongIsListedAtOnce) {
  json object = json::parse(golden_config());
  object["r"] = 0;
  object["target_modules"] = {"q_proj", 3};
  object["exclude_modules"] = 4;
  object["use_qalora"] = true;
  std::string what = refusal([&] { parse_adapter_config(object.dump(), {.layers = 2}); });
  for (const char* part : {"r: found 0, expected an integer from 1", "target_modules: found 3",
                           "exclude_modules: found 4", "use_qalora\": found true, which is not"})
    EXPECT_THAT(what, HasSubstr(part));
  EXPECT_EQ(std::ranges::count(what, '\n'), 3) << what;
  TemporaryFolder folder;
  folder.write("adapter_config.json", object.dump());
  EXPECT_EQ(refusal([&] { read_adapter_config(folder / "", {.layers = 2}); }),
            (folder / "adapter_config.json").string() + ": " + what);
}

TEST(AdapterConfig, WhatIsNoConfigIsRefused) {
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{"), std::string(100000, '['),
        "{\"use_dora\":" + std::string(400000, '[') + std::string(400000, ']') + "}",
        std::string((4 << 20) + 1, ' ') + "{}"})
    EXPECT_NE(refusal([&] { parse_adapter_config(text, {.layers = 2}); }), "")
        << text.substr(0, 30);
}

// As many as a config may name.
TEST(AdapterConfig, ManyTokensAreReadAsTheyAreWritten) {
  LoraConfig config{.rank = 4, .alpha = 8, .targets = {"q_proj"}};
  for (int64_t token = 0; token < 100'000; ++token)
    config.trained_tokens.push_back(models::kMaxVocabulary - 1 - token);
  const std::string text = write_adapter_config(config, {.layers = 2}, "");
  EXPECT_EQ(parse_adapter_config(text, {.layers = 2}), config);
}

TEST(AdapterConfig, NumbersBeyondFloat64AreThoseOfJson) {
  auto with = [](const std::string& key, const std::string& number) {
    json object = json::parse(golden_config());
    object.erase(key);
    std::string text = object.dump();
    return parse_adapter_config(text.replace(0, 1, "{\"" + key + "\":" + number + ","),
                                {.layers = 2});
  };
  for (const std::string& number :
       {std::string("1e999"), std::string("-1e999"), std::string(400, '9')}) {
    EXPECT_EQ(with("runtime_config", number), parse_adapter_config(golden_config(), {.layers = 2}));
    for (const std::string key :
         {"r", "lora_alpha", "lora_dropout", "layers_to_transform", "fan_in_fan_out", "use_dora"})
      EXPECT_THAT(refusal([&] { with(key, number); }),
                  testing::HasSubstr(": found " + number.substr(0, 100)))
          << key;
  }
}

TEST(AdapterConfig, GivesWhatIsNotSetAndAgreesWithWhatIs) {
  Config config = load_config_text(
      "model_name: llama3.2_1b\n", fs::path(LONGSHORE_SOURCE_DIR) / "configs/test.yml",
      std::vector<std::string>{"load_parameters_path=x", "load_adapter_path=" + kAdapter.string()},
      fs::path(LONGSHORE_SOURCE_DIR) / "configs");
  Config given = with_adapter(config);
  EXPECT_EQ(given.lora_rank, 4);
  EXPECT_EQ(given.lora_alpha, 8);
  EXPECT_EQ(given.lora_targets, (std::vector<std::string>{"q_proj", "v_proj"}));
  EXPECT_EQ(origin(given, "lora_rank"), (kAdapter / "adapter_config.json").string());
  // What a run writes down reads as the same.
  EXPECT_EQ(with_adapter(given).lora_rank, 4);

  config.lora_targets = {"v_proj", "q_proj"};
  config.origins["lora_targets"] = "command line";
  EXPECT_NO_THROW(with_adapter(config));
  config.lora_targets = {"v_proj"};
  config.lora_rank = 8;
  config.origins["lora_rank"] = "command line";
  std::string what = refusal([&] { with_adapter(config); });
  for (const char* part : {"command line load_adapter_path: ", "holds another adapter: ",
                           "lora_rank: 8 (command line), 4 in the adapter",
                           "lora_targets: v_proj (command line), q_proj, v_proj in the adapter"})
    EXPECT_THAT(what, HasSubstr(part));
  EXPECT_THAT(what, Not(HasSubstr("lora_alpha")));

  data::TemporaryFolder folder;
  json other = json::parse(golden_config());
  other.update({{"lora_dropout", 0.05},
                {"use_dora", true},
                {"modules_to_save", {"lm_head", "embed_tokens"}}});
  folder.write("adapter_config.json", other.dump());
  config.load_adapter_path = folder / "";
  config.origins = {{"load_adapter_path", "command line"}};
  const Config going_on = with_adapter(config);
  EXPECT_EQ(going_on.lora_dropout, 0.05);
  EXPECT_TRUE(going_on.use_dora);
  EXPECT_EQ(going_on.modules_to_save, std::vector<std::string>{"embed_tokens"});  // the two are one
  config.lora_dropout = 0.25;  // which belongs to the training, not to the adapter
  config.origins["lora_dropout"] = "command line";
  EXPECT_EQ(with_adapter(config).lora_dropout, 0.25);
  config.modules_to_save = {};
  config.origins["modules_to_save"] = "command line";
  EXPECT_THAT(refusal([&] { with_adapter(config); }),
              HasSubstr("modules_to_save: [] (command line), embed_tokens in the adapter"));

  // Rows are in the order of the adapter's file.
  other = json::parse(golden_config());
  other["trainable_token_indices"] = {7, 3, 5};
  folder.write("adapter_config.json", other.dump());
  config.origins = {{"load_adapter_path", "command line"},
                    {"trainable_token_indices", "command line"}};
  config.trainable_token_indices = {"3", "5", "7"};
  EXPECT_EQ(with_adapter(config).trainable_token_indices,
            (std::vector<std::string>{"7", "3", "5"}));
  config.trainable_token_indices = {"3", "5"};
  EXPECT_THAT(refusal([&] { with_adapter(config); }),
              HasSubstr("trainable_token_indices: 3, 5 (command line), 7, 3, 5 in the adapter"));
  config.trainable_token_indices = {};
  EXPECT_THAT(refusal([&] { with_adapter(config); }),
              HasSubstr("trainable_token_indices: [] (command line), 7, 3, 5 in the adapter"));

  config.load_adapter_path = kGolden;
  EXPECT_THAT(refusal([&] { with_adapter(config); }), HasSubstr("adapter_config.json"));
}

// As those of peft's file of the same patterns.
TEST(AdapterConfig, PatternsOfKeysAreThoseOfFiles) {
  data::TemporaryFolder folder;
  json peft = json::parse(golden_config());
  peft.update({{"r", 4},
               {"lora_alpha", 6},
               {"target_modules", {"q_proj", "v_proj"}},
               {"rank_pattern", {{"layers.1.self_attn.q_proj", 2}, {"q_proj", 3}}},
               {"alpha_pattern", {{"layers.(?:0|2).*v_proj", 1.5}}}});
  folder.write("adapter_config.json", peft.dump());
  Config config = load_config_text("model_name: llama3.2_1b\n",
                                   fs::path(LONGSHORE_SOURCE_DIR) / "configs/test.yml",
                                   std::vector<std::string>{"load_parameters_path=x"},
                                   fs::path(LONGSHORE_SOURCE_DIR) / "configs");
  config.lora_rank = 4;
  config.lora_alpha = 6;
  config.lora_targets = {"q_proj", "v_proj"};
  config.rank_pattern = {"layers.1.self_attn.q_proj:2", "q_proj:3"};
  config.alpha_pattern = {"layers.(?:0|2).*v_proj:1.5"};
  const Config found = with_adapter(config);
  const std::string layer = "model.layers.1.self_attn.";
  EXPECT_EQ(found.lora_modules.at(layer + "q_proj"), (models::LoraModule{2, 6}));
  EXPECT_EQ(found.lora_modules.at(layer + "v_proj"), (models::LoraModule{4, 6}));
  EXPECT_EQ(found.lora_modules.at("model.layers.0.self_attn.q_proj"), (models::LoraModule{3, 6}));
  EXPECT_EQ(found.lora_modules.at("model.layers.0.self_attn.v_proj"), (models::LoraModule{4, 1.5}));
  EXPECT_EQ(with_adapter(found).lora_modules, found.lora_modules);
  config.load_adapter_path = folder / "";
  EXPECT_EQ(with_adapter(config).lora_modules, found.lora_modules);
  config.alpha_pattern = {"v_proj:1.5"};
  EXPECT_THAT(refusal([&] { with_adapter(config); }),
              HasSubstr("alpha_pattern: other ranks and alphas of modules in the adapter"));

  // What keys do not say is the adapter's.
  config.alpha_pattern = {"layers.(?:0|2).*v_proj:1.5"};
  Config going_on = config;
  going_on.lora_rank = 0;
  going_on.lora_targets = {kAllLinear};
  EXPECT_EQ(with_adapter(going_on).lora_modules, found.lora_modules);

  // All alike is a rank like any other.
  config.load_adapter_path = "";
  config.rank_pattern = {"_proj:8", ".*_proj:8"};
  config.alpha_pattern = {".*:3"};
  EXPECT_THAT(refusal([&] { with_adapter(config); }),
              HasSubstr("rank_pattern: found \"_proj\", which matches no module"));
  config.rank_pattern = {".*_proj:8"};
  EXPECT_EQ(with_adapter(config).lora_rank, 8);
  EXPECT_EQ(with_adapter(config).lora_alpha, 3);
  EXPECT_TRUE(with_adapter(config).lora_modules.empty());
  for (const char* wrong : {"q_proj", "q_proj:", ":4", "q_proj:0", "q_proj:4x", "q_proj:1e9"}) {
    config.rank_pattern = {wrong};
    EXPECT_THAT(refusal([&] { with_adapter(config); }),
                HasSubstr("expected MODULE:VALUE, with values that are integers from 1 to"));
  }
}

// --- merging

TEST(Merged, AddsTheScaledProduct) {
  // W [2,3], B·A = [1; 2]·[1 10 100] + [3; 4]·[1 0 0]
  std::vector<float> weight{0, 1, 2, 3, 4, 5}, a{1, 10, 100, 1, 0, 0}, b{1, 3, 2, 4};
  EXPECT_EQ(merged(weight, {.a = a, .b = b, .rank = 2, .scale = 0.5}),
            (std::vector<float>{2, 6, 52, 6, 14, 105}));
  EXPECT_THROW(merged(weight, {.a = a, .b = b, .rank = 4, .scale = 1}), InternalError);
  b.push_back(1);
  EXPECT_THROW(merged(weight, {.a = a, .b = b, .rank = 2, .scale = 1}), InternalError);
}

}  // namespace
}  // namespace longshore::trainer
