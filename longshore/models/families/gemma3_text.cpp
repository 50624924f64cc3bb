// Gemma 3's text model: Gemma 2 with norms on query and key in the place of the scores' soft-caps,
// five layers with a window for each without, and rotations of their own for these (Gemma Team
// 2025, arXiv 2503.19786).
#include "longshore/models/families/family.h"
#include "longshore/models/families/fields.h"

namespace longshore::models {

const Family kGemma3Text{.name = "gemma3_text",
                         .hf_class = "Gemma3ForCausalLM",
                         .layer = {.activation = Activation::gelu_tanh,
                                   .norms = {.after_attention = "post_attention_layernorm",
                                             .before_mlp = "pre_feedforward_layernorm",
                                             .after_mlp = "post_feedforward_layernorm"},
                                   .norm_offset = 1,
                                   .scales_embeddings = true,
                                   .qk_norm = QkNorm::of_each_head},
                         .hf = {.activation = "hidden_activation",
                                .activations = {"gelu_pytorch_tanh"},
                                .required = {"num_key_value_heads", "head_dim"},
                                .fields = {{&kQueryPreAttnScalar, 256}, {&kLogitsCap, 0}},
                                .off = {"attention_bias", "use_bidirectional_attention"},
                                .null = {"attn_logit_softcapping"},
                                .tied_embeddings = true,
                                .pad_token = 0,
                                .rope_base = 1e6,
                                .windows = Windows::by_layer,
                                .full_attention_period = 6,
                                .period_key = "sliding_window_pattern",
                                .window_rope_base = 10000}};

}  // namespace longshore::models
