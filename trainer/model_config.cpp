#include "trainer/model_config.h"

#include "base/error.h"
#include "models/toys.h"

namespace longshore::trainer {
namespace {

bool cpu_multiplies_bfloat16() {
#ifdef __x86_64__
  // The names that GCC 12 knows end before AMX; every processor with AMX has AVX512-BF16 too.
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

}  // namespace

models::Dtype compute_dtype(const Config& config, models::Target target) {
  switch (config.dtype) {
    case ComputeDtype::float32:
      return models::Dtype::float32;
    case ComputeDtype::bfloat16:
      return models::Dtype::bfloat16;
    case ComputeDtype::automatic:
      break;
  }
  bool is_native = target == models::Target::cuda || cpu_multiplies_bfloat16();
  return is_native || config.weight_dtype == WeightDtype::bfloat16 ? models::Dtype::bfloat16
                                                                   : models::Dtype::float32;
}

models::DecoderConfig llama_config(const Config& config, models::Target target) {
  return {.batch = config.per_device_batch_size,
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
          .dtype = compute_dtype(config, target)};
}

models::Model make_model(const Config& config, models::Target target) {
  int layers = static_cast<int>(config.base_num_decoder_layers);
  switch (config.model_type) {
    case ModelType::llama:
      return models::decoder(llama_config(config, target));
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
  }
  throw InternalError("a model_type without a model");
}

}  // namespace longshore::trainer
