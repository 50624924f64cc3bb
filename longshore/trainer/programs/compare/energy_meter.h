// The energy that a machine uses, if it has counters. They count the whole processor or GPU,
// including the work of other programs.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "longshore/models/ir/op.h"

namespace longshore::trainer {

class EnergyMeter {
 public:
  virtual ~EnergyMeter() = default;

  // Joules since some moment in the past, so only differences have a meaning. Has to be called
  // every few minutes, after which the counters of processors wrap around.
  virtual double joules() = 0;
};

// The meter of the device that a backend of that target computes on: NVML's counter of the GPU, or
// those of all processor packages. Null if the machine has none or does not let this user read it.
std::unique_ptr<EnergyMeter> find_energy_meter(models::Target target);

// Linux's power capping framework: intel-rapl:N/energy_uj, in microjoules, for each package N.
inline const std::filesystem::path kPowercapFolder = "/sys/class/powercap";
std::unique_ptr<EnergyMeter> find_package_meter(const std::filesystem::path& powercap_folder);

}  // namespace longshore::trainer
