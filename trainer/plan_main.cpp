// plan --config F [--policies a,b|all] [--json F] [--explain] [key=value ...]
#include <CLI/CLI.hpp>
#include <cstdio>
#include <sstream>

#include "base/exit_code.h"
#include "trainer/adapter.h"
#include "trainer/backend_choice.h"
#include "trainer/config.h"
#include "trainer/help.h"
#include "trainer/plan_report.h"

namespace longshore::trainer {
namespace {

// What the plans are for: nothing of it is touched, so a GPU need not be there.
models::Target target_of(const Config& config) {
  if (config.backend == BackendChoice::cuda) return models::Target::cuda;
  if (config.backend == BackendChoice::cpu) return models::Target::cpu;
  return choose_backend(config).target;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> names;
  std::istringstream stream(list);
  for (std::string name; std::getline(stream, name, ',');) names.push_back(name);
  return names;
}

struct Request {
  std::string config;
  std::vector<std::string> overrides;
  std::string policies, json;
  bool explain = false;
};

void plan(const Request& request) {
  Config config =
      with_adapter(load_config(request.config, request.overrides, default_configs_directory()));
  models::Target target = target_of(config);
  std::vector<PolicyPlan> plans = plan_policies(config, split(request.policies), target);
  if (!request.json.empty()) write_json(plans, request.json);
  std::printf("%s, planned for %s\n", config.config_file.c_str(),
              target == models::Target::cuda ? "cuda" : "cpu");
  if (plans.size() > 1) std::fputs(table(plans).c_str(), stdout);
  if (plans.size() == 1 || request.explain)
    for (const PolicyPlan& plan : plans)
      std::printf("\n%s", details(plan, request.explain).c_str());
}

}  // namespace
}  // namespace longshore::trainer

int main(int argc, char** argv) {
  using namespace longshore;
  CLI::App app("Says what a training run will take, without running it.", "plan");
  trainer::Request request;
  app.add_option("--config", request.config, "a path, or the name of a file in configs/")
      ->required();
  app.add_option("--policies", request.policies,
                 "remat policies with commas between, or all; the config's own if none");
  app.add_option("--json", request.json, "a file to write the plans to");
  app.add_flag("--explain", request.explain, "what happens to each label, and what is replayed");
  app.add_option("key=value", request.overrides, "config keys, above what the file says");
  app.footer(trainer::config_footer());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return exit_code_of("plan", [&] { trainer::plan(request); });
}
