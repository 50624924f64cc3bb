// Qwen 2 and 2.5: Llama with biases on query, key and value (Qwen Team 2024, arXiv 2407.10671).
#include "longshore/models/families/family.h"

namespace longshore::models {

const Family kQwen2{.name = "qwen2",
                    .hf_class = "Qwen2ForCausalLM",
                    .layer = {.qkv_bias = true},
                    .hf = {.activations = {"silu", "swish"},
                           .required = {"num_key_value_heads"},
                           .windows = Windows::refused,
                           .max_window_layers = 28}};

}  // namespace longshore::models
