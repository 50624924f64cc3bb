#include "trainer/lookahead.h"

#include <algorithm>
#include <vector>

#include "offload/walk.h"

namespace longshore::trainer {
namespace {

constexpr int kLayers = 5;  // the first, the last, and some between
constexpr double kDepths[] = {0.25, 0.5, 1, 2};
constexpr double kSlack = 0.01;

}  // namespace

bool has_transfers(const offload::Homes& homes, const StepOptions& options) {
  bool updates_on_host =
      options.optimizer && options.optimizer->lane == offload::Lane::host_compute;
  return homes.any_on_host() || updates_on_host || options.policy.offloads();
}

double choose_layers_ahead(const models::Model& model, const offload::LayoutOptions& layout_options,
                           const StepOptions& options, models::Target target,
                           const offload::Hardware& hardware) {
  if (!has_transfers(layout_options.homes, options)) return 0;
  models::Model few = models::first_layers(model, kLayers);
  offload::ParameterLayout layout = lay_out(few, layout_options);
  StepOptions tried = options;
  if (tried.offload_layers) tried.offload_layers = std::min(*tried.offload_layers, kLayers - 1);
  tried.micro_batches = std::min<int64_t>(tried.micro_batches, 2);
  std::vector<double> seconds;
  for (double depth : kDepths) {
    tried.transfers.layers_ahead = depth;
    StepPlans plans = plan_step(few, layout, tried, target);
    std::vector<const offload::Plan*> step;
    for (const offload::Plan& plan : plans.plans) step.push_back(&plan);
    seconds.push_back(offload::overlap(offload::walk(step, hardware)).total);
  }
  double limit = *std::min_element(seconds.begin(), seconds.end()) * (1 + kSlack);
  size_t chosen =
      std::find_if(seconds.begin(), seconds.end(), [&](double one) { return one <= limit; }) -
      seconds.begin();
  return kDepths[chosen];
}

}  // namespace longshore::trainer
