#include "trainer/config/model_config.h"

#include <cmath>

#include "base/error.h"
#include "models/ops/kernels/onednn_matmul.h"
#include "models/families/toys.h"
#include "trainer/config/trainable_mask.h"

namespace longshore::trainer {
namespace {

bool multiplies_bfloat16_natively() {
#ifdef __x86_64__
  // GCC 12 knows no name for AMX, but every processor with AMX has AVX512-BF16 as well.
  return __builtin_cpu_supports("avx512bf16") && models::multiplies_bfloat16();
#else
  return false;
#endif
}

models::RopeScaling rope_scaling(const Config& config) {
  switch (config.rope_type) {
    case RopeType::unscaled:
      return {};
    case RopeType::linear:
      return models::LinearRopeScaling{config.rope_factor};
    case RopeType::llama3:
      return models::Llama3RopeScaling{
          config.rope_factor, config.rope_low_freq_factor, config.rope_high_freq_factor,
          static_cast<double>(config.rope_original_max_position_embeddings)};
  }
  throw InternalError("a rope_type without a scaling");
}

models::Block block(ModelType type) {
  if (type == ModelType::gemma) return models::Block::gemma;
  bool has_post_norms = type == ModelType::gemma2 || type == ModelType::gemma3_text;
  return has_post_norms ? models::Block::gemma2 : models::Block::llama;
}

models::LoraConfig lora_config(const Config& config) {
  if (config.lora_rank == 0) return {};
  return {.rank = config.lora_rank,
          .alpha = config.lora_alpha,
          .targets = config.lora_targets,
          .rank_stabilized = config.use_rslora,
          .modules = config.lora_modules};
}

}  // namespace

bool has_bfloat16(models::Target target) {
  return target != models::Target::cpu || models::multiplies_bfloat16();
}

models::Dtype compute_dtype(const Config& config, models::Target target) {
  switch (config.dtype) {
    case ComputeDtype::float32:
      return models::Dtype::float32;
    case ComputeDtype::bfloat16:
      return models::Dtype::bfloat16;
    case ComputeDtype::automatic:
      break;
  }
  const bool is_native = models::is_cuda(target) || multiplies_bfloat16_natively();
  return is_native || config.weight_dtype == WeightDtype::bfloat16 ? models::Dtype::bfloat16
                                                                   : models::Dtype::float32;
}

void require_dtype(const Config& config, models::Target target) {
  if (compute_dtype(config, target) != models::Dtype::bfloat16 || has_bfloat16(target)) return;
  const char* key = config.dtype == ComputeDtype::bfloat16 ? "dtype" : "weight_dtype";
  throw ConfigError(location(config, key) +
                    ": found bfloat16, but this processor lacks what oneDNN multiplies it with "
                    "(AVX-512); expected float32");
}

models::DecoderConfig decoder_config(const Config& config, models::Target target) {
  models::DecoderConfig decoder{.batch = config.per_device_batch_size,
                                .length = config.max_target_length,
                                .vocabulary = config.vocab_size,
                                .width = config.base_emb_dim,
                                .layers = static_cast<int>(config.base_num_decoder_layers),
                                .query_heads = config.base_num_query_heads,
                                .kv_heads = config.base_num_kv_heads,
                                .head_dim = config.head_dim,
                                .mlp_width = config.base_mlp_dim,
                                .norm_epsilon = config.normalization_layer_epsilon,
                                .rope_base = config.rope_max_timescale,
                                .tied_embeddings = config.logits_via_embedding,
                                .dtype = compute_dtype(config, target),
                                .deterministic = config.deterministic || !models::is_cuda(target),
                                .block = block(config.model_type),
                                .rope_scaling = rope_scaling(config)};
  ModelType type = config.model_type;
  decoder.is_mistral = type == ModelType::mistral;
  decoder.pad_token = config.pad_token_id;
  decoder.qkv_bias = config.attention_bias || type == ModelType::qwen2;
  decoder.output_bias = config.attention_bias && type != ModelType::qwen2;
  decoder.mlp_bias = config.mlp_bias;
  decoder.qk_norm = type == ModelType::qwen3 || type == ModelType::gemma3_text;
  if (config.query_pre_attn_scalar > 0)
    decoder.query_scale = 1 / std::sqrt(config.query_pre_attn_scalar);
  decoder.attention_cap = config.attn_logits_soft_cap;
  decoder.logits_cap = config.final_logits_soft_cap;
  decoder.window = config.sliding_window_size;
  decoder.window_rope_base = config.local_rope_max_timescale;
  decoder.lora = lora_config(config);
  decoder.segments = config.dataset_type == DatasetType::documents && config.packing;
  // A model that is tried with other numbers of layers than its list has goes on from its start.
  if (const int64_t count = std::ssize(config.layer_types); count > 0)
    for (int64_t layer = 0; layer < config.base_num_decoder_layers; ++layer)
      decoder.windowed.push_back(config.layer_types[layer % count] == models::kSlidingAttention);
  else if (config.full_attention_period > 0)
    for (int64_t layer = 1; layer <= config.base_num_decoder_layers; ++layer)
      decoder.windowed.push_back(layer % config.full_attention_period != 0);
  return decoder;
}

namespace {

models::Model unmasked_model(const Config& config, models::Target target) {
  int layers = static_cast<int>(config.base_num_decoder_layers);
  switch (config.model_type) {
    case ModelType::toy_a:
      return models::toy_a({.rows = config.per_device_batch_size,
                            .width = config.base_emb_dim,
                            .inner = config.base_mlp_dim,
                            .layers = layers,
                            .dtype = compute_dtype(config, target)});
    case ModelType::toy_b:
      return models::toy_b({.rows = config.per_device_batch_size,
                            .width = config.base_emb_dim,
                            .layers = layers,
                            .dtype = compute_dtype(config, target)});
    default:
      return models::decoder(decoder_config(config, target));
  }
}

}  // namespace

models::Model make_model(const Config& config, models::Target target) {
  models::Model model = unmasked_model(config, target);
  apply_mask(config, model);
  return model;
}

}  // namespace longshore::trainer
