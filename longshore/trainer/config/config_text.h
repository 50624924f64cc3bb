// Config keys as text: a config with all its values, and help.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

// The text of a config file with every key, its value and its origin. Loading it gives an equal
// config.
std::string resolved_text(const Config& config);
// Writes that text. The file appears whole or not at all; throws Error when it cannot be written.
void write_resolved(const Config& config, const std::filesystem::path& file);

// All keys by section, with default, meaning and range.
std::string config_help();

// A line for each of these keys, with the value that it has in `config` in place of the default.
std::string config_help(const Config& config, std::span<const std::string> keys);

}  // namespace longshore::trainer
