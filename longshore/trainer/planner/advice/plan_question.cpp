#include "longshore/trainer/planner/advice/plan_question.h"

#include <fmt/format.h>

#include <optional>

#include "longshore/base/text.h"
#include "longshore/trainer/config/device_mesh.h"
#include "longshore/trainer/config/profile_needs.h"
#include "longshore/trainer/planner/advice/fewest_devices.h"
#include "longshore/trainer/planner/advice/largest_that_fits.h"

namespace longshore::trainer {
namespace {

PlanAnswer largest(const RunSpec& spec, const std::string& key) {
  const LargestThatFits found = largest_that_fits(spec, key);
  if (found.value == 0) return {false, spec, "none", "no " + key + " fits"};
  return {true, spec.with(with_searched(spec.config(), key, found.value)),
          std::to_string(found.value),
          fmt::format("the largest {} that fits is {}{}", key, found.value,
                      found.is_most_allowed ? ", the most that the key may be" : "")};
}

// Of a profile that says of no more devices how fast they reach each other.
std::string bound(const RunSpec& spec) {
  Config nodes = spec.config();
  nodes.dcn_fsdp_parallelism = 2;
  if (spec.hardware()->ici.points().empty()) return ": the profile has no ici";
  return missing_in(*spec.hardware(), nodes).empty() ? "" : " of a node; the profile has no dcn";
}

PlanAnswer fewest_devices(const RunSpec& spec) {
  const std::optional<RunSpec> found = on_fewest_devices(spec);
  if (!found) return {false, spec, "none", "it fits no number of devices" + bound(spec)};
  const Config& config = found->config();
  const int64_t devices = device_mesh(config).devices();
  return {
      true, *found, std::to_string(devices),
      devices == 1
          ? "1 device is enough"
          : fmt::format("the fewest devices that it fits are {}: ici_fsdp_parallelism={}{}",
                        devices, config.ici_fsdp_parallelism,
                        config.dcn_fsdp_parallelism > 1
                            ? fmt::format(" dcn_fsdp_parallelism={}", config.dcn_fsdp_parallelism)
                            : "")};
}

}  // namespace

PlanAnswer answer(const PlanQuestion& question, const RunSpec& spec) {
  if (!question.largest.empty()) return largest(spec, question.largest);
  if (question.fewest_devices) return fewest_devices(spec);
  return {.spec = spec, .cell = "", .text = ""};
}

}  // namespace longshore::trainer
