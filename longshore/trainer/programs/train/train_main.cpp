#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "longshore/base/program.h"
#include "longshore/base/report_signal.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/config/help.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/distributed/launch.h"
#include "longshore/trainer/programs/train/run_server.h"
#include "longshore/trainer/run/train.h"

namespace {

constexpr const char* kDescription =
    R"(Trains a model as a config says; prints one line a step, or every log_period steps.

On a terminal a bar shows how far it has come, in colours unless NO_COLOR is set to anything, and
lines are as long as the terminal is wide; metrics.jsonl has all figures of all steps.

SIGUSR2 makes it print what takes memory, after the step at hand. SIGTERM, SIGINT, SIGHUP and
SIGUSR1 make it save and end.)";

}  // namespace

int main(int argc, char** argv) {
  using namespace longshore;
  // Which ends nothing from now on, nor while the process ends.
  [[maybe_unused]] static const ReportSignal& reports = *new ReportSignal;
  CLI::App app(kDescription, "train");
  std::string config_name;
  std::vector<std::string> overrides;
  app.add_option("--config", config_name, "a path, or the name of a file in configs/")->required();
  std::string serve;
  app.add_option("--serve", serve,
                 "[ADDRESS:]PORT: a page of the run and numbers for Prometheus over HTTP, while it "
                 "trains; of this machine alone without an address");
  bool is_quiet = false;
  app.add_flag(
      "--quiet", is_quiet,
      "prints warnings, errors, what its data is and the summary: no line for each step, and "
      "no bar");
  trainer::add_config_keys(app, overrides);
  auto train = [&] {
    const trainer::Config config =
        trainer::load_config(config_name, overrides, trainer::default_configs_directory());
    const trainer::Verbosity verbosity =
        is_quiet ? trainer::Verbosity::quiet : trainer::Verbosity::usual;
    if (serve.empty()) return trainer::train(config, verbosity);
    const bool is_first = trainer::find_launch().rank == 0;
    std::optional<trainer::RunServer> server;
    if (is_first) server.emplace(trainer::parse_serve_address(serve));
    trainer::train(config, verbosity, {.begin = [&](const std::filesystem::path& folder) {
                     server->show(folder);
                     return "the run shows itself at " + server->url();
                   }});
  };
  return run_program(app, argc, argv, train, trainer::meant_key);
}
