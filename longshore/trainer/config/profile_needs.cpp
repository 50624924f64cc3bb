#include "longshore/trainer/config/profile_needs.h"

#include <fmt/format.h>

#include "longshore/base/error.h"
#include "longshore/trainer/config/device_mesh.h"
#include "longshore/trainer/config/hardware_file.h"
#include "longshore/trainer/config/model_config.h"

namespace longshore::trainer {
namespace {

using models::Dtype;
using models::OpClass;

std::string missing_link(const offload::Hardware& hardware, const Config& config) {
  const offload::DeviceMesh mesh = device_mesh(config);
  if (devices_per_node(config) > 1 && hardware.ici.points().empty()) return "ici";
  const bool is_between_nodes = mesh.data.nodes * mesh.fsdp.nodes > 1;
  return is_between_nodes && hardware.dcn.points().empty() ? "dcn" : "";
}

// Without rates, what is to be computed would take no time; without the peak, there is no MFU.
std::string missing_rate(const offload::Hardware& hardware, Dtype dtype) {
  for (OpClass op_class : {OpClass::matmul, OpClass::attention})
    if (!has_rate(hardware.flops_per_second, name(op_class), dtype))
      return std::string("flops_per_second.") + name(op_class);
  if (!has_rate(hardware.bytes_per_second, name(OpClass::memory), dtype))
    return std::string("bytes_per_second.") + name(OpClass::memory);
  return hardware.peak_flops_per_second.contains(dtype) ? "" : "peak_flops_per_second";
}

}  // namespace

std::string missing_in(const offload::Hardware& hardware, const Config& config) {
  if (const std::string link = missing_link(hardware, config); !link.empty())
    return link + ", which a plan for " + mesh_text(config) + " needs";
  const Dtype dtype = compute_dtype(config, hardware.target);
  if (const std::string rate = missing_rate(hardware, dtype); !rate.empty())
    return fmt::format("{} for {}, in which this config computes", rate, models::name(dtype));
  if (const char* memory = name(OpClass::memory);
      !has_rate(hardware.bytes_per_second, memory, Dtype::float32))
    return fmt::format("bytes_per_second.{} for f32, in which parameters are updated", memory);
  return "";
}

}  // namespace longshore::trainer
