// VisibleKeys says which keys a query sees, and a Tile is a block of scores that have to be
// computed for it.
//
// B batch, T length, H query heads, G key/value heads, D head_dim; a tile is R rows (queries) by
// S columns (keys).
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "longshore/base/round_up.h"
#include "longshore/models/ops/attention/attention_kernels.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {

struct AttentionSizes {
  int64_t b, t, h, g, d;
  Dtype dtype;
  float scale;
  float soft_cap;    // 0: none
  int64_t window;    // T where there is none
  bool is_full;      // no key is hidden for its place
  bool is_by_batch;  // whether the batch says which keys are seen, and so which tiles there are

  AttentionSizes(const std::any& any, const Type& q, const Type& k) {
    const auto& attrs = std::any_cast<const AttentionAttrs&>(any);
    const AttentionOptions& options = attrs.options;
    b = q.shape[0];
    t = q.shape[1];
    d = options.head_dim;
    h = q.shape[2] / d;
    g = k.shape[2] / d;
    dtype = q.dtype;
    scale = static_cast<float>(options.score_scale());
    soft_cap = static_cast<float>(options.soft_cap);
    window = options.window == 0 ? t : options.window;
    is_full = options.mask == AttentionMask::full;
    is_by_batch = attrs.is_by_batch();
  }

  int64_t q_stride() const { return h * d; }
  int64_t k_stride() const { return g * d; }
};

// The keys that each query of a row sees, [first, end), int32 [T] each.
struct KeyRanges {
  int32_t* first = nullptr;
  int32_t* end = nullptr;
};

// Writes what the batch says of a row's queries to `ranges`.
inline void find_ranges(const AttentionSizes& s, const KeyRule& rule, const KeyRanges& ranges) {
  const auto t = static_cast<int32_t>(s.t);
  auto run_end = [](const int32_t* ids, int32_t begin, int32_t most) {
    int32_t end = begin;
    while (end < most && ids[end] == ids[begin]) ++end;
    return end;
  };
  for (int32_t begin = 0; begin < t;) {
    const int32_t end = rule.segments ? run_end(rule.segments, begin, t) : t;
    for (int32_t query = begin; query < end; ++query) {
      const auto earliest = static_cast<int32_t>(std::max<int64_t>(begin, query - s.window + 1));
      ranges.first[query] = s.is_full ? begin : earliest;
      ranges.end[query] = s.is_full ? end : query + 1;
    }
    for (int32_t block = begin; rule.blocks && block < end;) {
      const int32_t block_end = run_end(rule.blocks, block, end);
      for (int32_t query = block; rule.blocks[block] != 0 && query < block_end; ++query) {
        ranges.first[query] = std::min(ranges.first[query], block);
        ranges.end[query] = block_end;
      }
      block = block_end;
    }
    begin = end;
  }
}

// A query of one row of the batch sees the keys [first(query), end(query)). Neither decreases from
// a query to the next.
class VisibleKeys {
 public:
  // `ranges` is what find_ranges writes; nulls where the batch says nothing.
  VisibleKeys(const AttentionSizes& s, const KeyRanges& ranges)
      : length_(s.t), window_(s.window), is_full_(s.is_full), ranges_(ranges) {}

  LONGSHORE_INLINE int64_t first(int64_t query) const {
    if (ranges_.first) return ranges_.first[query];
    return is_full_ ? 0 : std::max<int64_t>(0, query - window_ + 1);
  }
  LONGSHORE_INLINE int64_t end(int64_t query) const {
    if (ranges_.end) return ranges_.end[query];
    return is_full_ ? length_ : query + 1;
  }

 private:
  int64_t length_, window_;
  bool is_full_;
  KeyRanges ranges_;
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
  int64_t end = round_up(visible.end(row + rows - 1), kTileRows);
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
