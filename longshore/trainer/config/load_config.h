// load_config() reads a config from a file, what it is based on, its model, and overrides.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

// configs/ as installed with the running program (PREFIX/bin/program,
// PREFIX/share/longshore/configs), else that of the source tree that it was built in
// (build*/bin/program). With the former, relative paths in configs begin at the current folder,
// with others at the folder that holds configs/.
std::filesystem::path default_configs_directory();

// Reads `file_or_name` (a path, else a file of `configs_directory`) and applies `overrides`, each
// "key=value". A value is taken literally, except that one in quotes is a quoted YAML scalar. The
// result has passed validate().
Config load_config(const std::filesystem::path& file_or_name,
                   std::span<const std::string> overrides,
                   const std::filesystem::path& configs_directory);

// The same for programs that are given remat policies in addition to the config: does not check
// whether the keys go together with the policy. with_policy() in
// longshore/trainer/planner/policy_plan.h does that for each policy.
Config load_config_for_policies(const std::filesystem::path& file_or_name,
                                std::span<const std::string> overrides,
                                const std::filesystem::path& configs_directory);

// The same for a text that need not be in a file. Messages name it `file`, and base_config is
// searched in the folder of `file`.
Config load_config_text(std::string_view text, const std::filesystem::path& file,
                        std::span<const std::string> overrides,
                        const std::filesystem::path& configs_directory);

// Returns `config` with `overrides`, for programs that read only a few keys. Throws ConfigError for
// keys other than `keys`, which it lists. Checks each value, but not whether values contradict each
// other.
Config override_config(Config config, std::span<const std::string> overrides,
                       std::span<const std::string> keys);

}  // namespace longshore::trainer
