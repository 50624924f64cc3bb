// Phi 3 and 4: Llama of which query, key and value are published as one matrix, and gate and up too
// (Abdin et al. 2024, arXiv 2404.14219 and 2412.08905).
#include "longshore/models/families/family.h"
#include "longshore/models/families/fields.h"

namespace longshore::models {

const Family kPhi3{.name = "phi3",
                   .hf_class = "Phi3ForCausalLM",
                   .layer = {.fused = {kQkvProj, kGateUpProj}},
                   .hf = {.activations = {"silu", "swish"},
                          .required = {"num_key_value_heads"},
                          .fields = {{&kPartialRotaryFactor, 1}},
                          .off = {"resid_pdrop"},
                          .pad_token = 32000,
                          .norm_epsilon = 1e-5,
                          .scales_rope = false,
                          .window = 0,
                          .windows = Windows::all}};

}  // namespace longshore::models
