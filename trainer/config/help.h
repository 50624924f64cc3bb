// The help on config keys of the programs that read a config.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace longshore::trainer {

// Adds the arguments key=value to a program. --help then lists all keys and remat policies below
// the options, and the message on an unknown argument names the nearest key or option.
void add_config_keys(CLI::App& app, std::vector<std::string>& overrides);

// A line for each remat policy.
std::string policies_help();

}  // namespace longshore::trainer
