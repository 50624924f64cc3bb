// A config whose plans for a GPU of configs/hardware take no time to speak of.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "longshore/trainer/config/load_config.h"

namespace longshore::trainer {

// Llama 3.2 1B in bfloat16 on that profile.
inline Config small_model_on(const std::string& hardware, std::vector<std::string> more = {}) {
  const std::filesystem::path configs = default_configs_directory();
  more.push_back("hardware=" + (configs / "hardware" / (hardware + ".yml")).string());
  return load_config_text("model_name: llama3.2_1b\ndtype: bfloat16\n", configs / "test.yml", more,
                          configs);
}

}  // namespace longshore::trainer
