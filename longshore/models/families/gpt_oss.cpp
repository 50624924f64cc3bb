// gpt-oss: experts in the place of MLPs, with biases and clamped gates, a learnt sink in each
// head's softmax, and a window in every second layer (OpenAI 2025, arXiv 2508.10925).
#include "longshore/models/families/family.h"
#include "longshore/models/families/fields.h"

namespace longshore::models {

const Family kGptOss{
    .name = "gpt_oss",
    .hf_class = "GptOssForCausalLM",
    .layer = {.activation = Activation::clamped_silu,
              .has_sinks = true,
              .experts = {.router = "mlp.router",
                          .module = "mlp.experts",
                          .gate = "mlp.experts.gate_proj",
                          .up = "mlp.experts.up_proj",
                          .down = "mlp.experts.down_proj",
                          .gate_up = "mlp.experts.gate_up_proj",
                          .takes_turns = true,
                          .is_plain = true,
                          .is_known_as_plain = true,
                          .has_biases = true,
                          .normalizes = true}},
    .hf = {.activations = {"silu"},
           .required = {"num_key_value_heads", "head_dim"},
           .fields = {{&kAttentionBias, 1}, {&kActivationAlpha, 1.702}, {&kActivationLimit, 7}},
           .rope_base = 150000,
           .norm_epsilon = 1e-5,
           .window = 128,
           .windows = Windows::by_layer,
           .full_attention_period = 2,
           .expert_counts = {"num_local_experts", "num_experts"},
           .needs_rope = true,
           .quantization = "mxfp4"}};

}  // namespace longshore::models
