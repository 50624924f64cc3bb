// OLMo 2: Llama with norms on what attention and MLP give, instead of on what they read, and on all
// heads of query and key together (OLMo Team 2025, arXiv 2501.00656).
#include "longshore/models/families/family.h"
#include "longshore/models/families/fields.h"

namespace longshore::models {

const Family kOlmo2{.name = "olmo2",
                    .hf_class = "Olmo2ForCausalLM",
                    .layer = {.norms = {.before_attention = "",
                                        .after_attention = "post_attention_layernorm",
                                        .before_mlp = "",
                                        .after_mlp = "post_feedforward_layernorm"},
                              .qk_norm = QkNorm::of_all_heads},
                    .hf = {.activations = {"silu", "swish"},
                           .fields = {{&kAttentionBias}},
                           .pad_token = 1,
                           .norm_epsilon = 1e-5}};

}  // namespace longshore::models
