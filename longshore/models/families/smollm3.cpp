// SmolLM 3: Llama with layers that do not turn query and key by their positions (Hugging Face 2025,
// SmolLM3: smol, multilingual, long-context reasoner; Yang et al. 2025, arXiv 2501.18795).
#include "longshore/models/families/family.h"
#include "longshore/models/families/fields.h"

namespace longshore::models {

const Family kSmolLm3{.name = "smollm3",
                      .hf_class = "SmolLM3ForCausalLM",
                      .layer = {},
                      .hf = {.activations = {"silu", "swish"},
                             .required = {"num_key_value_heads"},
                             .fields = {{&kAttentionBias}, {&kMlpBias}},
                             .tied_embeddings = true,
                             .pad_token = 128004,
                             .rope_base = 2e6,
                             .window = 0,
                             .windows = Windows::refused,
                             .nope_layer_interval = 4}};

}  // namespace longshore::models
