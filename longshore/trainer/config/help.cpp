#include "longshore/trainer/config/help.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "longshore/offload/policy/policy.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/config/config_text.h"
#include "longshore/trainer/config/keys.h"

namespace longshore::trainer {

std::string meant_key(const std::string& argument) {
  const size_t begin = argument.find_first_not_of('-');
  if (begin == std::string::npos) return "";
  std::string name = argument.substr(begin, argument.find('=', begin) - begin);
  name = name.substr(name.rfind('.') + 1);
  std::ranges::replace(name, '-', '_');
  return name.size() > 1 && find_key(name) ? name + "=VALUE" : "";  // "-x" means no label of a toy
}

void add_config_keys(CLI::App& app, std::vector<std::string>& overrides) {
  app.add_option("key=value", overrides, "config keys, above what the file says");
  app.footer(config_help() + "\n" + policies_help());
}

std::string policies_help() {
  std::string text = "remat policies:\n";
  for (const offload::PolicyInfo& policy : offload::policies())
    text += "  " + policy.name + ": " + policy.meaning + "\n";
  text += std::string("  ") + offload::kAuto + ": the fastest that fits, see docs/planning.md\n";
  return text;
}

}  // namespace longshore::trainer
