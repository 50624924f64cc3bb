// Granite 3: Llama with factors on embeddings, on scores, on what attention and MLP add to the
// residual stream, and on logits (IBM 2024, Granite 3.0 Language Models).
#include "longshore/models/families/family.h"
#include "longshore/models/families/fields.h"

namespace longshore::models {

const Family kGranite{.name = "granite",
                      .hf_class = "GraniteForCausalLM",
                      .layer = {},
                      .hf = {.activations = {"silu", "swish"},
                             .fields = {{&kAttentionBias},
                                        {&kMlpBias},
                                        {&kEmbeddingMultiplier, 1},
                                        {&kAttentionMultiplier, 1},
                                        {&kResidualMultiplier, 1},
                                        {&kLogitsScaling, 1}}}};

}  // namespace longshore::models
