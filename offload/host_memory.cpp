#include "offload/host_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace longshore::offload {
namespace {

int64_t control_group_bytes() {
  auto number = [](const char* path) {
    std::ifstream file(path);
    int64_t value;
    return file >> value ? value : -1;
  };
  int64_t limit = number("/sys/fs/cgroup/memory.max");
  int64_t used = number("/sys/fs/cgroup/memory.current");
  return limit < 0 || used < 0 ? INT64_MAX : std::max<int64_t>(0, limit - used);
}

}  // namespace

int64_t available_host_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  int64_t kilobytes, available = 0;
  while (file >> key >> kilobytes && std::getline(file, unit))
    if (key == "MemAvailable:") available = kilobytes * 1024;
  return std::min(available, control_group_bytes());
}

}  // namespace longshore::offload
