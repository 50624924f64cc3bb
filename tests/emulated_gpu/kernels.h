// Kernels by the names under which the compiler registers them with the CUDA runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace longshore::emulated {

// Of one argument, which is trivially copyable.
struct Kernel {
  size_t argument_bytes;
  void (*run)(const void* argument, int64_t blocks, size_t scratch_bytes);
};

// `name` as the demangler writes it.
void add_kernel(const std::string& name, Kernel kernel);
// Null where there is none.
const Kernel* find_kernel(const std::string& name);

std::string demangled(const char* name);

}  // namespace longshore::emulated
