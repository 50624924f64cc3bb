#include "longshore/trainer/config/run_spec.h"

#include <utility>

#include "longshore/base/error.h"
#include "longshore/trainer/config/device_mesh.h"
#include "longshore/trainer/config/hardware_file.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/profile_needs.h"

namespace longshore::trainer {
namespace {

using Profile = std::shared_ptr<const offload::Hardware>;

Profile named_profile(const Config& config) {
  if (config.hardware.empty()) return nullptr;
  return std::make_shared<const offload::Hardware>(with_origin(
      config, [&] { return read_hardware(config.hardware, default_configs_directory()); }));
}

// As one of the mesh's devices sees it.
std::optional<offload::Hardware> of_one_device(const Profile& profile, const Config& config) {
  if (!profile) return std::nullopt;
  offload::Hardware hardware = *profile;
  if (const std::string missing = missing_in(hardware, config); !missing.empty())
    throw ConfigError(location(config, "hardware") + ": " + hardware.name + " has no " + missing);
  if (models::is_cuda(hardware.target) && config.backend == BackendChoice::cuda_composed)
    hardware.target = models::Target::cuda_composed;  // profiles say cuda or cpu
  return hardware.shared_by(devices_per_node(config));
}

}  // namespace

RunSpec::RunSpec(Config config, std::optional<models::Target> target, Profile profile)
    : config_(std::make_shared<const Config>(std::move(config))),
      profile_(std::move(profile)),
      hardware_(std::make_shared<const std::optional<offload::Hardware>>(
          of_one_device(profile_, *config_))) {
  target_ = target ? *target : *hardware_ ? (*hardware_)->target : models::Target::cpu;
}

RunSpec::RunSpec(Config config, models::Target target)
    : RunSpec(config, target, named_profile(config)) {}

RunSpec RunSpec::on_profile(Config config) {
  Profile profile = named_profile(config);
  return {std::move(config), std::nullopt, std::move(profile)};
}

RunSpec RunSpec::on_profile(Config config, const offload::Hardware& profile) {
  return {std::move(config), std::nullopt, std::make_shared<const offload::Hardware>(profile)};
}

RunSpec::RunSpec(Config config, models::Target target, offload::Hardware hardware)
    : config_(std::make_shared<const Config>(std::move(config))),
      target_(target),
      hardware_(std::make_shared<const std::optional<offload::Hardware>>(std::move(hardware))) {}

RunSpec RunSpec::with(Config config) const {
  if (config.hardware == config_->hardware && !profile_) {
    RunSpec other = *this;
    other.config_ = std::make_shared<const Config>(std::move(config));
    return other;
  }
  Profile profile = config.hardware == config_->hardware ? profile_ : named_profile(config);
  return {std::move(config), target_, std::move(profile)};
}

offload::Hardware RunSpec::hardware_or_nominal() const {
  return hardware().value_or(offload::nominal_hardware(target_));
}

}  // namespace longshore::trainer
