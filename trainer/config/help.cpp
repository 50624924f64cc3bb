#include "trainer/config/help.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/nearest.h"
#include "offload/policy.h"
#include "trainer/config/config.h"
#include "trainer/config/keys.h"

namespace longshore::trainer {
namespace {

// "steps" of "--training.steps=3".
std::string key_name(std::string argument) {
  argument = argument.substr(argument.find_first_not_of('-'));
  argument = argument.substr(0, argument.find('='));
  argument = argument.substr(argument.rfind('.') + 1);
  std::ranges::replace(argument, '-', '_');
  return argument;
}

// "; nearest: ..." for an argument that the program has no option for; "" if nothing is near.
std::string nearest_argument(const CLI::App& app, const std::string& argument) {
  if (argument.find_first_not_of('-') == std::string::npos) return "";
  const std::string name = key_name(argument);
  if (find_key(name)) return "; nearest: " + name + "=VALUE";
  std::vector<std::string> options;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& one : option->get_lnames()) options.push_back("--" + one);
  const std::string near = nearest(argument, options);
  return near.empty() ? "" : "; nearest: " + near;
}

std::string failure(const CLI::App* app, const CLI::Error& error) {
  std::string text = app->get_name() + ": " + error.what();
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError))
    text += nearest_argument(*app, app->remaining().at(0));
  return text + "\nRun with --help for more information.\n";
}

}  // namespace

void add_config_keys(CLI::App& app, std::vector<std::string>& overrides) {
  app.add_option("key=value", overrides, "config keys, above what the file says");
  app.footer(config_help() + "\n" + policies_help());
  app.failure_message(failure);
}

std::string policies_help() {
  std::string text = "remat policies:\n";
  for (const offload::PolicyInfo& policy : offload::policies())
    text += "  " + policy.name + ": " + policy.meaning + "\n";
  text += std::string("  ") + offload::kAuto + ": the fastest that fits, see docs/planning.md\n";
  return text;
}

}  // namespace longshore::trainer
