#include "trainer/planner/advice/plan_question.h"

#include <fmt/format.h>

#include <optional>

#include "base/text.h"
#include "trainer/config/device_mesh.h"
#include "trainer/config/hardware_file.h"
#include "trainer/config/load_config.h"
#include "trainer/config/named_hardware.h"
#include "trainer/planner/advice/fewest_devices.h"
#include "trainer/planner/advice/largest_that_fits.h"

namespace longshore::trainer {
namespace {

PlanAnswer largest(const Config& config, const std::string& key) {
  const LargestThatFits found = largest_that_fits(config, key, *named_hardware(config));
  if (found.value == 0) return {false, config, "none", "no " + key + " fits"};
  return {true, with_searched(config, key, found.value), std::to_string(found.value),
          fmt::format("the largest {} that fits is {}{}", key, found.value,
                      found.is_most_allowed ? ", the most that the key may be" : "")};
}

// Of a profile that says of no more devices how fast they reach each other.
std::string bound(const Config& config) {
  Config nodes = config;
  nodes.dcn_fsdp_parallelism = 2;
  const offload::Hardware hardware = read_hardware(config.hardware, default_configs_directory());
  if (hardware.ici.points().empty()) return ": the profile has no ici";
  return missing_in(hardware, nodes).empty() ? "" : " of a node; the profile has no dcn";
}

PlanAnswer fewest_devices(const Config& config) {
  const std::optional<Config> found = on_fewest_devices(config);
  if (!found) return {false, config, "none", "it fits no number of devices" + bound(config)};
  const int64_t devices = device_mesh(*found).devices();
  return {true, *found, std::to_string(devices),
          devices == 1 ? "1 device is enough"
                       : fmt::format("the fewest devices that it fits are {}: "
                                     "ici_fsdp_parallelism={}{}",
                                     devices, found->ici_fsdp_parallelism,
                                     found->dcn_fsdp_parallelism > 1
                                         ? fmt::format(" dcn_fsdp_parallelism={}",
                                                       found->dcn_fsdp_parallelism)
                                         : "")};
}

}  // namespace

PlanAnswer answer(const PlanQuestion& question, const Config& config) {
  if (!question.largest.empty()) return largest(config, question.largest);
  if (question.fewest_devices) return fewest_devices(config);
  return {.config = config, .cell = "", .text = ""};
}

}  // namespace longshore::trainer
