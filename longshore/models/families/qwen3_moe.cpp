// Qwen 3 with experts in the place of MLPs (Qwen Team 2025, arXiv 2505.09388).
#include "longshore/models/families/family.h"
#include "longshore/models/families/fields.h"

namespace longshore::models {

const Family kQwen3Moe{.name = "qwen3_moe",
                       .hf_class = "Qwen3MoeForCausalLM",
                       .layer = {.qk_norm = QkNorm::of_each_head,
                                 .experts = {.router = "mlp.gate",
                                             .module = "mlp.experts",
                                             .gate = "mlp.experts.{}.gate_proj",
                                             .up = "mlp.experts.{}.up_proj",
                                             .down = "mlp.experts.{}.down_proj",
                                             .may_be_absent = true}},
                       .hf = {.activations = {"silu", "swish"},
                              .required = {"num_key_value_heads", "moe_intermediate_size"},
                              .fields = {{&kAttentionBias}, {&kNormalizesExperts}, {&kExpertWidth}},
                              .windows = Windows::refused,
                              .expert_counts = {"num_experts", "num_local_experts"},
                              .dense_layers = DenseLayers::by_list}};

}  // namespace longshore::models
