// Ministral 3: Mistral with YaRN, and with queries that grow by their positions (Mistral AI 2026,
// arXiv 2601.08584).
#include "longshore/models/families/family.h"
#include "longshore/models/families/fields.h"

namespace longshore::models {

const Family kMinistral3{.name = "ministral3",
                         .hf_class = "Ministral3ForCausalLM",
                         .layer = {},
                         .hf = {.activations = {"silu", "swish"},
                                .required = {"num_key_value_heads", "head_dim", "rope_parameters"},
                                .fields = {{&kTemperatureBeta}},
                                .pad_token = 11,
                                .rope_base = 1e6,
                                .norm_epsilon = 1e-5,
                                .window = 0,
                                .windows = Windows::all}};

}  // namespace longshore::models
