#include "longshore/models/hf/text_model.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "longshore/base/error.h"
#include "longshore/models/hf/config.h"

namespace longshore::models {
namespace {

using nlohmann::json;

// As Gemma 3 4B is published.
json published() {
  return json::parse(R"({
    "architectures": ["Gemma3ForConditionalGeneration"],
    "boi_token_index": 255999, "eoi_token_index": 256000, "image_token_index": 262144,
    "eos_token_id": [1, 106], "initializer_range": 0.02, "mm_tokens_per_image": 256,
    "model_type": "gemma3", "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0",
    "text_config": {
      "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
      "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
      "sliding_window": 1024},
    "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"}})");
}

json text_of(const json& whole) { return json::parse(text_model_config(whole.dump())); }

// As Gemma 4's 12B is published.
TEST(TextModel, OfGemma4) {
  json whole = json::parse(R"({
    "architectures": ["Gemma4UnifiedForConditionalGeneration"], "model_type": "gemma4_unified",
    "image_token_id": 258880, "video_token_id": 258884, "audio_token_id": 258881,
    "boi_token_id": 255999, "eoi_token_id": 258882, "boa_token_id": 256000,
    "eoa_token_index": 258883, "tie_word_embeddings": true, "dtype": "bfloat16",
    "text_config": {
      "model_type": "gemma4_unified_text", "hidden_size": 3840, "intermediate_size": 15360,
      "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 8,
      "head_dim": 256, "global_head_dim": 512, "num_global_key_value_heads": 1,
      "sliding_window": 1024, "enable_moe_block": false, "num_experts": null,
      "hidden_size_per_layer_input": 0, "attention_k_eq_v": true, "num_kv_shared_layers": 0,
      "final_logit_softcapping": 30.0, "tie_word_embeddings": true, "vocab_size": 262144,
      "use_bidirectional_attention": "vision"},
    "vision_config": {"model_type": "gemma4_unified_vision"}, "audio_config": null})");
  const DecoderConfig read = parse_hf_config(whole.dump());
  EXPECT_EQ(read.family, &kGemma4Text);
  EXPECT_EQ(read.dtype, Dtype::bfloat16);
  EXPECT_EQ(read.rope_scaling, RopeScaling(ProportionalRopeScaling{0.25, 1}));
  EXPECT_EQ(head_dim(read, true), 256);
  EXPECT_EQ(head_dim(read, false), 512);
  EXPECT_EQ(kv_heads(read, true), 8);
  EXPECT_EQ(kv_heads(read, false), 1);
  EXPECT_EQ(full_attention_period(read), 6);
  EXPECT_EQ(text_of(whole)["model_type"], "gemma4_text");
  EXPECT_THROW(parse_hf_config(whole.dump(), UnknownKeys::refuse, Images::read), DataError);
  whole["text_config"]["use_bidirectional_attention"] = "all";
  EXPECT_THROW(parse_hf_config(whole.dump()), DataError);
  EXPECT_EQ(text_model_name("model.language_model.layers.0.layer_scalar"),
            "model.layers.0.layer_scalar");
  for (const char* name : {"model.embed_vision.embedding_projection.weight",
                           "model.audio_tower.layers.0.a.weight", "model.vision_tower.a.weight"})
    EXPECT_EQ(text_model_name(name), std::nullopt) << name;
}

// As Mistral Small 3 and Ministral 3 are published.
TEST(TextModel, OfMistral3) {
  json whole = json::parse(R"({
    "architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3",
    "image_token_index": 10, "multimodal_projector_bias": false, "projector_hidden_act": "gelu",
    "spatial_merge_size": 2, "vision_feature_layer": -1, "dtype": "bfloat16",
    "text_config": {
      "model_type": "mistral", "hidden_size": 512, "intermediate_size": 1024,
      "num_hidden_layers": 4, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 16,
      "rms_norm_eps": 1e-05, "rope_theta": 1e9, "sliding_window": null, "vocab_size": 131072},
    "vision_config": {"model_type": "pixtral"}})");
  const DecoderConfig small = parse_hf_config(whole.dump());
  EXPECT_EQ(small.family, &kMistral);
  EXPECT_EQ(small.dtype, Dtype::bfloat16);
  EXPECT_EQ(small.rope_base, 1e9);
  EXPECT_EQ(small.window, 0);
  EXPECT_FALSE(small.tied_embeddings);
  json& text = whole["text_config"];
  text["model_type"] = "ministral3";
  text["tie_word_embeddings"] = true;
  text.erase("rope_theta");
  text["rope_parameters"] = json::parse(R"({
    "type": "yarn", "rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "beta_fast": 32.0,
    "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1,
    "original_max_position_embeddings": 16384})");
  const DecoderConfig read = parse_hf_config(whole.dump());
  EXPECT_EQ(read.family, &kMinistral3);
  EXPECT_TRUE(read.tied_embeddings);
  EXPECT_EQ(text_of(whole)["architectures"], json({"Ministral3ForCausalLM"}));
}

