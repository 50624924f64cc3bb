// Hugging Face's config.json: which decoder a published checkpoint is.
#pragma once

#include <string_view>

#include "models/decoder.h"

namespace longshore::models {

// The decoder that `text` describes, in the older spelling of keys (rope_scaling, rope_theta,
// torch_dtype) or the newer one (rope_parameters, dtype, layer_types); batch and length stay as
// they are by default, dtype is that of the weights (float16 is read as float32). Throws DataError,
// naming the key, for what is missing, is not of its type, or would change results and is not
// supported; unknown keys are refused too, since nobody knows what they change.
DecoderConfig parse_hf_config(std::string_view text);

}  // namespace longshore::models
