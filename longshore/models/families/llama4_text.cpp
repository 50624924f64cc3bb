// Llama 4's text model: Llama with experts that read weighed tokens, beside one that all tokens go
// through; with chunked attention, but in layers without RoPE, whose queries have a temperature by
// their place (Meta 2025, The Llama 4 herd).
#include "longshore/models/families/family.h"
#include "longshore/models/families/fields.h"

namespace longshore::models {

const Family kLlama4Text{
    .name = "llama4_text",
    .hf_class = "Llama4ForCausalLM",
    .layer = {.qk_norm = QkNorm::unweighted,
              .window = WindowKind::chunk,
              .mlp = "feed_forward",
              .experts = {.router = "feed_forward.router",
                          .module = "feed_forward.experts",
                          .gate = "feed_forward.experts.gate_proj",
                          .up = "feed_forward.experts.up_proj",
                          .down = "feed_forward.experts.down_proj",
                          .gate_up = "feed_forward.experts.gate_up_proj",
                          .is_plain = true,
                          .has_sigmoid_scores = true,
                          .weighs_inputs = true,
                          .shared = "feed_forward.shared_expert"},
              .rope_pairs = RopePairs::adjacent},
    .hf = {.activations = {"silu", "swish"},
           .required = {"num_key_value_heads", "head_dim", "intermediate_size_mlp"},
           .fields = {{&kAttentionBias},
                      {.field = &kMlpWidth, .hf_key = "intermediate_size_mlp"},
                      {.field = &kExpertWidth, .hf_key = "intermediate_size"},
                      {.field = &kWindow, .hf_key = "attention_chunk_size"},
                      {&kUsesQkNorm, 1},
                      {&kUnrotatedTemperature, 1},
                      {&kUnrotatedTemperatureBeta, 0.1},
                      {&kUnrotatedTemperatureLength, 8192}},
           .off = {"router_jitter_noise"},
           .rope_base = 500000,
           .norm_epsilon = 1e-5,
           .window = 8192,
           .windows = Windows::by_layer,
           .expert_counts = {"num_local_experts"},
           .dense_layers = DenseLayers::by_step,
           .nope_layer_interval = 4}};

}  // namespace longshore::models
