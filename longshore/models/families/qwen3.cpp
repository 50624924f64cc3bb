// Qwen 3: Llama with norms on query and key (Qwen Team 2025, arXiv 2505.09388).
#include "longshore/models/families/family.h"
#include "longshore/models/families/fields.h"

namespace longshore::models {

const Family kQwen3{.name = "qwen3",
                    .hf_class = "Qwen3ForCausalLM",
                    .layer = {.qk_norm = QkNorm::of_each_head},
                    .hf = {.activations = {"silu", "swish"},
                           .required = {"num_key_value_heads", "head_dim"},
                           .fields = {{&kAttentionBias}},
                           .windows = Windows::refused,
                           .max_window_layers = 28}};

}  // namespace longshore::models
