// train --config F [key=value ...]
#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/exit_code.h"
#include "trainer/config/config.h"
#include "trainer/config/help.h"
#include "trainer/loop.h"

int main(int argc, char** argv) {
  using namespace longshore;
  CLI::App app("Trains a model as a config says; prints one line a step.", "train");
  std::string config_name;
  std::vector<std::string> overrides;
  app.add_option("--config", config_name, "a path, or the name of a file in configs/")->required();
  app.add_option("key=value", overrides, "config keys, above what the file says");
  app.footer(trainer::config_footer());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return exit_code_of("train", [&] {
    trainer::train(
        trainer::load_config(config_name, overrides, trainer::default_configs_directory()));
  });
}
