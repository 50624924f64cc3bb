// The mesh of devices that a config distributes a run over.
#pragma once

#include <cstdint>
#include <string>

#include "longshore/offload/plan/mesh.h"
#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

// The mesh as device number `rank` sees it. An axis of size -1, which with_devices() has not filled
// yet, has one device.
offload::DeviceMesh device_mesh(const Config& config, int64_t rank = 0);

// The config for that number of devices: an axis of size -1 gets the devices that the other axes
// leave. Throws ConfigError if the product of the axes is another number.
Config with_devices(Config config, int64_t devices);

// The number of devices that share a node's links to the host.
int64_t devices_per_node(const Config& config);

// "one of 8 devices: data 2 x fsdp 4"; "" for one.
std::string mesh_text(const Config& config);

}  // namespace longshore::trainer
