#include "trainer/planner/advice/layers_on_device.h"

#include "trainer/planner/advice/largest_that_fits.h"
#include "trainer/planner/auto/auto_search_space.h"
#include "trainer/planner/room.h"
#include "trainer/step/training_plans.h"

namespace longshore::trainer {

RunSpec with_layers_on_device(const RunSpec& spec) {
  const Config& config = spec.config();
  if (config.parameter_layers_on_device) return spec;
  auto with = [&](int64_t layers) {
    return spec.changed([&](Config& one) {
      one.parameter_layers_on_device = layers;
      one.origins["parameter_layers_on_device"] = kChosen;
    });
  };
  auto spare_bytes = [&](int64_t layers) {
    const RunSpec one = with(layers);
    return room(analyze(plan_training(one)), *one.hardware(), memory_limits(one.config()))
        .device_spare_bytes;
  };
  const int64_t all = config.model.layers;
  if (!config.parameter_memory_host_offload || spare_bytes(0) < 0) return with(0);
  return with(spare_bytes(all) < 0 ? largest_between(0, all, spare_bytes) : all);
}

}  // namespace longshore::trainer
