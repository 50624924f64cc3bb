#include "tests/emulated_gpu/kernels.h"

#include <cxxabi.h>

#include <cstdlib>
#include <map>
#include <memory>

namespace longshore::emulated {
namespace {

std::map<std::string, Kernel>& kernels() {
  static auto* kernels = new std::map<std::string, Kernel>;
  return *kernels;
}

}  // namespace

void add_kernel(const std::string& name, Kernel kernel) { kernels()[name] = kernel; }

const Kernel* find_kernel(const std::string& name) {
  const auto found = kernels().find(name);
  return found == kernels().end() ? nullptr : &found->second;
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

}  // namespace longshore::emulated
