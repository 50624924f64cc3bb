// Gemma 2: Gemma with norms after attention and MLP too, soft-caps, and a window in every other
// layer (Gemma Team 2024, arXiv 2408.00118).
#include "longshore/models/families/family.h"
#include "longshore/models/families/fields.h"

namespace longshore::models {

const Family kGemma2{
    .name = "gemma2",
    .hf_class = "Gemma2ForCausalLM",
    .layer = {.activation = Activation::gelu_tanh,
              .norms = {.after_attention = "post_attention_layernorm",
                        .before_mlp = "pre_feedforward_layernorm",
                        .after_mlp = "post_feedforward_layernorm"},
              .norm_offset = 1,
              .scales_embeddings = true},
    .hf = {.activation = "hidden_activation",
           .activations = {"gelu_pytorch_tanh"},
           .required = {"num_key_value_heads", "head_dim"},
           .fields = {{&kQueryPreAttnScalar, 256}, {&kAttentionCap, 50}, {&kLogitsCap, 30}},
           .off = {"attention_bias", "use_bidirectional_attention"},
           .tied_embeddings = true,
           .pad_token = 0,
           .windows = Windows::by_layer,
           .full_attention_period = 2}};

}  // namespace longshore::models
