// The devices that a config spreads a run over.
#pragma once

#include <optional>

#include "offload/collectives.h"
#include "offload/hardware.h"
#include "trainer/config/config.h"

namespace longshore::trainer {

// The mesh as device number `rank` sees it. An axis that is still to be filled has one device.
offload::DeviceMesh device_mesh(const Config& config, int64_t rank = 0);

// The config for that number of devices: an axis that is to be filled takes those that are left.
// Throws ConfigError where they are not as many as the axes say.
Config with_devices(Config config, int64_t devices);

// Devices that share a node's links to the host.
int64_t devices_per_node(const Config& config);

// The profile that `hardware` names, if it does, as one of these devices sees it; a GPU's is for
// the target cuda_composed where `backend` says so. Throws ConfigError as read_hardware() does, and
// where the profile says nothing of how devices reach each other.
std::optional<offload::Hardware> named_hardware(const Config& config);

// Whether the profile says how the mesh's devices reach each other.
bool reaches_mesh(const offload::Hardware& hardware, const Config& config);

// "one of 8 devices: data 2 x fsdp 4"; "" for one.
std::string mesh_text(const Config& config);

}  // namespace longshore::trainer
