// Deals out the products of experts' rows to blocks of threads: which tile of which expert a block
// computes is read from where rows end, on the device.
#pragma once

#include <cstdint>

#include "longshore/models/ops/kernels/matmul.h"
#include "longshore/models/ops/kernels/thread_group.h"

namespace longshore::models {

// C [rows,n] = A [rows,k] · B[e], or that and a sum, where e is the expert of a row.
struct GroupedRowsArguments {
  Dtype dtype;  // of all four: float32 or bfloat16
  int64_t rows, n, k, experts;
  const void* a;
  const void* b;  // [experts,k,n], or transposed [experts,n,k]
  Layout b_layout;
  const int32_t* ends;  // [experts]
  const void* so_far;   // null where there is no sum; may be c
  void* c;
};

// C[e] [m,n] = Aᵀ · B over the expert's rows of A [rows,m] and B [rows,n], or that and a sum.
struct GroupedWeightsArguments {
  Dtype dtype;  // of A and B: float32 or bfloat16
  int64_t rows, m, n, experts;
  const void *a, *b;
  const int32_t* ends;  // [experts]
  const float* so_far;  // null where there is no sum; may be c
  float* c;             // [experts,m,n]
};

// A block's part of a product: the first m by n of what a tile has room for. `a` and `b` step by
// one number to the next row or column and by another to the next term.
template <class T, class C>
struct ProductTile {
  int64_t m, n, k;
  const T* a;
  int64_t a_row, a_term;
  const T* b;
  int64_t b_column, b_term;
  const C* so_far;  // null where there is no sum
  C* c;
  int64_t c_row;
};

struct TileSize {
  int64_t rows, columns;
};

LONGSHORE_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// Tiles of rows are numbered so that expert e has those from begin / size + e to end / size + e,
// where its rows begin and end. They are at least as many as it needs, and all together a number
// that does not depend on what the router says; a few are empty.
template <class T>
struct TilesOfRows {
  using Type = T;
  using Sum = T;
  GroupedRowsArguments a;

  int64_t tiles(TileSize size) const {
    return (a.rows / size.rows + a.experts) * ceil_div(a.n, size.columns);
  }

  // m is not positive where there is nothing to compute.
  template <class Group>
  LONGSHORE_BODY ProductTile<T, T> operator()(Group& group, TileSize size, int64_t index) const {
    const int64_t column_tiles = ceil_div(a.n, size.columns);
    const int64_t row_tile = index / column_tiles, column = index % column_tiles * size.columns;
    const int64_t expert = sum(group, a.experts - 1, [&](int64_t e) {
      return int64_t{a.ends[e] / size.rows + e + 1 <= row_tile};
    });
    const int64_t begin = expert == 0 ? 0 : a.ends[expert - 1], end = a.ends[expert];
    const int64_t row = begin + (row_tile - (begin / size.rows + expert)) * size.rows;
    const bool is_transposed = a.b_layout == Layout::transposed;
    const int64_t b_column = is_transposed ? a.k : 1, b_term = is_transposed ? 1 : a.n;
    const int64_t c = row * a.n + column;
    const T* so_far = static_cast<const T*>(a.so_far);
    return {.m = least(size.rows, end - row),
            .n = least(size.columns, a.n - column),
            .k = a.k,
            .a = static_cast<const T*>(a.a) + row * a.k,
            .a_row = a.k,
            .a_term = 1,
            .b = static_cast<const T*>(a.b) + expert * a.n * a.k + column * b_column,
            .b_column = b_column,
            .b_term = b_term,
            .so_far = so_far ? so_far + c : nullptr,
            .c = static_cast<T*>(a.c) + c,
            .c_row = a.n};
  }
};

template <class T>
struct TilesOfWeights {
  using Type = T;
  using Sum = float;
  GroupedWeightsArguments a;

  int64_t tiles(TileSize size) const {
    return a.experts * ceil_div(a.m, size.rows) * ceil_div(a.n, size.columns);
  }

  template <class Group>
  LONGSHORE_BODY ProductTile<T, float> operator()(Group&, TileSize size, int64_t index) const {
    const int64_t row_tiles = ceil_div(a.m, size.rows), column_tiles = ceil_div(a.n, size.columns);
    const int64_t expert = index / (row_tiles * column_tiles);
    const int64_t row = index / column_tiles % row_tiles * size.rows;
    const int64_t column = index % column_tiles * size.columns;
    const int64_t begin = expert == 0 ? 0 : a.ends[expert - 1], end = a.ends[expert];
    const int64_t c = (expert * a.m + row) * a.n + column;
    return {.m = least(size.rows, a.m - row),
            .n = least(size.columns, a.n - column),
            .k = end - begin,
            .a = static_cast<const T*>(a.a) + begin * a.m + row,
            .a_row = 1,
            .a_term = a.m,
            .b = static_cast<const T*>(a.b) + begin * a.n + column,
            .b_column = 1,
            .b_term = a.n,
            .so_far = a.so_far ? a.so_far + c : nullptr,
            .c = a.c + c,
            .c_row = a.n};
  }
};

}  // namespace longshore::models
