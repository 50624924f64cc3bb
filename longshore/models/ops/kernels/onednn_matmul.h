// Matrix products on the CPU by oneDNN, with its scratchpad in memory of ours: C = A·B, or C +=
// A·B. Primitives are made once per description and kept.
//
// Results depend on the description and the number of threads only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "longshore/models/ops/kernels/matmul.h"

namespace longshore::models {

// Whether oneDNN has products of bfloat16 on this processor: on x86 it takes AVX-512.
bool multiplies_bfloat16();

// Of a product that this processor does not have, in bfloat16: as in float32, so that it can be
// planned.
int64_t workspace_bytes(const Matmul& matmul);
// Of any product that differs from `largest` in having fewer of its m rows, or of its k. That may
// be more than the largest takes: what AMX multiplies is arranged by whole tiles, and for some
// sizes all of it at once. Looks at each of them.
enum class Varying : uint8_t { m, k };
int64_t most_workspace_bytes(const Matmul& largest, Varying size);
void run(const Matmul& matmul, const void* a, const void* b, void* c,
         std::span<std::byte> workspace);

}  // namespace longshore::models
