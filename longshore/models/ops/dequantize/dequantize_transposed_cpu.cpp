#include <emmintrin.h>

#include <algorithm>
#include <cstring>

#include "longshore/models/ops/dequantize/dequantize_cpu.h"
#include "longshore/models/ops/dequantize/dequantize_cpu_body.h"
#include "longshore/models/ops/kernels/transpose_square.h"

namespace longshore::models {
namespace {

// The first cache holds a tile. Each of its columns is two lines of the transposed matrix.
constexpr int64_t kTileColumns = 128;
template <class T>
constexpr int64_t kTileRows = 128 / sizeof(T);
// So many bytes no cache holds until they are read: they are written past the caches, since what a
// cache is to hold must be read from memory first.
constexpr int64_t kPastCaches = 32 << 20;

template <class T>
struct Tile {
  alignas(64) T numbers[kTileRows<T>][kTileColumns] = {};
  alignas(64) T columns[kVectorOf<T>][kTileRows<T>];  // some, of a tile that is not whole
  MatrixPlace corner;
  int64_t height, width;  // of what is in the matrix
};

template <class T>
LONGSHORE_INLINE void tile_body(const DequantizeArguments& a, const QuantizedView& view,
                                bool past_caches, Tile<T>& tile, T* out) {
  constexpr int kSide = kVectorOf<T>;
  const auto [row, column] = tile.corner;
  numbers_body(a, view, {.first = tile.corner, .count = tile.width, .rows = tile.height},
               tile.numbers[0], kTileColumns);
  const bool is_whole = tile.height == kTileRows<T> && tile.width == kTileColumns;
  for (int64_t left = 0; left < tile.width; left += kSide) {
    const T* from = &tile.numbers[0][left];
    T* to = out + (column + left) * a.matrix.rows + row;
    if (is_whole && past_caches) {
      for (int64_t top = 0; top < kTileRows<T>; top += kSide)
        transpose_square<true>(from + top * kTileColumns, kTileColumns, to + top, a.matrix.rows);
    } else if (is_whole) {
      for (int64_t top = 0; top < kTileRows<T>; top += kSide)
        transpose_square<false>(from + top * kTileColumns, kTileColumns, to + top, a.matrix.rows);
    } else {
      for (int64_t top = 0; top < tile.height; top += kSide)
        transpose_square<false>(from + top * kTileColumns, kTileColumns, &tile.columns[0][top],
                                kTileRows<T>);
      for (int64_t i = 0; i < std::min<int64_t>(kSide, tile.width - left); ++i)
        std::memcpy(to + i * a.matrix.rows, tile.columns[i], tile.height * sizeof(T));
    }
  }
}

LONGSHORE_SIMD void dequantize_tile(const DequantizeArguments& a, const QuantizedView& view,
                                    bool past_caches, Tile<float>& tile, float* out) {
  tile_body(a, view, past_caches, tile, out);
}
LONGSHORE_SIMD void dequantize_tile(const DequantizeArguments& a, const QuantizedView& view,
                                    bool past_caches, Tile<bfloat16>& tile, bfloat16* out) {
  tile_body(a, view, past_caches, tile, out);
}

template <class T>
void run(const DequantizeArguments& a) {
  const auto [rows, columns] = std::pair(a.matrix.rows, a.matrix.columns);
  const int64_t down = ceil_div(rows, kTileRows<T>), across = ceil_div(columns, kTileColumns);
  const bool past_caches = a.matrices * a.matrix.count() * sizeof(T) > kPastCaches &&
                           rows % kVectorOf<T> == 0 && all_aligned({a.out});
  parallel_ranges(a.matrices * across * down, [&](int64_t begin, int64_t end) {
    Tile<T> tile;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t matrix = i / (across * down);
      tile.corner = {i % down * kTileRows<T>, i / down % across * kTileColumns};
      tile.height = std::min(kTileRows<T>, rows - tile.corner.row);
      tile.width = std::min(kTileColumns, columns - tile.corner.column);
      dequantize_tile(a, view_of(a, matrix), past_caches, tile,
                      static_cast<T*>(a.out) + matrix * a.matrix.count());
    }
    _mm_sfence();  // others read it next
  });
}

}  // namespace

void run_dequantize_transposed_cpu(const DequantizeArguments& a) {
  with_float_type(a.dtype, [&]<class T>(T) { run<T>(a); });
}

}  // namespace longshore::models
