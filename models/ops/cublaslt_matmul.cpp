#include "models/ops/cublaslt_matmul.h"

#include <algorithm>

namespace longshore::models {

// Rows that are adjacent are columns of the transposed matrix: what is stored as [r, c] by rows is
// [c, r] by columns.
ColumnMajorProduct column_major(const Matmul& p) {
  const bool a_plain = p.a_layout == Layout::plain, b_plain = p.b_layout == Layout::plain;
  auto stored = [](int64_t rows, int64_t columns) {
    return ColumnMajor{.rows = columns, .columns = rows, .stride = columns};
  };
  return {.first = b_plain ? stored(p.k, p.n) : stored(p.n, p.k),
          .second = a_plain ? stored(p.m, p.k) : stored(p.k, p.m),
          .out = stored(p.m, p.n),
          .transpose_first = !b_plain,
          .transpose_second = !a_plain};
}

// Room for partial sums where k is split. NVIDIA recommends 32 MiB on Hopper (cuBLAS's
// documentation of cublasSetWorkspace); a small C has no use for so much.
int64_t cublaslt_workspace_bytes(const Matmul& p) {
  constexpr int64_t kMostBytes = int64_t{32} << 20;
  constexpr int64_t kMostParts = 16;
  return std::min(kMostBytes, kMostParts * p.m * p.n * size_bytes(Dtype::float32));
}

}  // namespace longshore::models
