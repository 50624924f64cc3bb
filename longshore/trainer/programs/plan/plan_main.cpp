#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/base/late_notice.h"
#include "longshore/base/print.h"
#include "longshore/base/printable.h"
#include "longshore/base/program.h"
#include "longshore/base/result_output.h"
#include "longshore/base/standard_output.h"
#include "longshore/base/text.h"
#include "longshore/trainer/calibration/measure_hardware.h"
#include "longshore/trainer/config/backend_choice.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/config/device_mesh.h"
#include "longshore/trainer/config/hardware_file.h"
#include "longshore/trainer/config/help.h"
#include "longshore/trainer/config/key_values.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/config/unused_keys.h"
#include "longshore/trainer/planner/advice/choose_policy.h"
#include "longshore/trainer/planner/advice/hardware_comparison.h"
#include "longshore/trainer/planner/advice/largest_that_fits.h"
#include "longshore/trainer/planner/advice/plan_page.h"
#include "longshore/trainer/planner/advice/plan_question.h"
#include "longshore/trainer/planner/advice/plan_report.h"
#include "longshore/trainer/planner/advice/reference_costs.h"
#include "longshore/trainer/report/step_drawing.h"
#include "longshore/trainer/step/trace_file.h"
#include "longshore/trainer/weights/folders_read.h"

