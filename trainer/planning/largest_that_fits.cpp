#include "trainer/planning/largest_that_fits.h"

#include "base/error.h"
#include "trainer/config/validate.h"
#include "trainer/planning/policy_plan.h"

namespace longshore::trainer {

int64_t largest_that_fits(const Config& config, const std::string& key,
                          const offload::Hardware& hardware) {
  int64_t Config::*member = key == "per_device_batch_size" ? &Config::per_device_batch_size
                            : key == "max_target_length"   ? &Config::max_target_length
                                                           : nullptr;
  if (!member)
    throw ConfigError("--largest: found '" + key +
                      "', expected per_device_batch_size or max_target_length");
  auto fits = [&](int64_t value) {
    Config one = config;
    one.*member = value;
    try {
      validate(one);
    } catch (const ConfigError&) {
      return false;  // the value is beyond the bounds of its key
    }
    try {
      return plan_policy(one, hardware.target, hardware).room.fits();
    } catch (const PlanError&) {
      return false;  // nothing that `auto` may choose fits
    }
  };
  // Of a longer step, transfers may start fewer layers ahead, and so less be in memory at once.
  constexpr int kMisfits = 4;  // powers of two after which none is expected to fit
  int64_t most = 0;            // the largest value that is known to fit
  int misfits = 0;
  for (int64_t value = 1; misfits < kMisfits; value *= 2) {
    if (fits(value)) most = value;
    misfits = most == value ? 0 : misfits + 1;
  }
  for (int64_t step = most / 2; step > 0; step /= 2)
    if (fits(most + step)) most += step;
  return most;
}

}  // namespace longshore::trainer
