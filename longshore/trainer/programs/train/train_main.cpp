#include <cstdio>

#include "longshore/base/program.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/config/help.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/run/train.h"

int main(int argc, char** argv) {
  using namespace longshore;
  CLI::App app("Trains a model as a config says; prints one line a step.", "train");
  std::string config_name;
  std::vector<std::string> overrides;
  app.add_option("--config", config_name, "a path, or the name of a file in configs/")->required();
  trainer::add_config_keys(app, overrides);
  auto train = [&] {
    trainer::train(
        trainer::load_config(config_name, overrides, trainer::default_configs_directory()));
  };
  return run_program(app, argc, argv, train, trainer::meant_key);
}
