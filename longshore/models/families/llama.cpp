// Llama: a pre-norm decoder with RMSNorm, rotary positions, grouped key/value heads and a SwiGLU
// MLP (Touvron et al. 2023, arXiv 2307.09288); Llama 3.1 scales its rotations.
#include "longshore/models/families/family.h"
#include "longshore/models/families/fields.h"

namespace longshore::models {

const Family kLlama{
    .name = "llama",
    .hf_class = "LlamaForCausalLM",
    .layer = {},
    .hf = {.activations = {"silu", "swish"}, .fields = {{&kAttentionBias}, {&kMlpBias}}}};

}  // namespace longshore::models
