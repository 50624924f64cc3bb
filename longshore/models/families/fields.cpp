#include "longshore/models/families/fields.h"

#include "longshore/models/families/limits.h"

namespace longshore::models {
namespace {

constexpr double kAnything = std::numeric_limits<double>::infinity();
using enum FieldKind;

}  // namespace

const Field kWidth{"base_emb_dim",
                   "hidden_size",
                   size,
                   &DecoderConfig::width,
                   1,
                   kMaxWidth,
                   "width of the residual stream"};
const Field kLayers{
    "base_num_decoder_layers", "num_hidden_layers", size, &DecoderConfig::layers, 1, kMaxLayers,
    "decoder layers"};
const Field kQueryHeads{
    "base_num_query_heads", "num_attention_heads", size, &DecoderConfig::query_heads, 1, kMaxHeads,
    "attention heads"};
const Field kKvHeads{"base_num_kv_heads",
                     "num_key_value_heads",
                     size,
                     &DecoderConfig::kv_heads,
                     1,
                     kMaxHeads,
                     "key and value heads; divides base_num_query_heads"};
const Field kHeadDim{"head_dim",
                     "head_dim",
                     size,
                     &DecoderConfig::head_dim,
                     2,
                     kMaxHeadDim,
                     "width of a head; even, as RoPE turns pairs"};
const Field kGlobalHeadDim{"global_head_dim",
                           "global_head_dim",
                           other,
                           &DecoderConfig::global_head_dim,
                           0,
                           kMaxHeadDim,
                           "gemma4_text: head_dim of layers without a window; 0: as the others'"};
const Field kGlobalKvHeads{"global_num_kv_heads",
                           "num_global_key_value_heads",
                           other,
                           &DecoderConfig::global_kv_heads,
                           0,
                           kMaxHeads,
                           "gemma4_text: key and value heads of layers without a window; 0: as the "
                           "others'"};
const Field kKeysAsValues{"share_kv_projections",
                          "attention_k_eq_v",
                          flag,
                          &DecoderConfig::keys_as_values,
                          0,
                          1,
                          "gemma4_text: layers without a window have no value projection, but take "
                          "what that of keys gives"};
const Field kMlpWidth{"base_mlp_dim",
                      "intermediate_size",
                      size,
                      &DecoderConfig::mlp_width,
                      1,
                      kMaxMlpWidth,
                      "width between the MLP's projections"};
const Field kDoubleWideMlp{"use_double_wide_mlp",
                           "use_double_wide_mlp",
                           flag,
                           &DecoderConfig::double_wide_mlp,
                           0,
                           1,
                           "gemma4_text: layers of num_kv_shared_layers have MLPs twice as wide"};
const Field kKvSharedLayers{"num_kv_shared_layers",
                            "num_kv_shared_layers",
                            count,
                            &DecoderConfig::kv_shared_layers,
                            0,
                            kMaxLayers,
                            "gemma4_text: the last so many layers read the keys and values of the "
                            "last earlier layer that has a window as they have, or none"};
const Field kExperts{"num_experts",
                     "num_experts",
                     other,
                     &DecoderConfig::experts,
                     0,
                     kMaxExperts,
                     "mixtral, qwen3_moe, gpt_oss, gemma4_text, llama4_text: experts of a "
                     "layer; 0: a dense MLP"};
const Field kExpertsPerToken{"num_experts_per_tok",
                             "num_experts_per_tok",
                             other,
                             &DecoderConfig::experts_per_token,
                             0,
                             kMaxExperts,
                             "experts that each token goes to"};
const Field kExpertWidth{"base_moe_mlp_dim",
                         "moe_intermediate_size",
                         other,
                         &DecoderConfig::expert_width,
                         0,
                         kMaxMlpWidth,
                         "qwen3_moe, gemma4_text, llama4_text: width between an expert's "
                         "projections; 0: base_mlp_dim"};
const Field kNormalizesExperts{
    "norm_topk_prob",
    "norm_topk_prob",
    flag,
    &DecoderConfig::normalizes_experts,
    0,
    1,
    "qwen3_moe: the weights of a token's experts are divided by their sum"};
const Field kMoeLayerStep{"interleave_moe_layer_step",
                          "interleave_moe_layer_step",
                          other,
                          &DecoderConfig::moe_layer_step,
                          1,
                          kMaxLayers,
                          "qwen3_moe, llama4_text: each so many'th layer has experts, the others a "
                          "dense MLP"};
const Field kUsesQkNorm{"use_qk_norm",
                        "use_qk_norm",
                        flag,
                        &DecoderConfig::has_qk_norm,
                        0,
                        1,
                        "llama4_text: RMSNorm on query and key of layers with RoPE"};
const Field kActivationAlpha{"mlp_activations_alpha",
                             "swiglu_alpha",
                             number,
                             &DecoderConfig::activation_alpha,
                             0,
                             kAnything,
                             "gpt_oss: of the gate within the sigmoid",
                             true};
const Field kActivationLimit{"mlp_activations_limit",
                             "swiglu_limit",
                             number,
                             &DecoderConfig::activation_limit,
                             0,
                             kAnything,
                             "gpt_oss: the most that a gate is, and up on both sides of 0"};
const Field kUnrotatedTemperature{"temperature_tuning",
                                  "attn_temperature_tuning",
                                  flag,
                                  &DecoderConfig::has_unrotated_temperature,
                                  0,
                                  1,
                                  "llama4_text: in layers without RoPE queries at position p are "
                                  "multiplied by 1 + temperature_tuning_scale ln(1 + floor((p + 1) "
                                  "/ temperature_tuning_floor_scale))"};
const Field kUnrotatedTemperatureBeta{"temperature_tuning_scale",
                                      "attn_scale",
                                      number,
                                      &DecoderConfig::unrotated_temperature_beta,
                                      0,
                                      kAnything,
                                      "llama4_text: see temperature_tuning"};
const Field kUnrotatedTemperatureLength{"temperature_tuning_floor_scale",
                                        "floor_scale",
                                        count,
                                        &DecoderConfig::unrotated_temperature_length,
                                        1,
                                        kMaxLength,
                                        "llama4_text: see temperature_tuning"};
const Field kPerLayerWidth{"hidden_size_per_layer_input",
                           "hidden_size_per_layer_input",
                           count,
                           &DecoderConfig::per_layer_width,
                           0,
                           kMaxWidth,
                           "gemma4_text: width of what each layer is told of the tokens besides; "
                           "0: nothing"};
const Field kVocabulary{
    "vocab_size",   "vocab_size",         size, &DecoderConfig::vocabulary, kMinVocabulary,
    kMaxVocabulary, "number of token ids"};
const Field kNormEpsilon{"normalization_layer_epsilon",
                         "rms_norm_eps",
                         number,
                         &DecoderConfig::norm_epsilon,
                         0,
                         kAnything,
                         "added to the mean square in RMSNorm",
                         true};
const Field kRopeBase{"rope_max_timescale",
                      "rope_theta",
                      other,
                      &DecoderConfig::rope_base,
                      1,
                      kAnything,
                      "RoPE's base, often called theta"};
const Field kPartialRotaryFactor{"partial_rotary_factor",
                                 "partial_rotary_factor",
                                 other,
                                 &DecoderConfig::partial_rotary_factor,
                                 0,
                                 1,
                                 "glm4: the share of a head that RoPE turns, its first numbers",
                                 true};
const Field kTemperatureBeta{"llama_4_scaling_beta",
                             "llama_4_scaling_beta",
                             other,
                             &DecoderConfig::temperature_beta,
                             0,
                             kAnything,
                             "ministral3: queries at position p are multiplied by 1 + beta ln(1 + "
                             "floor(p / rope_original_max_position_embeddings)); 0: they are not"};
const Field kTiedEmbeddings{"logits_via_embedding",
                            "tie_word_embeddings",
                            flag,
                            &DecoderConfig::tied_embeddings,
                            0,
                            1,
                            "the output projection is the embedding table"};
const Field kAttentionBias{
    "attention_bias",
    "attention_bias",
    flag,
    &DecoderConfig::attention_bias,
    0,
    1,
    "llama: biases on attention's projections; qwen2 has them on query, key and value"};
const Field kMlpBias{"mlp_bias",
                     "mlp_bias",
                     flag,
                     &DecoderConfig::mlp_bias,
                     0,
                     1,
                     "llama: biases on the MLP's projections"};
const Field kWindow{"sliding_window_size",
                    "sliding_window",
                    other,
                    &DecoderConfig::window,
                    0,
                    kMaxLength,
                    "keys that a query of a layer with a window sees, itself included; "
                    "llama4_text: tokens of a chunk, of which it sees its own; 0: no window"};
const Field kFullAttentionPeriod{"full_attention_period",
                                 "layer_types",
                                 other,
                                 &DecoderConfig::full_attention_period,
                                 0,
                                 kMaxLayers,
                                 "with a window: each so many'th layer has none; 0: all have it"};
const Field kNopeLayerInterval{"nope_layer_interval",
                               "no_rope_layer_interval",
                               other,
                               &DecoderConfig::nope_layer_interval,
                               0,
                               kMaxLayers,
                               "smollm3: each so many'th layer has no RoPE; 0: all have it"};
const Field kQueryPreAttnScalar{"query_pre_attn_scalar",
                                "query_pre_attn_scalar",
                                number,
                                &DecoderConfig::query_pre_attn_scalar,
                                0,
                                kAnything,
                                "scores are divided by its root; 0: head_dim"};
const Field kEmbeddingMultiplier{"embedding_multiplier",
                                 "embedding_multiplier",
                                 number,
                                 &DecoderConfig::embedding_multiplier,
                                 0,
                                 kAnything,
                                 "granite: of what the embedding gives",
                                 true};
const Field kAttentionMultiplier{"attention_multiplier",
                                 "attention_multiplier",
                                 number,
                                 &DecoderConfig::attention_multiplier,
                                 0,
                                 kAnything,
                                 "granite: of scores; 0: as query_pre_attn_scalar says"};
const Field kResidualMultiplier{"residual_multiplier",
                                "residual_multiplier",
                                number,
                                &DecoderConfig::residual_multiplier,
                                0,
                                kAnything,
                                "granite: of what attention and MLP give",
                                true};
const Field kLogitsScaling{"logits_scaling",
                           "logits_scaling",
                           number,
                           &DecoderConfig::logits_scaling,
                           0,
                           kAnything,
                           "granite: logits are divided by it",
                           true};
const Field kAttentionCap{"attn_logits_soft_cap",
                          "attn_logit_softcapping",
                          cap,
                          &DecoderConfig::attention_cap,
                          0,
                          kAnything,
                          "soft-cap of attention's scores; 0: none"};
const Field kLogitsCap{"final_logits_soft_cap",
                       "final_logit_softcapping",
                       cap,
                       &DecoderConfig::logits_cap,
                       0,
                       kAnything,
                       "soft-cap of the logits; 0: none"};
const Field kWindowRopeBase{"local_rope_max_timescale",
                            "rope_local_base_freq",
                            other,
                            &DecoderConfig::window_rope_base,
                            0,
                            kAnything,
                            "RoPE's base in layers with a window; 0: as in the others"};
const Field kPadToken{
    "pad_token_id",
    "pad_token_id",
    other,
    &DecoderConfig::pad_token,
    0,
    kMaxVocabulary - 1,
    "token whose embedding gets no gradient where it is an input, as in "
    "transformers; by default as config.json in load_parameters_path has it; -1: none",
    false,
    -1};

const Field kMaxPositionEmbeddings{
    "max_position_embeddings",
    "max_position_embeddings",
    other,
    &DecoderConfig::max_position_embeddings,
    0,
    kMaxLength,
    "tokens that config.json says the model is for; by default as in load_parameters_path; 0: "
    "max_target_length"};

const std::vector<const Field*>& decoder_fields() {
  static const std::vector<const Field*> all{&kWidth,
                                             &kLayers,
                                             &kQueryHeads,
                                             &kKvHeads,
                                             &kHeadDim,
                                             &kGlobalHeadDim,
                                             &kGlobalKvHeads,
                                             &kKeysAsValues,
                                             &kKvSharedLayers,
                                             &kMlpWidth,
                                             &kDoubleWideMlp,
                                             &kPerLayerWidth,
                                             &kActivationAlpha,
                                             &kActivationLimit,
                                             &kExperts,
                                             &kExpertsPerToken,
                                             &kExpertWidth,
                                             &kNormalizesExperts,
                                             &kMoeLayerStep,
                                             &kVocabulary,
                                             &kNormEpsilon,
                                             &kRopeBase,
                                             &kPartialRotaryFactor,
                                             &kTemperatureBeta,
                                             &kUnrotatedTemperature,
                                             &kUnrotatedTemperatureBeta,
                                             &kUnrotatedTemperatureLength,
                                             &kUsesQkNorm,
                                             &kTiedEmbeddings,
                                             &kAttentionBias,
                                             &kMlpBias,
                                             &kWindow,
                                             &kFullAttentionPeriod,
                                             &kNopeLayerInterval,
                                             &kQueryPreAttnScalar,
                                             &kEmbeddingMultiplier,
                                             &kAttentionMultiplier,
                                             &kResidualMultiplier,
                                             &kLogitsScaling,
                                             &kAttentionCap,
                                             &kLogitsCap,
                                             &kWindowRopeBase,
                                             &kPadToken,
                                             &kMaxPositionEmbeddings};
  return all;
}

const char* hf_key(const Family& family, const Field& field) {
  const FamilyField* of_family = find_field(family, field);
  return of_family && of_family->hf_key ? of_family->hf_key : field.hf_key;
}

namespace {

template <class T>
double said(const Field& field, const std::optional<T>& value) {
  return value ? static_cast<double>(*value) : field.unset;
}
template <class T>
double said(const Field&, T value) {
  return static_cast<double>(value);
}

template <class T>
void set(const Field& field, double value, std::optional<T>& to) {
  to = value == field.unset ? std::optional<T>() : static_cast<T>(value);
}
template <class T>
void set(const Field&, double value, T& to) {
  to = static_cast<T>(value);
}

}  // namespace

double value(const Field& field, const DecoderConfig& config) {
  return std::visit([&](auto member) { return said(field, config.*member); }, field.member);
}

void set_value(const Field& field, double value, DecoderConfig& config) {
  std::visit([&](auto member) { set(field, value, config.*member); }, field.member);
}

}  // namespace longshore::models
