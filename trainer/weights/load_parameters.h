// Starting from a checkpoint that somebody published.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "models/decoder.h"
#include "offload/executor.h"
#include "offload/parameter_layout.h"
#include "trainer/config/config.h"
#include "trainer/weights/initialize.h"

namespace longshore::trainer {

// The tensors of a Hugging Face folder, mapped and converted piece by piece, straight into these
// copies where they live, as far as this device holds them; moments zero. Says what it read, and
// how many values of this device's are not finite. Throws DataError when tensors are
// missing, not expected or of another shape, all listed at once. With tied embeddings the folder
// may hold lm_head.weight as well. A model with adapters needs `fill_adapter` for their weights,
// which the folder does not have.
std::string load_weights(const std::filesystem::path& folder, const models::DecoderConfig& model,
                         const offload::ParameterLayout& layout, offload::Arguments& arguments,
                         std::span<const offload::Copy> copies = offload::kCopies,
                         const FillParameter& fill_adapter = nullptr);

// The same for the folder `load_parameters_path`, into all copies. Throws also ConfigError when the
// folder's config.json describes another model, listing each key with both values. Adapters come
// from `load_adapter_path`, or start as their Init says where there is none.
std::string load_parameters(const Config& config, const models::DecoderConfig& model,
                            const offload::ParameterLayout& layout, offload::Arguments& arguments);

}  // namespace longshore::trainer
