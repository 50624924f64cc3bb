// A RunSpec describes a run as plans are made of it: its config, the target that it computes on,
// and the profile of the machine, each resolved once. It does not change; other choices make
// another.
#pragma once

#include <memory>
#include <optional>

#include "longshore/offload/hardware/hardware.h"
#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

class RunSpec {
 public:
  // Reads the profile that the key `hardware` names, if it is set. Throws ConfigError as
  // read_hardware() does, and where the profile lacks what the config needs (missing_in()).
  RunSpec(Config config, models::Target target);
  // The same on the profile's own target; where none is named, on the host's processor.
  static RunSpec on_profile(Config config);
  // The same of a profile that has been read.
  static RunSpec on_profile(Config config, const offload::Hardware& profile);
  // On a machine that no file describes, as one of the mesh's devices sees it.
  RunSpec(Config config, models::Target target, offload::Hardware hardware);

  // The same run with other choices. The profile is read again only where another one is named.
  // Throws as above.
  RunSpec with(Config config) const;
  // ... that `change` makes, of a Config&.
  template <class Change>
  RunSpec changed(Change change) const {
    Config other = config();
    change(other);
    return with(std::move(other));
  }

  const Config& config() const { return *config_; }
  models::Target target() const { return target_; }
  // The profile as one of the mesh's devices sees it. Its target is cuda_composed if the profile is
  // a GPU's and `backend` is cuda_composed.
  const std::optional<offload::Hardware>& hardware() const { return *hardware_; }
  // What choices go by: the profile, or round numbers.
  offload::Hardware hardware_or_nominal() const;

 private:
  using Profile = std::shared_ptr<const offload::Hardware>;
  RunSpec(Config config, std::optional<models::Target> target, Profile profile);

  std::shared_ptr<const Config> config_;
  models::Target target_;
  Profile profile_;  // as its file has it; null where there is none
  std::shared_ptr<const std::optional<offload::Hardware>> hardware_;
};

}  // namespace longshore::trainer