TEST(TextModel, PublishedFilesLeaveMostToDefaults) {
  const json text = text_of(published());
  EXPECT_EQ(text["architectures"], json({"Gemma3ForCausalLM"}));
  EXPECT_EQ(text["eos_token_id"], json({1, 106}));
  EXPECT_FALSE(text.contains("vision_config"));

  const DecoderConfig read = parse_hf_config(text.dump());
  EXPECT_EQ(read.max_position_embeddings, 131072);
  EXPECT_EQ(read.vocabulary, 262208);
  EXPECT_EQ(read.query_heads, 8);
  EXPECT_EQ(read.kv_heads, 4);
  EXPECT_EQ(read.head_dim, 256);
  EXPECT_EQ(read.norm_epsilon, 1e-6);
  EXPECT_EQ(read.query_pre_attn_scalar, 256);
  EXPECT_EQ(read.rope_base, 1e6);
  EXPECT_EQ(read.rope_scaling, RopeScaling(LinearRopeScaling{8}));
  EXPECT_EQ(read.window_rope_base, 10000);
  EXPECT_EQ(read.dtype, Dtype::bfloat16);
  EXPECT_TRUE(read.tied_embeddings);
}

TEST(TextModel, ExplicitValuesReplaceDefaults) {
  json whole = published();
  whole["text_config"]["head_dim"] = 128;
  whole["text_config"]["eos_token_id"] = 1;
  whole["text_config"]["final_logit_softcapping"] = 30.0;  // transformers never applies it
  whole["tie_word_embeddings"] = false;
  const DecoderConfig read = parse_hf_config(text_of(whole).dump());
  EXPECT_EQ(read.head_dim, 128);
  EXPECT_EQ(read.logits_cap, 0);
  EXPECT_FALSE(read.tied_embeddings);
  EXPECT_EQ(text_of(whole)["eos_token_id"], json({1, 106}));
  EXPECT_EQ(parse_hf_config(whole.dump()), read);
}

TEST(TextModel, ATextModelStaysAsItIs) {
  for (const char* text : {R"({"model_type":"llama",  "vocab_size":10})", "{}", "{\"a\":1.0}"})
    EXPECT_EQ(text_model_config(text), text);
}

TEST(TextModel, WhatIsNotOneIsRefused) {
  auto refusal = [](auto change) -> std::string {
    json whole = published();
    change(whole);
    try {
      parse_hf_config(text_model_config(whole.dump()));
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal([](json&) {}), "");
  EXPECT_EQ(refusal([](json& c) { c.erase("text_config"); }),
            "text_config: found nothing, expected a value");
  EXPECT_EQ(refusal([](json& c) { c["text_config"] = 3; }),
            "text_config: found 3, expected an object");
  EXPECT_EQ(refusal([](json& c) { c["text_config"]["model_type"] = "gemma2"; }),
            "text_config.model_type: found \"gemma2\", expected gemma3_text");
  EXPECT_EQ(refusal([](json& c) { c["quantization_config"] = json::object(); }),
            "quantization_config.quant_method: found nothing, expected a value");
  EXPECT_EQ(refusal([](json& c) { c["quantization_config"]["quant_method"] = "bitsandbytes"; }),
            "");
  EXPECT_EQ(refusal([](json& c) { c["zebra_stripes"] = 1; }).substr(0, 35),
            "zebra_stripes: found an unknown key");
  EXPECT_EQ(refusal([](json& c) { c["text_config"]["use_bidirectional_attention"] = true; }),
            "use_bidirectional_attention: found true, which is not supported; expected false or 0");
  EXPECT_THROW(text_model_config("[]"), DataError);
}

TEST(TextModel, HasItsTensorsUnderItsOwnNames) {
  const std::string norm = "model.layers.0.input_layernorm.weight";
  EXPECT_EQ(text_model_name(norm), norm);
  EXPECT_EQ(text_model_name("language_model." + norm), norm);
  EXPECT_EQ(text_model_name("model.language_model.layers.0.input_layernorm.weight"), norm);
  EXPECT_EQ(text_model_name("language_model.lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(text_model_name("language_model.layers.0.input_layernorm.weight"), norm);
  EXPECT_EQ(text_model_name("lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(text_model_name("other"), "other");
  for (const char* name : {"vision_tower.vision_model.post_layernorm.weight",
                           "model.vision_tower.vision_model.post_layernorm.weight",
                           "multi_modal_projector.mm_input_projection_weight",
                           "model.multi_modal_projector.mm_soft_emb_norm.weight"})
    EXPECT_EQ(text_model_name(name), std::nullopt);
}

}  // namespace
}  // namespace longshore::models
