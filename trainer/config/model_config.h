// From the config's keys to a model of models/.
#pragma once

#include "models/decoder.h"
#include "trainer/config/config.h"

namespace longshore::trainer {

// `dtype: auto` takes bfloat16 where the backend multiplies matrices in it natively, or the weights
// have it.
models::Dtype compute_dtype(const Config& config, models::Target target);

models::DecoderConfig decoder_config(const Config& config, models::Target target);

// Of any model_type; what trains is marked as the config says.
models::Model make_model(const Config& config, models::Target target);

}  // namespace longshore::trainer
