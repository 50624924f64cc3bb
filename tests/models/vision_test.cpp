// Models that read images: their config.json, the names of their tensors, and how many parameters
// they have.
#include "longshore/models/hf/vision.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "longshore/base/error.h"
#include "longshore/models/families/decoder.h"
#include "longshore/models/hf/config.h"
#include "longshore/models/hf/weight_names.h"
#include "tests/message_of.h"

namespace longshore::models {
namespace {

using nlohmann::json;

std::string read(const std::string& path) {
  std::ifstream file("tests/goldens/models/" + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

DecoderConfig whole(const std::string& text) {
  return parse_hf_config(text, UnknownKeys::refuse, Images::read);
}

// As google/paligemma-3b-pt-224 is published.
json paligemma() {
  return json::parse(R"({
    "architectures": ["PaliGemmaForConditionalGeneration"], "bos_token_id": 2, "eos_token_id": 1,
    "hidden_size": 2048, "ignore_index": -100, "image_token_index": 257152,
    "model_type": "paligemma", "pad_token_id": 0, "projection_dim": 2048,
    "text_config": {"hidden_size": 2048, "intermediate_size": 16384, "model_type": "gemma",
      "num_attention_heads": 8, "num_hidden_layers": 18, "num_image_tokens": 256,
      "num_key_value_heads": 1, "torch_dtype": "float32", "vocab_size": 257216},
    "torch_dtype": "float32", "transformers_version": "4.41.0.dev0",
    "vision_config": {"hidden_size": 1152, "intermediate_size": 4304,
      "model_type": "siglip_vision_model", "num_attention_heads": 16, "num_hidden_layers": 27,
      "num_image_tokens": 256, "patch_size": 14, "projection_dim": 2048,
      "projector_hidden_act": "gelu_fast", "torch_dtype": "float32", "vision_use_head": false},
    "vocab_size": 257216})");
}

// As google/gemma-3-4b-it is published.
json gemma3() {
  return json::parse(R"({
    "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255999,
    "eoi_token_index": 256000, "eos_token_id": [1, 106], "image_token_index": 262144,
    "initializer_range": 0.02, "mm_tokens_per_image": 256, "model_type": "gemma3",
    "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
      "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
      "sliding_window": 1024},
    "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0",
    "vision_config": {"hidden_size": 1152, "image_size": 896, "intermediate_size": 4304,
      "model_type": "siglip_vision_model", "num_attention_heads": 16, "num_hidden_layers": 27,
      "patch_size": 14, "vision_use_head": false}})");
}

TEST(Vision, PublishedModelsHaveTheirParameters) {
  EXPECT_EQ(count_parameters(decoder(whole(paligemma().dump()))).all, 2'923'466'480);
  EXPECT_EQ(count_parameters(decoder(whole(gemma3().dump()))).all, 4'300'079'472);
}

TEST(Vision, BothSpellingsSayTheSame) {
  for (const std::string name : {"paligemma2", "paligemma2_window"}) {
    const DecoderConfig config = whole(read(name + "/config.json"));
    EXPECT_EQ(config, whole(read(name + "/config_v4.json"))) << name;
    EXPECT_EQ(config.family, &kGemma2);
    EXPECT_EQ(config.vision->family, &kPaliGemma);
    EXPECT_EQ(config.vision->image_tokens, 16);
  }
  const DecoderConfig gemma = whole(read("gemma3_vision/config.json"));
  EXPECT_EQ(gemma.vision->family, &kGemma3);
  EXPECT_EQ(gemma.vision->image_tokens, 4);
  // Text alone is another model, or none.
  EXPECT_FALSE(parse_hf_config(read("gemma3_vision/config.json")).vision);
  EXPECT_EQ(message_of<DataError>([] { parse_hf_config(paligemma().dump()); }),
            "model_type: found \"paligemma\", expected a model of text where images are not read "
            "(use_multimodal=false, or no pixel_values): this one sees no text as its text model "
            "would");
}

// All that the goldens know.
TEST(Vision, TensorsHaveOneNameInAllSpellings) {
  for (const std::string name : {"paligemma2", "paligemma2_window"}) {
    const json names = json::parse(read(name + "/names.json"));
    for (const auto& [saved, others] : names.items()) {
      const auto hub = others.at("hub").get<std::string>();
      EXPECT_EQ(hf_image_weight_name(hub), hub);
      EXPECT_EQ(hf_image_weight_name(saved), hub) << saved;
      EXPECT_EQ(hf_image_weight_name(others.at("transformers_4_52").get<std::string>()), hub);
    }
  }
  EXPECT_EQ(hf_image_weight_name("vision_tower.vision_model.head.probe"), std::nullopt);
}

TEST(Vision, WhatIsNotSupportedIsRefused) {
  auto refusal = [](json object, const char* pointer, const json& value) {
    object[json::json_pointer(pointer)] = value;
    return message_of<DataError>([&] { whole(object.dump()); });
  };
  EXPECT_EQ(refusal(paligemma(), "/vision_config/model_type", "clip_vision_model"),
            "vision_config.model_type: found \"clip_vision_model\", expected siglip_vision_model");
  EXPECT_EQ(refusal(paligemma(), "/vision_config/patch_size", 15),
            "vision_config.patch_size: found 15, expected a divisor of image_size, 224");
  EXPECT_EQ(refusal(paligemma(), "/vision_config/num_attention_heads", 7),
            "vision_config.num_attention_heads: found 7, expected a divisor of hidden_size, 1152");
  EXPECT_EQ(refusal(paligemma(), "/projection_dim", 2304),
            "projection_dim: found 2304, expected the text model's hidden_size, 2048");
  EXPECT_EQ(refusal(gemma3(), "/mm_tokens_per_image", 100),
            "mm_tokens_per_image: found 100, expected the square of a divisor of 64, the patches "
            "across an image");
  EXPECT_EQ(refusal(gemma3(), "/vision_config/stripes", 1).substr(0, 47),
            "vision_config.stripes: found an unknown key, wh");
  EXPECT_EQ(refusal(gemma3(), "/image_token_index", nullptr).substr(0, 26),
            "image_token_index: found n");
}

}  // namespace
}  // namespace longshore::models
