// Which keys a query sees, and the tiles of scores that have to be computed for it.
//
// B batch, T length, H query heads, G key/value heads, D head_dim; a tile is R rows (queries) by
// S columns (keys).
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/round_up.h"
#include "models/ops/attention/attention_kernels.h"
#include "models/ops/kernels/simd.h"

namespace longshore::models {

struct AttentionSizes {
  int64_t b, t, h, g, d;
  Dtype dtype;
  float scale;
  float soft_cap;  // 0: none
  int64_t window;  // T where there is none
  bool segments;   // whether the batch says which keys are seen, and in which tiles

  AttentionSizes(const std::any& any, const Type& q, const Type& k) {
    const auto& [options, has_segments] = std::any_cast<const AttentionAttrs&>(any);
    b = q.shape[0];
    t = q.shape[1];
    d = options.head_dim;
    h = q.shape[2] / d;
    g = k.shape[2] / d;
    dtype = q.dtype;
    scale = static_cast<float>(options.score_scale());
    soft_cap = static_cast<float>(options.soft_cap);
    window = options.window == 0 ? t : options.window;
    segments = has_segments;
  }

  int64_t q_stride() const { return h * d; }
  int64_t k_stride() const { return g * d; }
};

// Writes where each position's segment begins to `begins`, int32 [T].
inline void find_segments(const int32_t* segments, int64_t t, int32_t* begins) {
  for (int64_t i = 0; i < t; ++i)
    begins[i] = i > 0 && segments[i] == segments[i - 1] ? begins[i - 1] : static_cast<int32_t>(i);
}

// A query of one row of the batch sees the keys from first(query) to its own. The first does not
// decrease from a query to the next.
class VisibleKeys {
 public:
  // `begins` is what find_segments writes; null where the row is one segment.
  VisibleKeys(const AttentionSizes& s, const int32_t* begins)
      : window_(s.window), begins_(begins) {}

  LONGSHORE_INLINE int64_t first(int64_t query) const {
    int64_t begin = begins_ ? begins_[query] : 0;
    return std::max(begin, query - window_ + 1);
  }

 private:
  int64_t window_;
  const int32_t* begins_;
};

struct Tile {
  int64_t row, rows, column, columns;
};

constexpr int64_t kTileRows = 128;
constexpr int64_t kForwardColumns = 512;
constexpr int64_t kBackwardColumns = 256;

// Columns that a block of rows sees, in whole steps: what is cut to the data would make tiles of
// any shape, and each shape is a primitive of its own.
inline std::pair<int64_t, int64_t> columns_of(const AttentionSizes& s, const VisibleKeys& visible,
                                              int64_t row, int64_t rows) {
  int64_t end = round_up(row + rows, kTileRows);
  return {visible.first(row) / kTileRows * kTileRows, std::min(s.t, end)};
}

// Tiles in the order a head visits them: all columns of one block of rows; f(tile, first, last)
// says whether it is the block's first and last.
template <class F>
void tiles_by_row(const AttentionSizes& s, const VisibleKeys& visible, F f) {
  for (int64_t row = 0; row < s.t; row += kTileRows) {
    int64_t rows = std::min(kTileRows, s.t - row);
    auto [first, end] = columns_of(s, visible, row, rows);
    for (int64_t column = first; column < end; column += kForwardColumns) {
      int64_t columns = std::min(kForwardColumns, end - column);
      f(Tile{row, rows, column, columns}, column == first, column + columns == end);
    }
  }
}

// f for the same tiles, in the order of blocks of columns: all rows that see a block follow each
// other.
template <class F>
void tiles_by_column(const AttentionSizes& s, const VisibleKeys& visible, F f) {
  for (int64_t column = 0; column < s.t; column += kBackwardColumns)
    for (int64_t row = 0; row < s.t; row += kTileRows) {
      int64_t rows = std::min(kTileRows, s.t - row);
      auto [first, end] = columns_of(s, visible, row, rows);
      first = std::max(first, column);
      end = std::min(end, column + kBackwardColumns);
      if (first < end) f(Tile{row, rows, first, end - first});
    }
}

// Every shape that a tile of at most `most_columns` columns can have, whatever the data.
template <class F>
void tile_shapes(const AttentionSizes& s, int64_t most_columns, F f) {
  int64_t rest = s.t % kTileRows;
  for (int64_t rows : {std::min(kTileRows, s.t), rest})
    for (int64_t whole = 0; whole <= std::min(most_columns, s.t); whole += kTileRows)
      for (int64_t columns : {whole, whole + rest})
        if (rows > 0 && columns > 0 && columns <= std::min(most_columns, s.t))
          f(Tile{0, rows, 0, columns});
}

}  // namespace longshore::models
