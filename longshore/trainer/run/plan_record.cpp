#include "longshore/trainer/run/plan_record.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "longshore/base/program.h"
#include "longshore/base/text.h"
#include "longshore/trainer/report/step_picture.h"
#include "longshore/trainer/step/estimate.h"

namespace longshore::trainer {
namespace {

using nlohmann::ordered_json;
using offload::MemoryKind;

ordered_json environment(const RunSpec& spec, const TrainingPlans& plans,
                         const std::string& backend, int64_t processes) {
  std::string version = version_text();  // line by line
  for (size_t at = 0; (at = version.find('\n', at)) != std::string::npos;)
    version.replace(at, 1, ", ");
  ordered_json environment{{"version", version}, {"backend", backend}};
  const std::vector<std::string> kernels = kernel_paths(plans.model, spec.target());
  if (!kernels.empty()) environment["kernels"] = join(kernels);
  environment["processes"] = processes;
  environment["processors"] = sysconf(_SC_NPROCESSORS_ONLN);
  environment["memory"] =
      offload::bytes_text(int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE));
  return environment;
}

}  // namespace

ordered_json plan_record(const RunSpec& spec, const TrainingPlans& plans,
                         const std::string& backend, int64_t processes) {
  ordered_json record{{"environment", environment(spec, plans, backend, processes)},
                      {"memory", json(analyze(plans))},
                      {"curve_axis", "planned, over the kernels of a step in their order"},
                      {"curves", ordered_json::object()}};
  for (MemoryKind kind : offload::kMemoryKinds) {
    const std::vector<MemorySample> samples = memory_by_kernel(plans.step, kind);
    record["curves"][offload::name(kind)] =
        json(memory_picture(samples, static_cast<double>(samples.size())));
  }
  if (const std::optional<offload::Hardware>& hardware = spec.hardware()) {
    const std::vector<offload::Event> events =
        offload::events_of(estimate(plans.step, *hardware).runs);
    record["hardware"] = hardware->name;
    record["step"] =
        json(step_picture(events, memory_samples(events, plans.step, MemoryKind::device)));
  }
  return record;
}

}  // namespace longshore::trainer
