#include "longshore/trainer/config/device_mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "longshore/base/error.h"
#include "longshore/base/text.h"
#include "longshore/trainer/config/key_values.h"

namespace longshore::trainer {
namespace {

int64_t filled(int64_t parallelism) { return std::max<int64_t>(parallelism, 1); }

// The axes that somebody set.
std::string given_axes(const Config& config) {
  std::vector<std::string> axes;
  for (const char* key : {"dcn_data_parallelism", "ici_data_parallelism", "dcn_fsdp_parallelism",
                          "ici_fsdp_parallelism"})
    if (config.origins.contains(key)) axes.push_back(described(config, key));
  return join(axes);
}

}  // namespace

offload::DeviceMesh device_mesh(const Config& config, int64_t rank) {
  offload::DeviceMesh mesh;
  mesh.data = {.size = filled(config.ici_data_parallelism) * config.dcn_data_parallelism,
               .nodes = config.dcn_data_parallelism};
  mesh.fsdp = {.size = filled(config.ici_fsdp_parallelism) * config.dcn_fsdp_parallelism,
               .nodes = config.dcn_fsdp_parallelism};
  mesh.data.rank = rank / mesh.fsdp.size;
  mesh.fsdp.rank = rank % mesh.fsdp.size;
  return mesh;
}

Config with_devices(Config config, int64_t devices) {
  const int64_t given = device_mesh(config).devices();
  int64_t* open = config.ici_fsdp_parallelism == -1   ? &config.ici_fsdp_parallelism
                  : config.ici_data_parallelism == -1 ? &config.ici_data_parallelism
                                                      : nullptr;
  if (open && devices % given == 0) *open = devices / given;
  if (device_mesh(config).devices() != devices)
    throw ConfigError(fmt::format(
        "{}: found a mesh of {}{}, expected {}, as many as there "
        "are processes",
        given_axes(config), open ? "a multiple of " : "", plural(given, "device"), devices));
  return config;
}

int64_t devices_per_node(const Config& config) {
  return filled(config.ici_data_parallelism) * filled(config.ici_fsdp_parallelism);
}

std::string mesh_text(const Config& config) {
  const offload::DeviceMesh mesh = device_mesh(config);
  if (mesh.devices() == 1) return "";
  return fmt::format("one of {} devices: data {} x fsdp {}", mesh.devices(), mesh.data.size,
                     mesh.fsdp.size);
}

}  // namespace longshore::trainer
