// on_fewest_devices() finds how few devices a config's plan fits on.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "longshore/trainer/config/run_spec.h"

namespace longshore::trainer {

// As many devices as a node has, where the other devices of a mesh are in other nodes.
inline constexpr int64_t kDevicesOfNode = 8;
// The most nodes that are tried.
inline constexpr int64_t kMostNodes = 512;

// The run with the fewest devices along `fsdp` of which `fits` is true: up to kDevicesOfNode in
// a node, then whole nodes; the axis `data` stays as it is. `fits` gets configs for whose mesh the
// profile that the config names has rates. Nothing if it is true of none.
std::optional<RunSpec> on_fewest_devices(const RunSpec& spec,
                                         const std::function<bool(const RunSpec&)>& fits);

// The same where `fits` asks whether the plan fits the profile.
std::optional<RunSpec> on_fewest_devices(const RunSpec& spec);

}  // namespace longshore::trainer
