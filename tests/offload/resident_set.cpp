#include "tests/offload/resident_set.h"

#include <fstream>
#include <string>

namespace longshore::offload {
namespace {

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

int64_t resident_bytes() { return status_bytes("VmRSS"); }
int64_t peak_resident_bytes() { return status_bytes("VmHWM"); }

}  // namespace longshore::offload
