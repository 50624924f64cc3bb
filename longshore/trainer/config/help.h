// The help on config keys of the programs that read a config.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace longshore::trainer {

// "steps=VALUE" for "--steps", "--steps=3" or "--training.steps"; "" for what is no key. Programs
// that take keys pass it to run_program().
std::string meant_key(const std::string& argument);

// Adds the arguments key=value to a program. --help then lists all keys and remat policies below
// the options.
void add_config_keys(CLI::App& app, std::vector<std::string>& overrides);

// A line for each remat policy.
std::string policies_help();

}  // namespace longshore::trainer
