#include "longshore/trainer/planner/advice/largest_that_fits.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/trainer/config/validate.h"
#include "longshore/trainer/planner/auto/auto_policy.h"
#include "longshore/trainer/planner/policy_plan.h"

namespace longshore::trainer {

namespace {

struct SearchedKey {
  const char* name;
  int64_t Config::*member;
};
constexpr SearchedKey kSearchedKeys[] = {{"per_device_batch_size", &Config::per_device_batch_size},
                                         {"max_target_length", &Config::max_target_length}};

int64_t Config::*member_of(const std::string& key) {
  for (const SearchedKey& one : kSearchedKeys)
    if (key == one.name) return one.member;
  std::vector<std::string> names;
  for (const SearchedKey& one : kSearchedKeys) names.push_back(one.name);
  throw ConfigError("--largest: found '" + excerpt(key) + "', expected " + join(names, " or ") +
                    nearest_help(nearest(key, names)));
}

}  // namespace

void require_key_of_largest(const std::string& key) { member_of(key); }

Config with_searched(Config config, const std::string& key, int64_t value) {
  config.*member_of(key) = value;
  return config;
}

int64_t largest_between(int64_t fit, int64_t misfit,
                        const std::function<int64_t(int64_t)>& spare_bytes) {
  double fit_spare = static_cast<double>(spare_bytes(fit)),
         misfit_spare = static_cast<double>(spare_bytes(misfit));
  for (bool halves = false; misfit - fit > 1;) {
    const int64_t width = misfit - fit;
    // Where the line through both crosses 0; a step that gains little is followed by half the way.
    const double part = halves ? 0.5 : fit_spare / (fit_spare - misfit_spare);
    const int64_t middle = std::clamp(fit + static_cast<int64_t>(part * static_cast<double>(width)),
                                      fit + 1, misfit - 1);
    const double spare = static_cast<double>(spare_bytes(middle));
    std::tie(spare < 0 ? misfit : fit, spare < 0 ? misfit_spare : fit_spare) =
        std::pair{middle, spare};
    halves = 2 * (misfit - fit) > width;
  }
  return fit;
}

LargestThatFits largest_that_fits(const RunSpec& spec, const std::string& key) {
  auto with = [&](int64_t value) { return with_searched(spec.config(), key, value); };
  auto is_valid = [&](int64_t value) {
    try {
      validate(with(value));
      return true;
    } catch (const ConfigError&) {
      return false;
    }
  };
  auto fits = [&](int64_t value) {
    if (!is_valid(value)) return false;
    const std::optional<RunSpec> chosen = with_found_policy(spec.with(with(value)));
    return chosen && plan_policy(*chosen).room.fits();
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
  return {most, most > 0 && !is_valid(most + 1)};
}

}  // namespace longshore::trainer
