#include "longshore/trainer/step/prefetch.h"

#include <algorithm>
#include <vector>

#include "longshore/trainer/step/estimate.h"
#include "longshore/trainer/step/short_step.h"

namespace longshore::trainer {
namespace {

// The part of a step's time that a smaller depth may cost: it saves memory, which is worth more
// than 1 % of time, and the virtual clock is not exact to less.
constexpr double kDepthTolerance = 0.01;

constexpr int kLayersTried = 5;  // the first, the last, and some between

}  // namespace

bool has_transfers(bool states_on_host, const offload::DeviceMesh& mesh,
                   const StepOptions& options) {
  bool updates_on_host =
      options.optimizer && options.optimizer->lane == offload::Lane::host_compute;
  return states_on_host || updates_on_host || options.policy.offloads() || mesh.devices() > 1;
}

double choose_prefetch_layers(const models::Model& model,
                              const offload::LayoutOptions& layout_options,
                              const StepOptions& options, models::Target target,
                              const offload::Hardware& hardware) {
  if (!has_transfers(layout_options.any_on_host(), layout_options.mesh, options)) return 0;
  StepOptions tried = options;
  tried.micro_batches = std::min<int64_t>(tried.micro_batches, 2);  // those between take as long
  std::vector<double> seconds;
  for (double depth : kPrefetchDistances) {
    tried.transfers.prefetch_layers = depth;
    StepPlans step = plan_short_step(model, kLayersTried, layout_options, tried, target);
    seconds.push_back(estimate(step, hardware).step_seconds);
  }
  double limit = *std::min_element(seconds.begin(), seconds.end()) * (1 + kDepthTolerance);
  const auto chosen =
      std::find_if(seconds.begin(), seconds.end(), [&](double one) { return one <= limit; }) -
      seconds.begin();
  return kPrefetchDistances[chosen];
}

}  // namespace longshore::trainer
