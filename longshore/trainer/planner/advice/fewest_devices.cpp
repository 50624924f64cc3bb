#include "longshore/trainer/planner/advice/fewest_devices.h"

#include <algorithm>

#include "longshore/base/error.h"
#include "longshore/trainer/config/profile_needs.h"
#include "longshore/trainer/planner/auto/auto_policy.h"
#include "longshore/trainer/planner/policy_plan.h"

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

std::optional<RunSpec> on_fewest_devices(const RunSpec& spec,
                                         const std::function<bool(const RunSpec&)>& fits) {
  const Config& config = spec.config();
  const int64_t most_in_node =
      std::max<int64_t>(1, kDevicesOfNode / std::max<int64_t>(1, config.ici_data_parallelism));
  auto on = [&](int64_t in_node, int64_t nodes) {
    Config one = config;
    one.ici_fsdp_parallelism = in_node;
    one.dcn_fsdp_parallelism = nodes;
    return one;
  };
  auto has_rates = [&](const Config& one) { return missing_in(*spec.hardware(), one).empty(); };
  auto fits_on = [&](int64_t in_node, int64_t nodes) {
    const Config one = on(in_node, nodes);
    return has_rates(one) && fits(spec.with(one));
  };
  if (int64_t devices = smallest(most_in_node, [&](int64_t n) { return fits_on(n, 1); }))
    return spec.with(on(devices, 1));
  if (!has_rates(on(most_in_node, 2))) return std::nullopt;
  if (int64_t nodes = smallest(kMostNodes, [&](int64_t n) { return fits_on(most_in_node, n); }))
    return spec.with(on(most_in_node, nodes));
  return std::nullopt;
}

std::optional<RunSpec> on_fewest_devices(const RunSpec& spec) {
  return on_fewest_devices(spec, [](const RunSpec& one) {
    try {
      const std::optional<RunSpec> chosen = with_found_policy(one);
      return chosen && plan_policy(*chosen).room.fits();
    } catch (const ConfigError&) {
      return false;  // more devices than there are parts, say
    }
  });
}

}  // namespace longshore::trainer
