#include "trainer/config/device_mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "trainer/config/hardware_file.h"
#include "trainer/config/key_values.h"
#include "trainer/config/load_config.h"
#include "trainer/config/model_config.h"

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

// The key of the profile that is missing and that a plan for the mesh needs; "" if none is.
const char* missing_rate(const offload::Hardware& hardware, const Config& config) {
  const offload::DeviceMesh mesh = device_mesh(config);
  if (devices_per_node(config) > 1 && hardware.ici.points().empty()) return "ici";
  const bool is_between_nodes = mesh.data.nodes * mesh.fsdp.nodes > 1;
  return is_between_nodes && hardware.dcn.points().empty() ? "dcn" : "";
}

// Without the rates, what is to be computed would take no time; without the peak, there is no MFU.
void require_rates_for_dtype(const offload::Hardware& hardware, const Config& config) {
  const models::Dtype dtype = compute_dtype(config, hardware.target);
  std::string missing;
  for (models::OpClass op_class : {models::OpClass::attention, models::OpClass::matmul})
    if (!has_rate(hardware.flops_per_second, op_class, dtype))
      missing = std::string("flops_per_second.") + models::name(op_class);
  if (missing.empty() && !hardware.peak_flops_per_second.contains(dtype))
    missing = "peak_flops_per_second";
  if (!missing.empty())
    throw ConfigError(fmt::format("{}: {} has no {} for {}, in which this config computes",
                                  location(config, "hardware"), hardware.name, missing,
                                  models::name(dtype)));
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

std::optional<offload::Hardware> named_hardware(const Config& config) {
  if (config.hardware.empty()) return std::nullopt;
  offload::Hardware hardware = with_origin(
      config, [&] { return read_hardware(config.hardware, default_configs_directory()); });
  if (const char* missing = missing_rate(hardware, config); *missing)
    throw ConfigError(location(config, "hardware") + ": " + hardware.name + " has no " + missing +
                      ", which a plan for " + mesh_text(config) + " needs");
  require_rates_for_dtype(hardware, config);
  if (models::is_cuda(hardware.target) && config.backend == BackendChoice::cuda_composed)
    hardware.target = models::Target::cuda_composed;  // profiles say cuda or cpu
  return hardware.shared_by(devices_per_node(config));
}

bool reaches_mesh(const offload::Hardware& hardware, const Config& config) {
  return *missing_rate(hardware, config) == 0;
}

std::string mesh_text(const Config& config) {
  const offload::DeviceMesh mesh = device_mesh(config);
  if (mesh.devices() == 1) return "";
  return fmt::format("one of {} devices: data {} x fsdp {}", mesh.devices(), mesh.data.size,
                     mesh.fsdp.size);
}

}  // namespace longshore::trainer
