#include <cstdio>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/program.h"
#include "base/text.h"
#include "trainer/config/backend_choice.h"
#include "trainer/config/config.h"
#include "trainer/config/hardware_file.h"
#include "trainer/config/help.h"
#include "trainer/config/key_values.h"
#include "trainer/config/load_config.h"
#include "trainer/config/model_config.h"
#include "trainer/config/named_hardware.h"
#include "trainer/config/unused_keys.h"
#include "trainer/measuring/measure_hardware.h"
#include "trainer/planning/largest_that_fits.h"
#include "trainer/planning/plan_report.h"
#include "trainer/step/trace_file.h"
#include "trainer/weights/adapter.h"

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
  std::string policies, hardware, json, trace, largest;
  bool explain = false, measure = false;
  std::string measure_to;  // a file; "" for the one that --hardware this_machine reads
};

void measure(std::filesystem::path file) {
  Config config;
  ChosenBackend chosen = choose_backend(config);
  std::printf("backend: %s\n", chosen.description.c_str());
  std::unique_ptr<offload::Backend> backend = make_backend(chosen.target);
  offload::Hardware hardware =
      measure_hardware(*backend, "this_machine", [](const std::string& what) {
        std::printf("measuring %s\n", what.c_str());
        std::fflush(stdout);
      });
  if (file.empty()) file = default_configs_directory() / "hardware/this_machine.yml";
  std::string said = text(hardware);
  write_file(file, "# Measured here by plan --measure.\n" + said);
  std::printf("%s%s\n", said.c_str(), file.c_str());
}

void warn_of(const Config& config, const std::vector<std::string>& policies) {
  for (const std::string& line : unused_keys(config, policies))
    std::printf("warning: %s\n", line.c_str());
  for (const char* key : {"ici_fsdp_parallelism", "ici_data_parallelism"})
    if (config.origins.contains(key) && value_text(*find_key(key), config) == "-1")
      std::printf(
          "warning: %s: found -1, which is planned as 1: no processes are there to count; expected "
          "a number of devices\n",
          location(config, key).c_str());
  if (!config.hardware.empty()) return;
  for (const char* key : {"device_memory_limit", "host_memory_limit"})
    if (config.origins.contains(key) && value_text(*find_key(key), config) != "0")
      std::printf("warning: %s has no effect without --hardware NAME\n",
                  location(config, key).c_str());
}

// `where` names the hardware, and also the policy if there are several.
void print_largest(const std::string& where, const Config& config, const std::string& key,
                   const offload::Hardware& hardware) {
  const LargestThatFits largest = largest_that_fits(config, key, hardware);
  if (largest.value == 0)
    std::printf("%s: no %s fits\n", where.c_str(), key.c_str());
  else
    std::printf("%s: the largest %s that fits is %lld%s\n", where.c_str(), key.c_str(),
                static_cast<long long>(largest.value),
                largest.is_most_allowed ? ", the most that the key may be" : "");
}

// Prints a line for each profile, with what the config takes on it.
void plan_on_all_hardware(const Request& request) {
  for (const auto& [option, is_given] : {std::pair{"--policies", !request.policies.empty()},
                                         {"--json", !request.json.empty()},
                                         {"--trace", !request.trace.empty()},
                                         {"--largest", !request.largest.empty()},
                                         {"--explain", request.explain}})
    if (is_given)
      throw ConfigError(std::string(option) +
                        ": found --hardware all, which prints a line for each; expected one of " +
                        join(hardware_names(default_configs_directory())) +
                        (request.policies.empty() ? "" : "; nearest: remat_policy=NAME"));
  std::vector<std::string> overrides = request.overrides;
  // hardware_table() replaces this profile by each one. Some policies require that there is one.
  overrides.push_back("hardware=" + hardware_names(default_configs_directory()).at(0));
  const Config config =
      with_adapter(load_config(request.config, overrides, default_configs_directory()));
  warn_of(config, {config.remat_policy});
  std::printf("%s, remat_policy %s\n%s", config.config_file.c_str(), config.remat_policy.c_str(),
              hardware_table(config).c_str());
}