namespace longshore::trainer {
namespace {

// The target that plans are made for. No GPU has to be present, since nothing runs on it.
models::Target target_of(const Config& config) {
  if (config.backend == BackendChoice::cuda) return models::Target::cuda;
  if (config.backend == BackendChoice::cuda_composed) return models::Target::cuda_composed;
  if (config.backend == BackendChoice::cpu) return models::Target::cpu;
  return choose_backend(config).target;
}

struct Request {
  std::string config;
  std::vector<std::string> overrides;
  std::string policies, hardware, json, trace, picture, html, prices;
  PlanQuestion question;
  std::optional<double> tokens;
  bool explain = false, measure = false, advice = true;
  std::string measure_to;  // a file; "" for the one that --hardware this_machine reads
};

void measure(const std::filesystem::path& file) {
  Config config;
  ChosenBackend chosen = choose_backend(config);
  print(stdout, "backend: " + chosen.description + "\n");
  std::unique_ptr<offload::Backend> backend = make_backend(chosen.target);
  offload::Hardware hardware =
      measure_hardware(*backend, "this_machine", [](const std::string& what) {
        print(stdout, "measuring " + what + "\n");
        flush_output();
      });
  std::string said = text(hardware);
  write_file(file, "# Measured here by plan --measure.\n" + said);
  print(stdout, said + path_text(file) + "\n");
}

void warn_of(const Config& config, const std::vector<std::string>& policies) {
  for (const std::string& line : unused_keys(config, policies))
    print(stdout, "warning: " + line + "\n");
  for (const char* key : {"ici_fsdp_parallelism", "ici_data_parallelism"})
    if (config.origins.contains(key) && value_text(*find_key(key), config) == "-1")
      print(stdout, fmt::format("warning: {}: found -1, which is planned as 1: no processes are "
                                "there to count; expected a number of devices\n",
                                location(config, key)));
}

// Whether the plans fit on this machine, as far as it has the device that they are for.
void find_room_here(std::vector<PolicyPlan>& plans, models::Target target) {
  std::unique_ptr<offload::Backend> backend;
  try {
    const ChosenBackend chosen = choose_backend(plans.at(0).config());
    if (chosen.target != target) return;
    backend = make_backend(chosen.target, chosen.device);
  } catch (const ConfigError& error) {
    print(stdout, fmt::format("whether it fits is not known: {}\n", error.what()));
    return;
  }
  for (PolicyPlan& plan : plans) {
    plan.room =
        room(plan.memory, *backend, memory_limits(plan.config()), devices_per_node(plan.config()));
    plan.has_room = true;
  }
}

// Calls `plan`, and says that it is at work if that takes longer than two seconds, as the search of
// `auto`, of the largest value or of the fewest devices may.
template <class Plan>
auto said_if_slow(const Plan& plan) {
  const LateNotice notice("plan: trying many plans, to find the one that is asked for",
                          std::chrono::seconds(2));
  return plan();
}

// Prints a line for each profile, with what the config takes on it.
void plan_on_all_hardware(const Request& request, const ResultOutput& results) {
  for (const auto& [option, is_given] : {std::pair{"--trace", !request.trace.empty()},
                                         {"--picture", !request.picture.empty()},
                                         {"--html", !request.html.empty()},
                                         {"--explain", request.explain}})
    if (is_given)
      throw ConfigError(std::string(option) +
                        ": found --hardware all, which prints a line for each; expected one of " +
                        join(hardware_names(default_configs_directory())));
  std::vector<std::string> overrides = request.overrides;
  // Each profile takes the place of this one. Some policies require that there is one.
  overrides.push_back("hardware=" + hardware_names(default_configs_directory()).at(0));
  const Config config = with_folders_read(
      load_config_for_policies(request.config, overrides, default_configs_directory()));
  const std::vector<std::string> policies = split(request.policies);
  const std::vector<HardwarePlan> plans =
      said_if_slow([&] { return plans_on_all_hardware(config, policies, request.question); });
  warn_of(config, policy_names(config, policies));
  if (results.is_wanted()) results.write(json_text(plans, request.question));
  print(stdout, fmt::format("{}{}\n{}", config.config_file,
                            policies.empty() ? ", remat_policy " + config.remat_policy : "",
                            table(plans, request.question)));
}

// Before what takes long. Reads the prices.
void check(Request& request) {
  if (request.measure && request.measure_to.empty())
    request.measure_to = default_configs_directory() / "hardware/this_machine.yml";
  require_places_for({{"--measure-to", request.measure_to},
                      {"--json", request.json},
                      {"--trace", request.trace},
                      {"--picture", request.picture},
                      {"--html", request.html}});
  PlanQuestion& question = request.question;
  if (!question.largest.empty()) require_key_of_largest(question.largest);
  if (!question.largest.empty() && question.fewest_devices)
    throw ConfigError("--fewest-devices: found --largest " + question.largest +
                      " as well, expected one of them");
  constexpr double kMostTokens = 1e18;
  if (request.tokens && !(*request.tokens >= 1 && *request.tokens <= kMostTokens))
    throw ConfigError(
        fmt::format("--tokens: found {}, expected a number from 1 to {}, such as 15e12",
                    *request.tokens, kMostTokens));
  question.cost.tokens = request.tokens.value_or(0);
  question.cost.prices = parse_prices(request.prices);
}

// The option that asks for what only a profile can tell; "" if there is none.
std::string needs_profile(const Request& request) {
  const PlanQuestion& question = request.question;
  for (const auto& [option, is_given] : {std::pair{"--trace", !request.trace.empty()},
                                         {"--picture", !request.picture.empty()},
                                         {"--largest", !question.largest.empty()},
                                         {"--fewest-devices", question.fewest_devices},
                                         {"--tokens", question.cost.tokens > 0},
                                         {"--price-per-hour", question.cost.asks_price()}})
    if (is_given) return option;
  return "";
}

// The numbers of devices may not be given where the fewest are asked for.
void require_not_asked(const Request& request, const Config& config) {
  for (const std::string key : {"ici_fsdp_parallelism", "dcn_fsdp_parallelism"})
    if (request.question.fewest_devices && origin(config, key) == kCommandLine)
      throw ConfigError(location(config, key) + ": found " + value_text(*find_key(key), config) +
                        ", expected none: it is what is asked for");
}

// Of the prices that are given, some is to be that of this profile.
void require_price_of(const std::string& hardware, const Prices& prices) {
  if (prices.by_name.empty() || prices.of(hardware)) return;
  throw ConfigError(
      fmt::format("--price-per-hour: found none for {}, which is planned for; "
                  "expected {}=PRICE",
                  hardware, hardware));
}

// A measurement reads no config: what is asked of a plan would be asked in vain.
void require_nothing_but_measure(const Request& request) {
  const PlanQuestion& question = request.question;
  for (const auto& [option, is_given] : {std::pair{"--config", !request.config.empty()},
                                         {"--policies", !request.policies.empty()},
                                         {"--hardware", !request.hardware.empty()},
                                         {"--largest", !question.largest.empty()},
                                         {"--fewest-devices", question.fewest_devices},
                                         {"--tokens", request.tokens.has_value()},
                                         {"--price-per-hour", !request.prices.empty()},
                                         {"--trace", !request.trace.empty()},
                                         {"--picture", !request.picture.empty()},
                                         {"--html", !request.html.empty()},
                                         {"--json", !request.json.empty()},
                                         {"--no-advice", !request.advice},
                                         {"--explain", request.explain},
                                         {"key=value", !request.overrides.empty()}})
    if (is_given)
      throw ConfigError(std::string(option) +
                        ": found beside --measure, which plans nothing; expected the one or the "
                        "other");
}

// A trace holds an event for each instruction of each micro-batch, and so does what a picture or a
// page is drawn from.
void require_traceable(const char* option, const Estimate& step) {
  constexpr int64_t kMostEvents = 1'000'000;  // takes 1.5 GB to write, and viewers show no more
  int64_t events = 0;
  for (const offload::SimulatedRuns& runs : step.runs)
    events += runs.times * std::ssize(runs.events);
  if (events > kMostEvents)
    throw ConfigError(
        fmt::format("{}: found a step of {} events, expected at most {}; nearest: fewer "
                    "gradient_accumulation_steps, whose micro-batches are alike",
                    option, events, kMostEvents));
}

// An SVG of a step as the profile has it.
std::string picture(const PolicyPlan& plan) {
  const Config& config = plan.config();
  const std::vector<offload::Event> events = offload::events_of(plan.estimate->runs);
  return step_svg(
      step_picture(events, memory_samples(events, plan.plans.step, offload::MemoryKind::device)),
      fmt::format("{} on {}, {}: one step, planned",
                  std::filesystem::path(config.config_file).filename().string(), config.hardware,
                  config.remat_policy));
}

void plan(Request& request) {
  check(request);
  const ResultOutput results(request.json);
  if (request.measure || !request.measure_to.empty()) {
    require_nothing_but_measure(request);
    return measure(request.measure_to);
  }
  if (request.config.empty()) throw ConfigError("--config: found nothing, expected a config");
  if (request.hardware == "all") return plan_on_all_hardware(request, results);
  std::vector<std::string> overrides = request.overrides;
  if (!request.hardware.empty()) overrides.push_back("hardware=" + request.hardware);
  const Config config = with_folders_read(
      load_config_for_policies(request.config, overrides, default_configs_directory()));
  const RunSpec spec =
      config.hardware.empty() ? RunSpec(config, target_of(config)) : RunSpec::on_profile(config);
  const std::optional<offload::Hardware>& hardware = spec.hardware();
  if (const std::string option = needs_profile(request); !hardware && !option.empty())
    throw ConfigError(option + ": found no hardware, expected --hardware NAME, one of " +
                      join(hardware_names(default_configs_directory())));
  require_not_asked(request, config);
  if (hardware) require_price_of(hardware->name, request.question.cost.prices);
  const models::Target target = spec.target();
  const std::vector<std::string> policies = split(request.policies);
  for (const auto& [option, file] :
       {std::pair{"--trace", request.trace}, {"--picture", request.picture}})
    if (!file.empty() && policy_names(config, policies).size() > 1)
      throw ConfigError(std::string(option) + ": found " + excerpt(request.policies) +
                        " as --policies, expected one");
  std::vector<PlanAnswer> answers;
  std::vector<PolicyPlan> plans = said_if_slow([&] {
    return plan_policies(spec, policies, [&](const RunSpec& one) {
      PlanAnswer found = answer(request.question, one);
      const RunSpec planned = found.spec;
      answers.push_back(std::move(found));
      return planned;
    });
  });
  warn_of(config, policy_names(config, policies));
  if (hardware && config.backend != BackendChoice::automatic &&
      !models::same_device(target_of(config), target))
    print(stdout, fmt::format("warning: {}: {} has no effect with hardware = {}, which is of {}\n",
                              location(config, "backend"), value_text(*find_key("backend"), config),
                              hardware->name, models::name(target)));
  if (!hardware) find_room_here(plans, target);
  const CostQuestion& cost = request.question.cost;
  for (const auto& [option, file] : {std::pair{"--trace", request.trace},
                                     {"--picture", request.picture},
                                     {"--html", request.html}})
    for (const PolicyPlan& one : plans)
      if (!file.empty() && one.estimate) require_traceable(option, *one.estimate);
  if (results.is_wanted()) results.write(json_text(plans, cost));
  if (!request.trace.empty())
    write_trace({{.step = 0, .begin = 0, .events = offload::events_of(plans[0].estimate->runs)}},
                plans[0].plans.step, request.trace);
  if (!request.picture.empty()) write_file(request.picture, picture(plans[0]));
  print(stdout, fmt::format("{}, planned for {}\n", config.config_file,
                            hardware ? fmt::format("{} (source: {})", hardware->name,
                                                   name(hardware->source))
                                     : name(target)));
  if (compute_dtype(config, target) == models::Dtype::bfloat16 && !has_bfloat16(target))
    print(stdout, "this processor does not multiply bfloat16: planned for one that does\n");
  std::vector<std::string> advice(plans.size());
  std::vector<const PolicyPlan*> list;
  for (const PolicyPlan& one : plans) list.push_back(&one);
  if (plans.size() > 1) print(stdout, table(list, cost));
  if (plans.size() == 1 || request.explain)
    for (const PolicyPlan& one : plans) {
      print(stdout, "\n" + details(one, cost) + reference_costs(one));
      // Who asks for the largest batch that fits has said what is to change.
      if (plans.size() == 1 && hardware && request.advice &&
          !(request.question.changes_config() && one.room.fits())) {
        flush_output();
        const LateNotice notice(
            "plan: working out what other choices would do; --no-advice leaves that out");
        print(stdout, advice[0] = changes(one));
      }
      if (request.explain) print(stdout, explanation(one));
    }
  if (!request.html.empty()) write_file(request.html, plan_page(plans, cost, advice));
  if (!hardware)
    print(stdout, "\nno times: --hardware names a profile, one of " +
                      join(hardware_names(default_configs_directory())) + "\n");
  for (const PlanAnswer& one : answers)
    if (!one.text.empty())
      print(stdout, hardware->name +
                        (plans.size() > 1 ? ", " + one.spec.config().remat_policy : "") + ": " +
                        one.text + "\n");
}

}  // namespace
}  // namespace longshore::trainer

