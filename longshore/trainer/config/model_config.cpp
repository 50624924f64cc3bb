#include "longshore/trainer/config/model_config.h"

#include <algorithm>

#include "longshore/base/error.h"
#include "longshore/models/families/toys.h"
#include "longshore/models/ops/kernels/onednn_matmul.h"
#include "longshore/trainer/config/key_values.h"
#include "longshore/trainer/config/keys.h"
#include "longshore/trainer/config/model_keys.h"
#include "longshore/trainer/config/objective.h"
#include "longshore/trainer/config/trainable_mask.h"

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

models::VisionConfig vision_config(const Config& config) {
  models::VisionConfig vision = config.vision;
  vision.family = models::vision_family_of(*config.model.family);
  vision.images = config.per_device_batch_size * config.max_num_images_per_example;
  vision.image_tokens = rows_of_image(*vision.family, vision);
  return vision;
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
  models::DecoderConfig decoder = config.model;
  decoder.batch = config.per_device_batch_size;
  decoder.length = config.max_target_length;
  decoder.dtype = compute_dtype(config, target);
  decoder.deterministic = config.deterministic || !models::is_cuda(target);
  decoder.rope_scaling = rope_scaling(config);
  if (config.rope_type == RopeType::proportional) decoder.partial_rotary_factor = 1;
  decoder.windowed = windowed(config);
  for (const std::string& rotated : config.no_rope_layers)
    decoder.rotated.push_back(rotated == "1");
  for (int64_t layer = 0; !config.mlp_only_layers.empty() && layer < decoder.layers; ++layer)
    decoder.sparse.push_back(std::ranges::find(config.mlp_only_layers, std::to_string(layer)) ==
                             config.mlp_only_layers.end());
  decoder.balance_loss_weight = config.load_balance_loss_weight;
  decoder.balance_loss = config.load_balance_loss_type;
  decoder.router_z_loss_weight = config.router_z_loss_weight;
  decoder.lora = lora_config(config);
  if (config.use_multimodal) decoder.vision = vision_config(config);
  decoder.segments = has_segments(config);
  return decoder;
}

namespace {

models::Model unmasked_model(const Config& config, models::Target target,
                             const models::HeadOptions& head) {
  const auto layers = static_cast<int>(config.model.layers);
  switch (config.toy) {
    case Toy::a:
      return models::toy_a({.rows = config.per_device_batch_size,
                            .width = config.model.width,
                            .inner = config.model.mlp_width,
                            .layers = layers,
                            .dtype = compute_dtype(config, target)});
    case Toy::b:
      return models::toy_b({.rows = config.per_device_batch_size,
                            .width = config.model.width,
                            .layers = layers,
                            .dtype = compute_dtype(config, target)});
    case Toy::none:
      break;
  }
  return models::decoder(decoder_config(config, target), head);
}

std::optional<QuantizedFormat> frozen_format(FrozenWeightDtype dtype) {
  switch (dtype) {
    case FrozenWeightDtype::automatic:
      return std::nullopt;
    case FrozenWeightDtype::float32:
      return QuantizedFormat::float32;
    case FrozenWeightDtype::bfloat16:
      return QuantizedFormat::bfloat16;
    case FrozenWeightDtype::fp8:
      return QuantizedFormat::fp8;
    case FrozenWeightDtype::int8:
      return QuantizedFormat::int8;
    case FrozenWeightDtype::nf4:
      return QuantizedFormat::nf4;
    case FrozenWeightDtype::mxfp4:
      return QuantizedFormat::mxfp4;
  }
  throw InternalError("a frozen_weight_dtype that is none");
}

}  // namespace

models::Model make_model(const Config& config, models::Target target) {
  return make_model(config, target,
                    {.preference = preference_objective(config),
                     .policy_gradient = policy_gradient_options(config),
                     .distillation = distillation_objective(config)});
}

models::Model make_model(const Config& config, models::Target target,
                         const models::HeadOptions& head) {
  models::Model model = unmasked_model(config, target, head);
  apply_mask(config, model);
  quantize_frozen(config, compute_dtype(config, target), model);
  return model;
}

std::optional<models::Quantization> frozen_quantization(const Config& config, models::Dtype dtype) {
  const std::optional<QuantizedFormat> format = frozen_format(config.frozen_weight_dtype);
  const bool is_narrow = dtype == models::Dtype::bfloat16;
  // What is computed in is stored as it is.
  if (!format || *format == (is_narrow ? QuantizedFormat::bfloat16 : QuantizedFormat::float32))
    return std::nullopt;
  return models::Quantization{.format = *format,
                              .rounded_to = is_narrow ? RoundedTo::bfloat16 : RoundedTo::float32,
                              .has_nested_scales = config.frozen_weight_double_quantization &&
                                                   *format == QuantizedFormat::nf4};
}

void quantize_frozen(const Config& config, models::Dtype dtype, models::Model& model) {
  if (config.frozen_weight_dtype == FrozenWeightDtype::automatic) {
    if (config.stored_formats) quantize_weights(model, as_stored(*config.stored_formats));
    return;
  }
  const std::optional<models::Quantization> how = frozen_quantization(config, dtype);
  if (!how) return;
  bool is_any = false;
  quantize_weights(model, [&](const std::string&) {
    is_any = true;
    return how;
  });
  if (!is_any)
    throw ConfigError(location(config, "frozen_weight_dtype") + ": found " +
                      value_text(*find_key("frozen_weight_dtype"), config) +
                      ", expected auto: no matrix of a linear layer is frozen");
}

}  // namespace longshore::trainer
