// The config.json of a folder that holds a model as Hugging Face publishes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "models/decoder.h"

namespace longshore::trainer {

inline constexpr const char* kHfConfigFile = "config.json";

struct HfConfig {
  std::string text;  // of a model that also reads images, its text model's
  models::DecoderConfig decoder;
  std::optional<int64_t> max_position_embeddings;
};

// Throws a DataError that names the file.
HfConfig read_hf_config(const std::filesystem::path& folder);

}  // namespace longshore::trainer
