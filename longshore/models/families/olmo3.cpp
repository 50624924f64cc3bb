// OLMo 3: OLMo 2 with windows in three layers of four, which turn without the scaling of the others
// (OLMo Team 2025, arXiv 2512.13961).
#include "longshore/models/families/family.h"
#include "longshore/models/families/fields.h"

namespace longshore::models {

const Family kOlmo3{.name = "olmo3",
                    .hf_class = "Olmo3ForCausalLM",
                    .layer = {.norms = {.before_attention = "",
                                        .after_attention = "post_attention_layernorm",
                                        .before_mlp = "",
                                        .after_mlp = "post_feedforward_layernorm"},
                              .qk_norm = QkNorm::of_all_heads},
                    .hf = {.activations = {"silu", "swish"},
                           .fields = {{&kAttentionBias}},
                           .pad_token = 1,
                           .rope_base = 5e5,
                           .norm_epsilon = 1e-5,
                           .windows = Windows::by_layer,
                           .full_attention_period = 4,
                           .scales_windows = false}};

}  // namespace longshore::models
