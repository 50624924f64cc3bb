// Gemma 4's text model: Gemma 3 with larger heads, fewer of keys and a RoPE of a quarter of a head
// in layers without a window, where keys may be values too; with norms on values, no scale of
// scores, and a number that each layer's output is multiplied by; in small models with an input of
// each layer's own, and layers that read earlier ones' keys and values; in one with experts beside
// the MLPs (Gemma Team 2026, Gemma 4).
#include "longshore/models/families/family.h"
#include "longshore/models/families/fields.h"

namespace longshore::models {

const Family kGemma4Text{.name = "gemma4_text",
                         .hf_class = "Gemma4ForCausalLM",
                         .layer = {.activation = Activation::gelu_tanh,
                                   .norms = {.after_attention = "post_attention_layernorm",
                                             .before_mlp = "pre_feedforward_layernorm",
                                             .after_mlp = "post_feedforward_layernorm"},
                                   .scales_embeddings = true,
                                   .qk_norm = QkNorm::of_each_head,
                                   .value_norm = true,
                                   .unscaled_scores = true,
                                   .experts = {.router = "router",
                                               .module = "experts",
                                               .gate = "experts.gate_proj",
                                               .up = "experts.up_proj",
                                               .down = "experts.down_proj",
                                               .gate_up = "experts.gate_up_proj",
                                               .normalizes = true,
                                               .scales_router = true,
                                               .norm_before = "pre_feedforward_layernorm_2",
                                               .norm_after = "post_feedforward_layernorm_2",
                                               .norm_after_mlp = "post_feedforward_layernorm_1"},
                                   .layer_scalar = true},
                         .hf = {.activation = "hidden_activation",
                                .activations = {"gelu_pytorch_tanh"},
                                .required = {"num_key_value_heads", "head_dim",
                                             "hidden_size_per_layer_input", "rope_parameters"},
                                .fields = {{&kLogitsCap},
                                           {&kKeysAsValues},
                                           {&kGlobalHeadDim},
                                           {&kGlobalKvHeads},
                                           {&kKvSharedLayers},
                                           {&kDoubleWideMlp},
                                           {&kPerLayerWidth},
                                           {&kExpertWidth},
                                           {.field = &kExpertsPerToken, .hf_key = "top_k_experts"}},
                                .words = {{"use_bidirectional_attention", {"vision"}}},
                                .off = {"attention_bias"},
                                .tied_embeddings = true,
                                .pad_token = 0,
                                .rope_base = 1e6,
                                .has_older_rope = false,
                                .window = 512,
                                .global_head_dim = 512,
                                .last_is_global = true,
                                .windows = Windows::by_layer,
                                .full_attention_period = 6,
                                .expert_counts = {"num_experts"},
                                .experts_flag = "enable_moe_block",
                                .window_rope_base = 10000}};

}  // namespace longshore::models
