#include "longshore/models/hf/weight_names.h"

#include <gtest/gtest.h>

#include <string>

namespace longshore::models {
namespace {

TEST(WeightNames, ComputedBuffersAreNoWeights) {
  for (const char* name :
       {"model.layers.31.self_attn.rotary_emb.inv_freq", "layers.0.self_attn.rotary_emb.inv_freq",
        "model.rotary_emb.inv_freq", "rotary_emb.original_inv_freq", "inv_freq",
        "model.rotary_emb_local.inv_freq", "model.layers.0.self_attn.rotary_emb.cos_cached",
        "language_model.model.layers.0.self_attn.rotary_emb.inv_freq", "model.position_ids",
        "model.layers.0.self_attn.masked_bias", "model.layers.0.attn.bias", "model.causal_mask",
        "model.embed_tokens.embed_scale"}) {
    EXPECT_TRUE(is_computed_buffer(name)) << name;
    EXPECT_EQ(hf_weight_name(name), std::nullopt) << name;
  }
  for (const char* name :
       {"model.layers.0.self_attn.q_proj.bias", "model.layers.0.self_attn.o_proj.bias",
        "model.layers.0.mlp.down_proj.bias", "lm_head.weight", "model.rotary_emb_scale.weight",
        "inv_freq.weight", ""}) {
    EXPECT_FALSE(is_computed_buffer(name)) << name;
    EXPECT_EQ(hf_weight_name(name), name) << name;
  }
}

TEST(WeightNames, APrefixThatAutoModelLeavesOutIsPutBack) {
  for (const std::string name :
       {"embed_tokens.weight", "layers.0.self_attn.q_proj.weight", "norm.weight",
        "embed_tokens_per_layer.weight", "per_layer_projection_norm.weight"})
    for (const char* prefix :
         {"", "model.", "language_model.", "language_model.model.", "model.language_model."})
      EXPECT_EQ(hf_weight_name(prefix + name), "model." + name);
  EXPECT_EQ(hf_weight_name("normal.weight"), "normal.weight");
  EXPECT_EQ(hf_weight_name("vision_tower.layers.0.weight"), std::nullopt);
}

TEST(WeightNames, KeysOfLayersThatReadEarlierOnesAreUnread) {
  const DecoderConfig config{.layers = 12, .kv_shared_layers = 5};
  for (const char* name :
       {"model.layers.7.self_attn.k_proj.weight", "model.layers.11.self_attn.v_proj.weight",
        "model.layers.9.self_attn.k_norm.weight"})
    EXPECT_TRUE(is_unread_weight(config, name)) << name;
  for (const char* name :
       {"model.layers.6.self_attn.k_proj.weight", "model.layers.12.self_attn.k_proj.weight",
        "model.layers.7.self_attn.q_proj.weight", "model.layers.-1.self_attn.k_proj.weight",
        "model.layers.7", "model.layers.", "layers.7.self_attn.k_proj.weight",
        "model.layers.99999999999999999999.self_attn.k_proj.weight"})
    EXPECT_FALSE(is_unread_weight(config, name)) << name;
}

}  // namespace
}  // namespace longshore::models
