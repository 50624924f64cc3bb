// From the config's keys to a model of models/.
#pragma once

#include "models/llama.h"
#include "trainer/config.h"

namespace longshore::trainer {

// `dtype: auto` takes bfloat16 where the backend multiplies matrices in it natively.
models::Dtype compute_dtype(const Config& config, models::Target target);

models::LlamaConfig llama_config(const Config& config, models::Dtype dtype);

}  // namespace longshore::trainer
