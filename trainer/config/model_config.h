// The model of models/ that a config describes.
#pragma once

#include "models/decoder.h"
#include "trainer/config/config.h"

namespace longshore::trainer {

// The dtype of activations. `dtype: auto` means bfloat16 if the target multiplies bfloat16 matrices
// natively or the weights are bfloat16, else float32.
models::Dtype compute_dtype(const Config& config, models::Target target);

models::DecoderConfig decoder_config(const Config& config, models::Target target);

// The model of any model_type. trainable_parameters_mask has been applied to it.
models::Model make_model(const Config& config, models::Target target);

}  // namespace longshore::trainer
