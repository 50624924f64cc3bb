// Mistral: Llama with a sliding window (Jiang et al. 2023, arXiv 2310.06825).
#include "longshore/models/families/family.h"

namespace longshore::models {

const Family kMistral{.name = "mistral",
                      .hf_class = "MistralForCausalLM",
                      .layer = {},
                      .hf = {.activations = {"silu", "swish"},
                             .required = {"num_key_value_heads"},
                             .windows = Windows::all}};

}  // namespace longshore::models
