// What the programs that read a config say of its keys.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace longshore::trainer {

// The arguments key=value, keys and remat policies below the options of --help, and the nearest key
// or option where one is refused.
void add_config_keys(CLI::App& app, std::vector<std::string>& overrides);

std::string policies_help();

}  // namespace longshore::trainer
