#include "longshore/trainer/weights/load_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "longshore/base/error.h"
#include "longshore/data/safetensors/safetensors_float.h"
#include "longshore/data/safetensors/safetensors_folder.h"
#include "longshore/data/safetensors/safetensors_writer.h"
#include "longshore/models/families/decoder.h"
#include "longshore/models/hf/config.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "tests/data/temporary_folder.h"
#include "tests/trainer/golden.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;
using offload::Copy;
using offload::MemoryKind;

models::DecoderConfig config_of(const std::string& name) {
  std::ifstream file(golden_folder(name) / "config.json");
  return models::parse_hf_config(std::string{std::istreambuf_iterator<char>(file), {}});
}

struct Loaded {
  Loaded(const fs::path& folder, const models::DecoderConfig& model,
         const offload::LayoutOptions& options = {})
      : layout(offload::lay_out(models::decoder(model), options)) {
    Config config;
    config.load_parameters_path = folder;
    said = load_parameters(config, model, layout, arguments);
  }

  std::unique_ptr<offload::Backend> backend = offload::make_cpu_backend();
  offload::Ledger ledger;
  offload::Arguments arguments{*backend, ledger};
  offload::ParameterLayout layout;
  std::string said;
};

std::string refusal(const fs::path& folder, const models::DecoderConfig& model) {
  try {
    Loaded loaded(folder, model);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Every weight of the folder, wherever buckets live, in one file or several.
TEST(LoadParameters, BringsEveryWeightWhereItLives) {
  for (const char* name : {"llama32_tied", "llama31_gqa", "qwen2_bias", "gemma3_text"})
    for (MemoryKind home : {MemoryKind::device, MemoryKind::pinned_host}) {
      offload::LayoutOptions options{.homes = {home, home, home}};
      Loaded loaded(golden_folder(name), config_of(name), options);
      data::SafetensorsFolder weights(golden_folder(name));
      for (const std::string& tensor : weights.names()) {
        auto location = loaded.layout.by_name.at(tensor);
        const offload::Parameter& parameter = loaded.layout.parameter(location);
        std::vector<float> expected(static_cast<size_t>(parameter.type.shape.count()));
        data::to_float32(weights.at(tensor), expected);
        std::vector<float> found(expected.size());
        loaded.arguments.read_part(argument_name(loaded.layout.bucket(location), Copy::compute),
                                   parameter.offset * 4, found.data(),
                                   static_cast<int64_t>(found.size() * sizeof(float)));
        EXPECT_EQ(found, expected) << tensor;
      }
      EXPECT_EQ(loaded.ledger.now_bytes(MemoryKind::device) == 0, home == MemoryKind::pinned_host);
      EXPECT_THAT(loaded.said, HasSubstr(name));
    }
}

// What others have written of the same weights, in a folder with that model's config.json.
class OthersFolder {
 public:
  explicit OthersFolder(const std::string& golden) : golden_(golden_folder(golden)) {
    fs::copy_file(golden_ / "config.json", temporary_ / "config.json");
  }

  // `name` gives the names of a tensor of the golden folder.
  template <class Names>
  void write(const Names& names) {
    const data::SafetensorsFolder weights(golden_);
    std::vector<data::SafetensorsInfo> infos;
    std::map<std::string, std::string> sources;
    for (const std::string& tensor : weights.names())
      for (const std::string& name : names(tensor)) {
        infos.push_back(weights.at(tensor));
        infos.back().name = name;
        sources[name] = tensor;
      }
    infos = data::sorted_as_safetensors(std::move(infos));
    data::SafetensorsWriter writer(temporary_ / "model.safetensors", infos);
    for (const data::SafetensorsInfo& info : infos)
      writer.append(info.name, weights.at(sources.at(info.name)).data);
    writer.finish();
  }

  fs::path path() const { return temporary_ / ""; }

 private:
  fs::path golden_;
  data::TemporaryFolder temporary_;
};

std::string compute_weights(const Loaded& loaded) {
  std::string bytes;
  for (const offload::Bucket& bucket : loaded.layout.buckets) {
    std::string of_bucket(static_cast<size_t>(offload::bytes(bucket, Copy::compute)), '\0');
    loaded.arguments.read(argument_name(bucket, Copy::compute), of_bucket.data(),
                          static_cast<int64_t>(of_bucket.size()));
    bytes += of_bucket;
  }
  return bytes;
}

TEST(LoadParameters, TakesWhatOthersCallTheSameWeights) {
  using Names = std::vector<std::string>;
  auto without_prefix = [](const std::string& name) {
    return Names{name.starts_with("model.") ? name.substr(6) : name};
  };
  auto with_buffers = [](const std::string& name) {
    Names names{name};
    if (name.ends_with("input_layernorm.weight"))
      names.push_back(name.substr(0, name.find("input_layernorm")) +
                      "self_attn.rotary_emb.inv_freq");
    return names;
  };
  auto head_alone = [](const std::string& name) {
    return Names{name == "model.embed_tokens.weight" ? "lm_head.weight" : name};
  };
  // As published E2B and E4B have them, of layers that read the keys of earlier ones.
  auto with_unread = [](const std::string& name) {
    Names names{name};
    const std::string layer = "model.layers.3.", reader = "model.layers.8.";
    for (const char* module : {"self_attn.k_proj", "self_attn.v_proj", "self_attn.k_norm"})
      if (name.starts_with(layer + module)) names.push_back(reader + name.substr(layer.size()));
    return names;
  };
  for (const std::string name : {"llama32_tied", "gemma2", "llama2_mha_untied", "gemma4_e2b"}) {
    const std::string expected = compute_weights(Loaded(golden_folder(name), config_of(name)));
    const bool is_tied = config_of(name).tied_embeddings;
    auto expect_same = [&](const auto& names, const char* says) {
      OthersFolder folder(name);
      folder.write(names);
      const Loaded loaded(folder.path(), config_of(name));
      EXPECT_TRUE(compute_weights(loaded) == expected) << name;
      EXPECT_THAT(loaded.said, HasSubstr(says));
    };
    expect_same(without_prefix, "M parameters");
    expect_same(with_buffers,
                "buffers left out, since they are computed: "
                "\"model.layers.0.self_attn.rotary_emb.inv_freq\", ...");
    if (is_tied) expect_same(head_alone, "M parameters");
    if (name == "gemma4_e2b")
      expect_same(with_unread,
                  "3 tensors left out, since layers read the keys and values of earlier ones: "
                  "\"model.layers.8.self_attn.k_norm.weight\", ...");
  }
}

TEST(LoadParameters, UnknownKeysOfAConfigAreSaidOnce) {
  OthersFolder folder("llama32_tied");
  folder.write([](const std::string& name) { return std::vector{name}; });
  const fs::path file = folder.path() / "config.json";
  std::string text = data::read_file(file);
  text.insert(text.find('{') + 1, "\"zebra_stripes\": 3, ");
  std::ofstream(file) << text;
  const models::DecoderConfig model = config_of("llama32_tied");
  EXPECT_THAT(refusal(folder.path(), model), HasSubstr("zebra_stripes: found an unknown key"));
  const offload::ParameterLayout layout = offload::lay_out(models::decoder(model));
  const std::unique_ptr<offload::Backend> backend = offload::make_cpu_backend();
  offload::Ledger ledger;
  offload::Arguments arguments(*backend, ledger);
  Config config;
  config.load_parameters_path = folder.path();
  config.allow_unknown_config_keys = true;
  EXPECT_THAT(load_parameters(config, model, layout, arguments),
              HasSubstr("are ignored: \"zebra_stripes\""));
}

TEST(LoadParameters, AnotherModelIsRefusedKeyByKey) {
  models::DecoderConfig model = config_of("gemma2");
  EXPECT_EQ(refusal(golden_folder("gemma2"), model), "");
  model.mlp_width += 1;
  model.logits_cap = 7;
  std::string what = refusal(golden_folder("gemma2"), model);
  for (const char* part : {"base_mlp_dim: 89 here, 88 in the checkpoint", "final_logits_soft_cap",
                           "load_parameters_path"})
    EXPECT_THAT(what, HasSubstr(part));
  // What follows from another key is not said.
  model = config_of("gemma2");
  model.layers += 2;
  model.head_dim *= 2;
  what = refusal(golden_folder("gemma2"), model);
  EXPECT_TRUE(
      what.ends_with("holds another model: base_num_decoder_layers: 6 here, 4 in the "
                     "checkpoint, head_dim: 36 here, 18 in the checkpoint"))
      << what;
  what = refusal(golden_folder("mistral_window"), config_of("qwen2_bias"));
  EXPECT_THAT(what, HasSubstr("model_type: qwen2 here, mistral in the checkpoint"));
}

TEST(LoadParameters, WhatDoesNotFitIsListedAtOnce) {
  fs::path folder = fs::path(testing::TempDir()) / "load_parameters_test";
  fs::remove_all(folder);
  fs::create_directories(folder);
  // Another model's tensors under this one's config.
  fs::copy(golden_folder("llama32_tied") / "config.json", folder / "config.json");
  fs::copy(golden_folder("qwen3_qknorm") / "model.safetensors", folder / "model.safetensors");
  std::string what = refusal(folder, config_of("llama32_tied"));
  for (const char* part : {"not expected: model.layers.0.self_attn.q_norm.weight",
                           "model.embed_tokens.weight is [173,40], expected f32["})
    EXPECT_THAT(what, HasSubstr(part));
  fs::remove(folder / "model.safetensors");
  EXPECT_THAT(refusal(folder, config_of("llama32_tied")), HasSubstr("model.safetensors"));
  fs::remove(folder / "config.json");
  EXPECT_THAT(refusal(folder, config_of("llama32_tied")), HasSubstr("config.json"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace longshore::trainer
