// Gemma: Llama with GeGLU, norms whose weights are added to 1, and scaled embeddings (Gemma Team
// 2024, arXiv 2403.08295).
#include "longshore/models/families/family.h"

namespace longshore::models {

const Family kGemma{
    .name = "gemma",
    .hf_class = "GemmaForCausalLM",
    .layer = {.activation = Activation::gelu_tanh, .norm_offset = 1, .scales_embeddings = true},
    // Published with "gelu", which transformers takes for its tanh form.
    .hf = {.activations = {"gelu_pytorch_tanh", "gelu"},
           .required = {"num_key_value_heads", "head_dim"},
           .off = {"attention_bias", "use_bidirectional_attention"},
           .tied_embeddings = true,
           .pad_token = 0}};

}  // namespace longshore::models
