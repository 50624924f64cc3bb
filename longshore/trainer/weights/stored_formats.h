// with_stored_formats() finds what frozen_weight_dtype: auto leaves as it is.
#pragma once

#include <filesystem>
#include <memory>

#include "longshore/models/families/decoder.h"
#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

// The config with its stored_formats: of a run that trains adapters beside frozen weights, the
// matrices that load_parameters_path has in fewer bits; none where there are no weights yet. Throws
// as StoredWeights does.
Config with_stored_formats(Config config);

// Those of a folder that holds the model's weights.
std::shared_ptr<const models::Quantizations> stored_formats(const std::filesystem::path& folder,
                                                            const models::DecoderConfig& model);

}  // namespace longshore::trainer