// Before what takes long.
void check(const Request& request) {
  for (const auto& [option, file] : {std::pair{"--measure-to", &request.measure_to},
                                     {"--json", &request.json},
                                     {"--trace", &request.trace}})
    require_place_for(option, *file);
  if (!request.largest.empty()) require_key_of_largest(request.largest);
}

void plan(const Request& request) {
  check(request);
  if (request.measure || !request.measure_to.empty()) return measure(request.measure_to);
  if (request.config.empty()) throw ConfigError("--config: found nothing, expected a config");
  if (request.hardware == "all") return plan_on_all_hardware(request);
  std::vector<std::string> overrides = request.overrides;
  if (!request.hardware.empty()) overrides.push_back("hardware=" + request.hardware);
  const Config config = with_adapter(
      load_config_for_policies(request.config, overrides, default_configs_directory()));
  std::optional<offload::Hardware> hardware = named_hardware(config);
  if (!hardware && !(request.trace.empty() && request.largest.empty()))
    throw ConfigError(std::string(request.trace.empty() ? "--largest" : "--trace") +
                      ": found no hardware, expected --hardware NAME, one of " +
                      join(hardware_names(default_configs_directory())));
  const models::Target target = hardware ? hardware->target : target_of(config);
  const std::vector<std::string> policies = split(request.policies);
  if (!request.trace.empty() && policy_names(config, policies).size() > 1)
    throw ConfigError("--trace: found " + request.policies + " as --policies, expected one");
  std::vector<PolicyPlan> plans = plan_policies(config, policies, target);
  warn_of(config, policy_names(config, policies));
  if (!request.json.empty()) write_json(plans, request.json);
  if (!request.trace.empty())
    write_trace({{.step = 0, .begin = 0, .events = plans[0].estimate->events}}, plans[0].plans.step,
                request.trace);
  std::printf("%s, planned for %s\n", config.config_file.c_str(),
              hardware ? hardware->name.c_str() : name(target));
  if (compute_dtype(config, target) == models::Dtype::bfloat16 && !has_bfloat16(target))
    std::printf("this processor does not multiply bfloat16: planned for one that does\n");
  std::vector<const PolicyPlan*> list;
  for (const PolicyPlan& one : plans) list.push_back(&one);
  if (plans.size() > 1) std::fputs(table(list).c_str(), stdout);
  if (plans.size() == 1 || request.explain)
    for (const PolicyPlan& one : plans) {
      std::printf("\n%s", details(one, hardware).c_str());
      if (plans.size() == 1 && hardware && one.policy != offload::kAuto) {
        std::fflush(stdout);
        std::fputs(changes(one, *hardware).c_str(), stdout);
      }
      if (request.explain) std::fputs(explanation(one).c_str(), stdout);
    }
  if (!hardware)
    std::printf("\nno times: --hardware names a profile, one of %s\n",
                join(hardware_names(default_configs_directory())).c_str());
  if (!request.largest.empty())
    for (const PolicyPlan& one : plans)
      print_largest(hardware->name + (plans.size() > 1 ? ", " + one.policy : ""),
                    with_policy(config, one.policy), request.largest, *hardware);
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
  app.add_option("--largest", request.largest,
                 "per_device_batch_size or max_target_length: the largest that fits the hardware");
  app.add_option("--trace", request.trace,
                 "a file for what each lane does when, for chrome://tracing and Perfetto");
  app.add_option("--json", request.json, "a file to write the plans to");
  app.add_flag("--explain", request.explain,
               "what happens to each label, and what is computed again");
  trainer::add_config_keys(app, request.overrides);
  return run_program(
      app, argc, argv, [&] { trainer::plan(request); }, trainer::meant_key);
}
