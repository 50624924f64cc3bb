#include <cstdio>

#include "longshore/base/program.h"
#include "longshore/base/report_signal.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/config/help.h"
#include "longshore/trainer/config/load_config.h"
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
  const ReportSignal reports;  // which ends nothing from now on
  CLI::App app(kDescription, "train");
  std::string config_name;
  std::vector<std::string> overrides;
  app.add_option("--config", config_name, "a path, or the name of a file in configs/")->required();
  bool is_quiet = false;
  app.add_flag(
      "--quiet", is_quiet,
      "prints warnings, errors, what its data is and the summary: no line for each step, and "
      "no bar");
  trainer::add_config_keys(app, overrides);
  auto train = [&] {
    trainer::train(
        trainer::load_config(config_name, overrides, trainer::default_configs_directory()),
        is_quiet ? trainer::Verbosity::quiet : trainer::Verbosity::usual);
  };
  return run_program(app, argc, argv, train, trainer::meant_key);
}