int main(int argc, char** argv) {
  using namespace longshore;
  CLI::App app("Says what a training run will take, without running it.", "plan");
  trainer::Request request;
  app.add_option("--config", request.config, "a path, or the name of a file in configs/");
  app.add_flag("--measure", request.measure,
               "measures this machine, a few minutes, and writes the profile this_machine");
  app.add_option("--measure-to", request.measure_to, "... and writes the profile to a file");
  app.add_option("--policies", request.policies,
                 "remat policies with commas between, or all; the config's own if none");
  app.add_option("--hardware", request.hardware,
                 "a profile of configs/hardware, or a file, for times; all: the config on each");
  app.add_option("--largest", request.question.largest,
                 "per_device_batch_size or max_target_length: the largest that fits the hardware, "
                 "and the plan with it");
  app.add_flag("--fewest-devices", request.question.fewest_devices,
               "the fewest devices of the hardware that it fits, and the plan with them");
  app.add_option("--tokens", request.tokens,
                 "how many tokens to train on, as in 15e12: the days that takes");
  app.add_option("--price-per-hour", request.prices,
                 "what a device costs an hour, or PROFILE=PRICE,...: what training costs");
  app.add_option("--trace", request.trace,
                 "a file for what each lane does when, for chrome://tracing and Perfetto");
  app.add_option("--picture", request.picture, "an SVG file of the same");
  app.add_option("--html", request.html, "a file for a page with charts, for any browser");
  app.add_option("--json", request.json, "a file to write the plans to; -: the standard output");
  app.add_flag("!--no-advice", request.advice,
               "leaves out what other choices would gain or cost, which takes the longest");
  app.add_flag("--explain", request.explain,
               "what happens to each label, and what is computed again");
  trainer::add_config_keys(app, request.overrides);
  return run_program(
      app, argc, argv, [&] { trainer::plan(request); }, trainer::meant_key);
}
