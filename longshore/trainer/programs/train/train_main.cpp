#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "longshore/base/program.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/config/help.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/distributed/launch.h"
#include "longshore/trainer/programs/train/run_server.h"
#include "longshore/trainer/run/train.h"

int main(int argc, char** argv) {
  using namespace longshore;
  CLI::App app("Trains a model as a config says; prints one line a step.", "train");
  std::string config_name;
  std::vector<std::string> overrides;
  app.add_option("--config", config_name, "a path, or the name of a file in configs/")->required();
  std::string serve;
  app.add_option("--serve", serve,
                 "[ADDRESS:]PORT: a page of the run and numbers for Prometheus over HTTP, while it "
                 "trains; of this machine alone without an address");
  trainer::add_config_keys(app, overrides);
  auto train = [&] {
    const trainer::Config config =
        trainer::load_config(config_name, overrides, trainer::default_configs_directory());
    if (serve.empty()) return trainer::train(config);
    const bool is_first = trainer::find_launch().rank == 0;
    std::optional<trainer::RunServer> server;
    if (is_first) server.emplace(trainer::parse_serve_address(serve));
    trainer::train(config, {.begin = [&](const std::filesystem::path& folder) {
                     server->show(folder);
                     return "the run shows itself at " + server->url();
                   }});
  };
  return run_program(app, argc, argv, train, trainer::meant_key);
}
