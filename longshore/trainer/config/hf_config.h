// The config.json of a folder that holds a model as Hugging Face publishes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "longshore/models/families/decoder.h"
#include "longshore/models/hf/config.h"
#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

inline constexpr const char* kHfConfigFile = "config.json";

struct HfConfig {
  std::string text;  // of a model that also reads images, but is not to, its text model's
  models::DecoderConfig decoder;
  std::vector<std::string> unknown_keys;  // that were ignored
};

// Throws a DataError that names the file.
HfConfig read_hf_config(const std::filesystem::path& folder,
                        models::UnknownKeys unknown = models::UnknownKeys::refuse,
                        models::Images images = models::Images::ignore);

// What allow_unknown_config_keys says.
models::UnknownKeys unknown_keys(const Config& config);

// What use_multimodal says.
models::Images images(const Config& config);

// What is to be said of ignored keys, for messages; "" where there are none.
std::string unknown_keys_text(const HfConfig& config);

}  // namespace longshore::trainer
