// GLM-4 (0414): norms before and after attention and MLP, of which gate and up are published as one
// matrix, and RoPE that turns half of a head, neighbours against each other (GLM Team 2024, arXiv
// 2406.12793).
#include "longshore/models/families/family.h"
#include "longshore/models/families/fields.h"

namespace longshore::models {

const Family kGlm4{.name = "glm4",
                   .hf_class = "Glm4ForCausalLM",
                   .layer = {.norms = {.before_attention = "input_layernorm",
                                       .after_attention = "post_self_attn_layernorm",
                                       .before_mlp = "post_attention_layernorm",
                                       .after_mlp = "post_mlp_layernorm"},
                             .rope_pairs = RopePairs::adjacent,
                             .fused = {kGateUpProj},
                             .output_bias = false},
                   .hf = {.activations = {"silu", "swish"},
                          .required = {"num_key_value_heads", "head_dim"},
                          .fields = {{&kAttentionBias, 1}, {&kPartialRotaryFactor, 0.5}},
                          .pad_token = 151329,
                          .norm_epsilon = 1.5625e-07}};

}  // namespace longshore::models
