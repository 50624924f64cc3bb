// Stands for longshore/models/ops/kernels/cuda_group.cuh where the .cu files are compiled for the
// emulated GPU: what they would launch is found here by the name of its kernel.
#pragma once

#include <cstdint>
#include <string>
#include <typeinfo>

#include "longshore/models/ops/kernels/thread_group.h"
#include "tests/emulated_gpu/kernels.h"
#include "tests/models/serial_group.h"

namespace longshore::models {

template <class Body>
void emulate_blocks(const void* argument, int64_t blocks, size_t scratch_bytes) {
  const SerialLauncher launcher(Body::kThreads, PlayOrder::descending);
  launcher(*static_cast<const Body*>(argument), blocks, static_cast<int64_t>(scratch_bytes));
}

template <class Body>
bool add_block_kernel() {
  const std::string body = emulated::demangled(typeid(Body).name());
  const std::string space = body.ends_with('>') ? " " : "";
  emulated::add_kernel("void longshore::models::run_block<" + body + space + ">(" + body + ")",
                       {sizeof(Body), emulate_blocks<Body>});
  return true;
}

class CudaLauncher {
 public:
  CudaLauncher(void*, const char*) {}

  template <class Body>
  static constexpr int threads() {
    return Body::kThreads;
  }

  template <class Body>
  void operator()(const Body&, int64_t, int64_t = 0) const {
    static_cast<void>(is_added<Body>);
  }

  void zero(void*, int64_t) const {}
  void copy(void*, const void*, int64_t) const {}

 private:
  template <class Body>
  static inline const bool is_added = add_block_kernel<Body>();
};

}  // namespace longshore::models
