#include "longshore/models/ops/kernels/cublaslt_matmul.h"

#include <algorithm>

namespace longshore::models {

namespace {

Stride adjacent(Layout layout, int64_t rows, int64_t columns) {
  return {.row = layout == Layout::plain ? columns : rows, .next = 0};
}

}  // namespace

Matmuls::Matmuls(const Matmul& p)
    : Matmuls(p, 1, adjacent(p.a_layout, p.m, p.k), adjacent(p.b_layout, p.k, p.n),
              adjacent(Layout::plain, p.m, p.n)) {}

Matmuls::Matmuls(const Matmul& matmul, int64_t count, Stride a, Stride b, Stride c)
    : matmul(matmul), count(count), a(a), b(b), c(c) {}

// Rows are columns of the transposed matrix: what is stored as [r, c] by rows is [c, r] by columns.
ColumnMajorProduct column_major(const Matmuls& several) {
  const Matmul& p = several.matmul;
  const bool a_plain = p.a_layout == Layout::plain, b_plain = p.b_layout == Layout::plain;
  auto stored = [](int64_t rows, int64_t columns, const Stride& stride) {
    return ColumnMajor{.rows = columns, .columns = rows, .stride = stride.row, .next = stride.next};
  };
  return {.first = b_plain ? stored(p.k, p.n, several.b) : stored(p.n, p.k, several.b),
          .second = a_plain ? stored(p.m, p.k, several.a) : stored(p.k, p.m, several.a),
          .out = stored(p.m, p.n, several.c),
          .transpose_first = !b_plain,
          .transpose_second = !a_plain};
}

// Room for partial sums where k is split. NVIDIA recommends 32 MiB on Hopper (cuBLAS's
// documentation of cublasSetWorkspace); a small C has no use for so much.
int64_t cublaslt_workspace_bytes(const Matmuls& several) {
  constexpr int64_t kMaxBytes = int64_t{32} << 20;
  constexpr int64_t kMaxParts = 16;
  const int64_t numbers = several.count * several.matmul.m * several.matmul.n;
  return std::min(kMaxBytes, kMaxParts * numbers * size_bytes(Dtype::float32));
}

}  // namespace longshore::models
