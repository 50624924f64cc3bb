// A Matmul describes a matrix product for the libraries that compute it.
//
// C[m,n] = A·B, or A·B and a sum. A is stored as [m,k] or, transposed, as [k,m]; B as [k,n] or,
// transposed, as [n,k]; rows of all three are adjacent, or on the CPU parts of longer ones. A and B
// share a dtype, float32 or bfloat16; C has it too or is float32. Sums over k are made in float32.
#pragma once

#include <compare>
#include <cstdint>

#include "longshore/models/ir/types.h"

namespace longshore::models {

enum class Layout : uint8_t { plain, transposed };
enum class Into : uint8_t { overwrite, add };
// The threads of a product on the CPU; `one` for products that are each a part of something larger,
// in parallel regions where that has several parts.
enum class Threads : uint8_t { all, one };

struct Matmul {
  int64_t m, n, k;
  Dtype ab = Dtype::float32;
  Dtype c = Dtype::float32;
  Layout a_layout = Layout::plain;
  Layout b_layout = Layout::plain;
  Into into = Into::overwrite;
  Threads threads = Threads::all;
  // Of longer rows, of which those of A, B and C are parts; 0: they are whole. For the CPU alone.
  int64_t a_row = 0, b_row = 0, c_row = 0;

  auto operator<=>(const Matmul&) const = default;
};

}  // namespace longshore::models
