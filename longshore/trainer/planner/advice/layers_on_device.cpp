#include "longshore/trainer/planner/advice/layers_on_device.h"

#include <fmt/format.h>

#include "longshore/trainer/planner/advice/largest_that_fits.h"
#include "longshore/trainer/planner/auto/auto_search_space.h"
#include "longshore/trainer/planner/room.h"
#include "longshore/trainer/step/training_plans.h"

namespace longshore::trainer {
namespace {

constexpr const char* kKey = "parameter_layers_on_device";

int64_t spare_bytes(const RunSpec& spec) {
  return room(analyze(plan_training(spec)), *spec.hardware(), memory_limits(spec.config()))
      .device_spare_bytes;
}

}  // namespace

RunSpec with_layers_on_device(const RunSpec& spec) {
  const Config& config = spec.config();
  if (config.parameter_layers_on_device) return spec;
  auto with = [&](int64_t layers) {
    return spec.changed([&](Config& one) {
      one.parameter_layers_on_device = layers;
      one.origins[kKey] = kChosen;
    });
  };
  const int64_t all = config.model.layers;
  if (!config.parameter_memory_host_offload || spare_bytes(with(0)) < 0) return with(0);
  const RunSpec kept = with(all).changed([&](Config& one) {
    choose_value(one, "parameter_memory_host_offload", &Config::parameter_memory_host_offload,
                 false);
  });
  if (spare_bytes(kept) >= 0) return kept;
  auto spare_with = [&](int64_t layers) { return spare_bytes(with(layers)); };
  return with(spare_with(all) < 0 ? largest_between(0, all, spare_with) : all);
}

std::string layers_text(const RunSpec& spec) {
  const Config& config = spec.config();
  const auto origin = config.origins.find(kKey);
  if (origin == config.origins.end() || origin->second != kChosen) return "";
  if (!config.parameter_memory_host_offload)
    return *config.parameter_layers_on_device == config.model.layers
               ? std::string(kKey) + " auto: all, and embedding and head"
               : "";
  return fmt::format("{} auto: {} of {}", kKey, *config.parameter_layers_on_device,
                     config.model.layers);
}

}  // namespace longshore::trainer
