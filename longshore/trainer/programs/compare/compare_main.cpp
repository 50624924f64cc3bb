#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/base/print.h"
#include "longshore/base/program.h"
#include "longshore/base/result_output.h"
#include "longshore/base/standard_output.h"
#include "longshore/base/text.h"
#include "longshore/trainer/config/help.h"
#include "longshore/trainer/config/unused_keys.h"
#include "longshore/trainer/distributed/launch.h"
#include "longshore/trainer/programs/compare/compare.h"
#include "longshore/trainer/programs/compare/figures.h"
#include "longshore/trainer/programs/compare/html.h"
#include "longshore/trainer/programs/compare/report.h"

namespace longshore::trainer {
namespace {

struct Request {
  std::vector<std::string> configs, overrides;
  std::string policies, sweep, hardware, json, html;
  Amount amount;
  std::optional<double> price;
};

constexpr int64_t kMaxTimedSteps = 10000;

void check(const Request& request) {
  for (auto [option, value] :
       {std::pair{"--steps", request.amount.steps}, {"--rounds", request.amount.rounds}})
    if (value < 1 || value > kMaxTimedSteps)
      throw ConfigError(std::string(option) + ": found " + std::to_string(value) +
                        ", expected 1 to " + std::to_string(kMaxTimedSteps));
  if (request.price && !(*request.price > 0 && std::isfinite(*request.price)))
    throw ConfigError("--price: found " + std::to_string(*request.price) +
                      ", expected a positive number, of currency units a device and hour");
  require_places_for({{"--json", request.json}, {"--html", request.html}});
}

std::vector<Comparison> plan(const Request& request) {
  std::vector<std::string> overrides = request.overrides;
  if (!request.hardware.empty()) overrides.push_back("hardware=" + request.hardware);
  std::vector<Comparison> comparisons;
  for (const Workload& workload : make_workloads(request.configs, request.sweep, overrides))
    comparisons.push_back(plan_comparison(workload, split(request.policies)));
  return comparisons;
}

void print_line(const std::string& line) {
  print(stdout, line + "\n");
  flush_output();  // the next may be a while away
}

// Prints each warning once: most workloads cause the same ones.
void warn_of(const std::vector<Comparison>& comparisons) {
  std::set<std::string> printed;
  for (const Comparison& comparison : comparisons) {
    std::vector<std::string> policies;
    for (const Candidate& candidate : comparison.candidates) policies.push_back(candidate.policy);
    for (const std::string& line : unused_keys(comparison.workload.loaded, policies))
      if (printed.insert(line).second) print_line("warning: " + line);
  }
}

void compare(const Request& request) {
  require_one_process("compare");
  check(request);
  const ResultOutput results(request.json);
  ComparisonReport report{.comparisons = plan(request),
                          .steps = request.amount.steps,
                          .price_per_device_hour = request.price};
  warn_of(report.comparisons);
  auto write_json = [&] {
    if (results.is_wanted()) results.write(json(report).dump(2) + "\n");
  };
  for (Comparison& comparison : report.comparisons)
    measure(comparison, request.amount, [&](const std::string& line) {
      print_line(line);
      // So that there are results if a long measurement is stopped.
      if (results.is_file()) write_json();
    });
  print(stdout, "\n" + text(report));
  write_json();
  if (!request.html.empty()) write_file(request.html, html(report));
  require_sound(report.comparisons);
}

}  // namespace
}  // namespace longshore::trainer

int main(int argc, char** argv) {
  using namespace longshore;
  CLI::App app("Measures step times of remat policies side by side.", "compare");
  trainer::Request request;
  app.add_option("--config", request.configs,
                 "a path, or the name of a file in configs/; may be given several times")
      ->required()
      ->allow_extra_args(false);
  app.add_option("--policies", request.policies,
                 "remat policies with commas between, or all; gains are over the first")
      ->required();
  app.add_option("--steps", request.amount.steps, "timed steps of each policy, in all rounds")
      ->capture_default_str();
  app.add_option("--rounds", request.amount.rounds,
                 "turns of each policy, at most; each makes the model anew")
      ->capture_default_str();
  app.add_option("--sweep", request.sweep, "key=a,b,c: the configs with each of these values");
  app.add_option("--hardware", request.hardware,
                 "a profile of configs/hardware, or a file: predictions beside the measurements");
  app.add_option("--price", request.price,
                 "of a device for an hour, in any currency: adds the cost of a million tokens");
  app.add_option("--json", request.json,
                 "a file to write plans and measurements to; -: the standard output");
  app.add_option("--html", request.html, "a file for a report with plots, for any browser");
  trainer::add_config_keys(app, request.overrides);
  return run_program(
      app, argc, argv, [&] { trainer::compare(request); }, trainer::meant_key);
}
