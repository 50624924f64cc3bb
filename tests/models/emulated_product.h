// emulate_product() computes cuBLASLt's products by ATen on the CPU, of the matrices that it is
// told of.
#pragma once

#include <cstddef>
#include <span>

#include "longshore/models/ops/kernels/cublaslt_matmul.h"
#include "tests/models/emulated_kernels.h"

namespace longshore::models {

void emulate_product(const Matmuls& matmuls, const void* a, const void* b, const void* sum, void* c,
                     std::span<std::byte> workspace, void* stream);

template <auto run>
void emulate_with_product(const KernelCall& call) {
  run(call, emulate_product);
}

// Of an op that `run` runs by the product that it is given.
template <auto run>
constexpr EmulatedRuns emulated_products() {
  return {.by_32 = emulate_with_product<run>,
          .by_256 = emulate_with_product<run>,
          .ahead = emulate_with_product<run>,
          .behind = emulate_with_product<run>};
}

}  // namespace longshore::models
