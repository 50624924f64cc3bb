// Matrix products on the CPU by oneDNN, with its scratchpad in memory of ours.
//
// C[m,n] = A·B, or C += A·B. A is stored as [m,k] or, transposed, as [k,m]; B as [k,n] or,
// transposed, as [n,k]; rows of all three are adjacent. A and B share a dtype; C has it
// too or is float32. Primitives are made once per description and kept.
//
// Results depend on the description and the number of threads only.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "models/types.h"

namespace longshore::models {

enum class Layout : uint8_t { plain, transposed };
enum class Into : uint8_t { overwrite, add };
enum class Threads : uint8_t { all, one };  // `one` for calls from within a parallel region

struct Matmul {
  int64_t m, n, k;
  Dtype ab = Dtype::float32;
  Dtype c = Dtype::float32;
  Layout a_layout = Layout::plain;
  Layout b_layout = Layout::plain;
  Into into = Into::overwrite;
  Threads threads = Threads::all;

  auto operator<=>(const Matmul&) const = default;
};

int64_t workspace_bytes(const Matmul& matmul);
void run(const Matmul& matmul, const void* a, const void* b, void* c,
         std::span<std::byte> workspace);

}  // namespace longshore::models
