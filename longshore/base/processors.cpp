#include "longshore/base/processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "longshore/base/control_groups.h"

namespace longshore {
namespace {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

// Microseconds of processors' time in each period of so many microseconds.
double quota(const ControlGroup& group) {
  double time = 0, period = 0;
  if (group.is_version_2) {
    std::ifstream file(group.folder / "cpu.max");
    if (!(file >> time >> period)) return kNoQuota;  // "max", or no such file
  } else {
    if (!(std::ifstream(group.folder / "cpu.cfs_quota_us") >> time)) return kNoQuota;
    if (!(std::ifstream(group.folder / "cpu.cfs_period_us") >> period)) return kNoQuota;
  }
  return time > 0 && period > 0 ? time / period : kNoQuota;  // version 1 has -1 for no quota
}

}  // namespace

int64_t bound_processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

double processor_quota(const std::filesystem::path& root) {
  double least = kNoQuota;
  for (const ControlGroup& group : control_groups("cpu", root))
    least = std::min(least, quota(group));
  return least;
}

int64_t usable_processors() {
  static const auto found = static_cast<int64_t>(std::max(
      1.0, std::min(static_cast<double>(bound_processors()), std::ceil(processor_quota()))));
  return found;
}

}  // namespace longshore
