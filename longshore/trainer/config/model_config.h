// The model of longshore/models/ that a config describes.
#pragma once

#include <optional>

#include "longshore/models/families/decoder.h"
#include "longshore/models/families/quantize_weights.h"
#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

// Whether programs for the target can compute in bfloat16 at all: of processors, those can for
// which oneDNN multiplies it.
bool has_bfloat16(models::Target target);

// The dtype of activations. `dtype: auto` means bfloat16 if the target multiplies bfloat16 matrices
// natively or the weights are bfloat16, else float32.
models::Dtype compute_dtype(const Config& config, models::Target target);

// Throws ConfigError where that is a bfloat16 which the target does not have. It can be planned.
void require_dtype(const Config& config, models::Target target);

models::DecoderConfig decoder_config(const Config& config, models::Target target);

// The model of any model_type. trainable_parameters_mask and frozen_weight_dtype have been applied
// to it. The second has another head than the objective's, unless it is a toy.
models::Model make_model(const Config& config, models::Target target);
models::Model make_model(const Config& config, models::Target target,
                         const models::HeadOptions& head);

// How frozen_weight_dtype has matrices stored that compute in `dtype`, all of them; nothing where
// they are as they are, or as load_parameters_path has them.
std::optional<models::Quantization> frozen_quantization(const Config& config, models::Dtype dtype);
// Stores the frozen matrices of the model so, or as load_parameters_path has them. Throws
// ConfigError where it has none and the key is set.
void quantize_frozen(const Config& config, models::Dtype dtype, models::Model& model);

}  // namespace longshore::trainer
