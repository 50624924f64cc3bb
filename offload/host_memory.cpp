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

int64_t available_host_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  int64_t kilobytes, available = 0;
  while (file >> key >> kilobytes && std::getline(file, unit))
    if (key == "MemAvailable:") available = kilobytes * 1024;
  return std::min(available, control_group_bytes());
}

int64_t resident_bytes() { return status_bytes("VmRSS"); }
int64_t peak_resident_bytes() { return status_bytes("VmHWM"); }

}  // namespace longshore::offload
