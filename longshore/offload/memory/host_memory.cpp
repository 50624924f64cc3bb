#include "longshore/offload/memory/host_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "longshore/base/control_groups.h"

namespace longshore::offload {
namespace {

// The names of a group's files, which differ between version 1 and version 2 of control groups.
struct GroupFiles {
  const char *limit, *used, *inactive, *active;
};

constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file", "active_file"};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file", "total_active_file"};

int64_t group_bytes(const std::filesystem::path& group, const GroupFiles& files) {
  int64_t limit, used;
  if (!(std::ifstream(group / files.limit) >> limit)) return INT64_MAX;  // "max", or no such file
  if (!(std::ifstream(group / files.used) >> used)) return INT64_MAX;
  std::ifstream stat(group / "memory.stat");
  std::string key;
  for (int64_t bytes; stat >> key >> bytes;)
    if (key == files.inactive || key == files.active) used -= bytes;
  return std::max<int64_t>(0, limit - std::max<int64_t>(0, used));
}

int64_t status_bytes(const std::string& wanted) {
  std::ifstream file("/proc/self/status");
  std::string key, rest;
  while (file >> key) {
    if (int64_t kilobytes; key == wanted + ":" && file >> kilobytes) return kilobytes * 1024;
    std::getline(file, rest);
  }
  return -1;
}

}  // namespace

int64_t control_group_bytes(const std::filesystem::path& root) {
  int64_t least = INT64_MAX;
  for (const ControlGroup& group : control_groups("memory", root))
    least = std::min(least, group_bytes(group.folder, group.is_version_2 ? kVersion2 : kVersion1));
  return least;
}

int64_t limited_bytes() {
  auto left = [](auto resource, const char* taken) {
    rlimit limit;
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return INT64_MAX;
    const rlim_t most = std::min<rlim_t>(limit.rlim_cur, INT64_MAX);
    return std::max<int64_t>(0, static_cast<int64_t>(most) - status_bytes(taken));
  };
  return std::min(left(RLIMIT_AS, "VmSize"), left(RLIMIT_DATA, "VmData"));
}

int64_t available_host_bytes(const std::filesystem::path& root) {
  std::ifstream file(root / "proc/meminfo");
  std::string key, unit;
  int64_t kilobytes, available = 0;
  while (file >> key >> kilobytes && std::getline(file, unit))
    if (key == "MemAvailable:") available = kilobytes * 1024;
  return std::min({available, control_group_bytes(root), limited_bytes()});
}

int64_t resident_bytes() { return status_bytes("VmRSS"); }
int64_t peak_resident_bytes() { return status_bytes("VmHWM"); }

}  // namespace longshore::offload
