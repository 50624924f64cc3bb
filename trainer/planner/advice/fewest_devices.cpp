#include "trainer/planner/advice/fewest_devices.h"

#include <algorithm>

#include "base/error.h"
#include "trainer/config/device_mesh.h"
#include "trainer/config/hardware_file.h"
#include "trainer/config/load_config.h"
#include "trainer/config/named_hardware.h"
#include "trainer/planner/auto/auto_policy.h"
#include "trainer/planner/policy_plan.h"

namespace longshore::trainer {
namespace {

// The smallest number from 1 to `most` of which `fits` is true, if all larger ones fit as well; 0
// if `most` does not fit either.
int64_t smallest(int64_t most, const std::function<bool(int64_t)>& fits) {
  int64_t misfit = 0, fit = 1;  // the largest that does not fit, and one that does
  for (; !fits(fit); fit = std::min(2 * fit, most)) {
    if (fit == most) return 0;
    misfit = fit;
  }
  while (fit - misfit > 1) {
    const int64_t middle = (misfit + fit) / 2;
    (fits(middle) ? fit : misfit) = middle;
  }
  return fit;
}

}  // namespace

std::optional<Config> on_fewest_devices(const Config& config,
                                        const std::function<bool(const Config&)>& fits) {
  const offload::Hardware hardware = read_hardware(config.hardware, default_configs_directory());
  const int64_t most_in_node =
      std::max<int64_t>(1, kDevicesOfNode / std::max<int64_t>(1, config.ici_data_parallelism));
  auto on = [&](int64_t in_node, int64_t nodes) {
    Config one = config;
    one.ici_fsdp_parallelism = in_node;
    one.dcn_fsdp_parallelism = nodes;
    return one;
  };
  auto fits_on = [&](int64_t in_node, int64_t nodes) {
    const Config one = on(in_node, nodes);
    return missing_in(hardware, one).empty() && fits(one);
  };
  if (int64_t devices = smallest(most_in_node, [&](int64_t n) { return fits_on(n, 1); }))
    return on(devices, 1);
  if (!missing_in(hardware, on(most_in_node, 2)).empty()) return std::nullopt;
  if (int64_t nodes = smallest(kMostNodes, [&](int64_t n) { return fits_on(most_in_node, n); }))
    return on(most_in_node, nodes);
  return std::nullopt;
}

std::optional<Config> on_fewest_devices(const Config& config) {
  const offload::Hardware alone = *named_hardware(config);
  return on_fewest_devices(config, [&](const Config& one) {
    try {
      const offload::Hardware hardware = *named_hardware(one);
      const std::optional<Config> chosen = with_found_policy(one, alone.target);
      return chosen && plan_policy(*chosen, alone.target, hardware).room.fits();
    } catch (const ConfigError&) {
      return false;  // more devices than there are parts, say
    }
  });
}

}  // namespace longshore::trainer
