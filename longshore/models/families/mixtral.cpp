// Mixtral: Mistral with experts in the place of MLPs (Jiang et al. 2024, arXiv 2401.04088).
#include "longshore/models/families/family.h"

namespace longshore::models {

const Family kMixtral{.name = "mixtral",
                      .hf_class = "MixtralForCausalLM",
                      .layer = {.experts = {.router = "block_sparse_moe.gate",
                                            .module = "mlp.experts",
                                            .gate = "block_sparse_moe.experts.{}.w1",
                                            .up = "block_sparse_moe.experts.{}.w3",
                                            .down = "block_sparse_moe.experts.{}.w2",
                                            .normalizes = true}},
                      .hf = {.activations = {"silu", "swish"},
                             .required = {"num_key_value_heads"},
                             .off = {"router_jitter_noise"},
                             .rope_base = 1e6,
                             .norm_epsilon = 1e-5,
                             .window = 0,
                             .windows = Windows::all,
                             .expert_counts = {"num_local_experts"}}};

}  // namespace longshore::models
