// Starting from a checkpoint that somebody published.
#pragma once

#include <string>

#include "models/decoder.h"
#include "offload/executor.h"
#include "offload/parameter_layout.h"
#include "trainer/config.h"

namespace longshore::trainer {

// Weights from the Hugging Face folder `load_parameters_path`, mapped and converted slab by slab,
// straight to where they live; moments zero. Adapters come from `load_adapter_path`, or start as
// their Init says where there is none. Says what it read. Throws ConfigError when the
// folder's config.json describes another model, listing each key with both values, and DataError
// when tensors are missing, not expected or of another shape, all listed at once.
std::string load_parameters(const Config& config, const models::DecoderConfig& model,
                            const offload::ParameterLayout& layout, offload::Arguments& arguments);

}  // namespace longshore::trainer
