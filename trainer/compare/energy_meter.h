// The energy a machine uses, where its counters say it. They count for the whole processor or GPU,
// whoever works on it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "models/op.h"

namespace longshore::trainer {

class EnergyMeter {
 public:
  virtual ~EnergyMeter() = default;

  // Joules since some moment in the past: differences count. To be asked every few minutes, as
  // processors' counters begin anew that soon.
  virtual double joules() = 0;
};

// Of the device that a backend of that target computes on: NVML's counter of the GPU, or those of
// all processor packages. Null where the machine has none, or does not let this user read it.
std::unique_ptr<EnergyMeter> find_energy_meter(models::Target target);

// Linux's power capping framework: intel-rapl:N/energy_uj, in microjoules, for each package N.
inline const std::filesystem::path kPowercapFolder = "/sys/class/powercap";
std::unique_ptr<EnergyMeter> find_package_meter(const std::filesystem::path& powercap_folder);

}  // namespace longshore::trainer
