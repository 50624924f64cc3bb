#include "longshore/trainer/programs/compare/energy_meter.h"

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#ifdef LONGSHORE_CUDA
#include <dlfcn.h>

#include "longshore/offload/backends/cuda/cuda_device.h"
#endif

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

std::optional<int64_t> read_integer(const fs::path& file) {
  std::ifstream stream(file);
  int64_t value;
  return stream >> value ? std::optional(value) : std::nullopt;
}

// Other zones are parts of a package, the whole platform, or the packages a second time through
// another interface.
bool is_package(const fs::path& zone) {
  std::string name;
  return zone.filename().string().starts_with("intel-rapl:") &&  // also on AMD's processors
         std::ifstream(zone / "name") >> name && name.starts_with("package");
}

// The counter of a package. It restarts at 0 after its range.
struct Package {
  fs::path file;
  int64_t range_microjoules;
  int64_t last_microjoules;
};

class PackageMeter : public EnergyMeter {
 public:
  explicit PackageMeter(std::vector<Package> packages) : packages_(std::move(packages)) {}

  double joules() override {
    for (Package& package : packages_) {
      int64_t now = read_integer(package.file).value_or(package.last_microjoules);
      int64_t used = now - package.last_microjoules;
      microjoules_ += used < 0 ? used + package.range_microjoules : used;
      package.last_microjoules = now;
    }
    return static_cast<double>(microjoules_) * 1e-6;
  }

 private:
  std::vector<Package> packages_;
  int64_t microjoules_ = 0;
};

#ifdef LONGSHORE_CUDA
// Uses NVML with the declarations of its header (nvml.h, part of the CUDA toolkit). The library is
// part of the driver, so it is loaded when the program runs.
class GpuMeter : public EnergyMeter {
 public:
  static std::unique_ptr<EnergyMeter> find() {
    auto meter = std::unique_ptr<GpuMeter>(new GpuMeter);
    return meter->open() ? std::move(meter) : nullptr;
  }
  ~GpuMeter() override {
    if (shut_down_) shut_down_();
    if (library_) dlclose(library_);
  }

  double joules() override {
    unsigned long long millijoules = 0;
    return read(millijoules) ? last_ = static_cast<double>(millijoules) * 1e-3 : last_;
  }

 private:
  GpuMeter() = default;

  template <class Function>
  Function* find_function(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }

  bool open() {
    library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library_) return false;
    auto* start = find_function<int()>("nvmlInit_v2");
    auto* find_device = find_function<int(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
    energy_ = find_function<int(void*, unsigned long long*)>("nvmlDeviceGetTotalEnergyConsumption");
    if (!start || !find_device || !energy_ || start() != kSuccess) return false;
    shut_down_ = find_function<int()>("nvmlShutdown");
    unsigned long long millijoules = 0;
    return find_device(offload::find_cuda_device().pci_bus_id.c_str(), &device_) == kSuccess &&
           read(millijoules);
  }

  bool read(unsigned long long& millijoules) const {
    return energy_(device_, &millijoules) == kSuccess;
  }

  static constexpr int kSuccess = 0;
  void* library_ = nullptr;
  void* device_ = nullptr;
  int (*shut_down_)() = nullptr;
  int (*energy_)(void*, unsigned long long*) = nullptr;
  double last_ = 0;
};
#endif

}  // namespace

std::unique_ptr<EnergyMeter> find_package_meter(const fs::path& powercap_folder) {
  std::vector<Package> packages;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(powercap_folder, error)) {
    if (!is_package(entry.path())) continue;
    auto now = read_integer(entry.path() / "energy_uj");
    auto range = read_integer(entry.path() / "max_energy_range_uj");
    if (now && range) packages.push_back({entry.path() / "energy_uj", *range, *now});
  }
  if (packages.empty()) return nullptr;
  return std::make_unique<PackageMeter>(std::move(packages));
}

std::unique_ptr<EnergyMeter> find_energy_meter(models::Target target) {
#ifdef LONGSHORE_CUDA
  if (models::is_cuda(target)) return GpuMeter::find();
#endif
  return models::is_cuda(target) ? nullptr : find_package_meter(kPowercapFolder);
}

}  // namespace longshore::trainer
