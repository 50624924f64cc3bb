// Experts' products of bfloat16 on a GPU's tensor cores.
#pragma once

#include "longshore/models/ops/grouped_linear/grouped_tiles.h"
#include "longshore/models/ops/kernels/tensor_cores.h"
#include "longshore/models/ops/kernels/vectors.h"

namespace longshore::models {

// A block has a tile, and each of its warps kWarpRows by kWarpColumns numbers of it. A and B have
// their terms one after the other, or else their rows and columns. Those that are one after the
// other are multiples of 8, and begin where 16 bytes do.
template <class Tiles, bool kAdjacentA, bool kAdjacentB, int kWarpRows>
struct GroupedTensorCoreBody {
  using C = typename Tiles::Sum;
  using Sums = WarpSums<kWarpRows>;
  static constexpr int kThreads = kBlockThreads;
  static constexpr int kStages = kWarpRows > 32 ? 2 : 4;  // of terms, one of which is computed with
  Tiles tiles;

  static LONGSHORE_DEVICE int warps_across(int threads) { return threads < 128 ? threads / 32 : 4; }
  static LONGSHORE_DEVICE TileSize size(int threads) {
    const int across = warps_across(threads);
    return {threads / 32 / across * kWarpRows, across * kWarpColumns};
  }
  static int64_t scratch_bytes(int threads) {
    const auto [rows, columns] = size(threads);
    return kStages * (rows + columns) * kTileTerms * static_cast<int64_t>(sizeof(bfloat16));
  }

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const TileSize size = this->size(group.threads());
    const ProductTile<bfloat16, C> tile = tiles(group, size, index);
    if (tile.m <= 0) return;
    const SharedTile<kAdjacentA> a_tile{static_cast<int>(size.rows)};
    const SharedTile<kAdjacentB> b_tile{static_cast<int>(size.columns)};
    bfloat16* scratch = group.template scratch<bfloat16>();
    auto a_of = [&](int64_t step) {
      return scratch + step % kStages * (a_tile.size() + b_tile.size());
    };
    auto fetch = [&](int64_t step) {
      const int64_t first = step * kTileTerms, terms = tile.k - first;
      if (terms > 0) {
        copy(group, a_tile, tile.a + first * tile.a_term, tile.a_row, tile.a_term, tile.m, terms,
             a_of(step));
        copy(group, b_tile, tile.b + first * tile.b_term, tile.b_column, tile.b_term, tile.n, terms,
             a_of(step) + a_tile.size());
      }
      end_copies();
    };
    auto sums = group.template own<Sums>();
    group.for_each(group.threads(), [&](int64_t thread) { sums[thread] = {}; });
    for (int64_t step = 0; step < kStages - 1; ++step) fetch(step);
    for (int64_t step = 0; step * kTileTerms < tile.k; ++step) {
      wait_for_copies<kStages - 2>();
      group.sync();
      fetch(step + kStages - 1);  // to where the step before has been computed with
      const int across = warps_across(group.threads());
      group.template split<32>([&](auto& warp, int number) {
        warp.for_each(32, [&](int64_t lane) {
          multiply_tile(sums[number * 32 + lane], static_cast<int>(lane), a_tile, a_of(step),
                        number / across * kWarpRows, b_tile, a_of(step) + a_tile.size(),
                        number % across * kWarpColumns);
        });
      });
    }
    store_sums(group, tile, sums);
  }

  template <class Group, bool kAdjacent>
  static LONGSHORE_BODY void copy(Group& group, SharedTile<kAdjacent> shared, const bfloat16* from,
                                  int64_t step, int64_t term_step, int64_t count, int64_t terms,
                                  bfloat16* to) {
    const int chunks = shared.line_chunks();
    group.for_each(shared.lines() * chunks, [&](int64_t i) {
      const int line = static_cast<int>(i) / chunks, chunk = static_cast<int>(i) % chunks;
      const bool is_there = kAdjacent ? line < count && chunk * kChunk < terms
                                      : line < terms && chunk * kChunk < count;
      copy_chunk(to + shared.place(line, chunk),
                 from + line * (kAdjacent ? step : term_step) + chunk * kChunk, is_there);
    });
  }

  template <class Group, class OfThreads>
  static LONGSHORE_BODY void store_sums(Group& group, const ProductTile<bfloat16, C>& tile,
                                        OfThreads& sums) {
    const int across = warps_across(group.threads());
    group.for_each(group.threads(), [&](int64_t thread) {
      const int lane = static_cast<int>(thread) % 32, warp = static_cast<int>(thread) / 32;
      const int first_row = warp / across * kWarpRows, first_column = warp % across * kWarpColumns;
      LONGSHORE_UNROLL(4)
      for (int m = 0; m < kWarpRows / 16; ++m) LONGSHORE_UNROLL(4)
      for (int n = 0; n < kWarpColumns / 8; ++n) LONGSHORE_UNROLL(2)
      for (int i = 0; i < 4; i += 2) {
        const int row = first_row + m * 16 + row_of_sum(lane, i);
        const int column = first_column + n * 8 + column_of_sum(lane, i);
        if (row >= tile.m || column >= tile.n) continue;
        const int64_t at = row * tile.c_row + column;
        float so_far[2] = {}, two[2];
        if (tile.so_far) load_vector(tile.so_far + at, so_far);
        for (int k = 0; k < 2; ++k) two[k] = so_far[k] + sums[thread].of[m][n][i + k];
        store_vector(tile.c + at, two);
      }
    });
  }
};

}  // namespace longshore::models
