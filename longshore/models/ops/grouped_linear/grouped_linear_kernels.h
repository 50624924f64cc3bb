// Our custom kernels on a GPU of experts' products. Terms are added up in order, in float32: what
// others' rows are changes no bit of an expert's.
#pragma once

#include "longshore/models/ir/op.h"
#include "longshore/models/ops/grouped_linear/grouped_tensor_core_body.h"
#include "longshore/models/ops/grouped_linear/grouped_tiles.h"
#include "longshore/models/ops/kernels/float_types.h"
#include "longshore/models/ops/kernels/numbers.h"
#include "longshore/models/ops/kernels/thread_group.h"
#include "longshore/models/ops/kernels/vectors.h"

namespace longshore::models {

GroupedRowsArguments grouped_linear_arguments(const KernelCall& call);
GroupedRowsArguments grouped_linear_input_grad_arguments(const KernelCall& call);
GroupedWeightsArguments grouped_linear_weight_grad_arguments(const KernelCall& call);
// Into a cudaStream_t; throw Error when the launch fails.
void launch_grouped_rows(const GroupedRowsArguments& arguments, void* stream);
void launch_grouped_weights(const GroupedWeightsArguments& arguments, void* stream);

// --- bodies, and how they are launched

// A block has a tile, and a thread 4 by 4 numbers of it. For float32, and for widths that
// tensor cores' tiles cannot take.
template <class Tiles>
struct GroupedProductBody {
  using T = typename Tiles::Type;
  using C = typename Tiles::Sum;
  static constexpr int kThreads = kBlockThreads;
  static constexpr int64_t kTerms = 16;  // that are in fast memory at a time
  static constexpr int64_t kOwn = 4;     // rows and columns of a thread
  static constexpr int64_t kColumns = 64;
  static constexpr int64_t kAcross = kColumns / kOwn;
  static constexpr int64_t kPadding = 4;  // or threads would read the same bank
  Tiles tiles;

  struct Sums {
    float of[kOwn][kOwn];
  };

  static LONGSHORE_DEVICE TileSize size(int threads) {
    return {threads / kAcross * kOwn, kColumns};
  }
  static int64_t scratch_bytes(int threads) {
    return kTerms * (size(threads).rows + kColumns + 2 * kPadding) *
           static_cast<int64_t>(sizeof(float));
  }

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const TileSize size = this->size(group.threads());
    const ProductTile<T, C> tile = tiles(group, size, index);
    if (tile.m <= 0) return;
    float* a = group.template scratch<float>();
    float* b = a + kTerms * (size.rows + kPadding);
    auto sums = group.template own<Sums>();
    group.for_each(group.threads(), [&](int64_t thread) { sums[thread] = {}; });
    for (int64_t first = 0; first < tile.k; first += kTerms) {
      const int64_t terms = least(kTerms, tile.k - first);
      fetch(group, tile.a + first * tile.a_term, tile.a_row, tile.a_term, tile.m, terms, size.rows,
            a);
      fetch(group, tile.b + first * tile.b_term, tile.b_column, tile.b_term, tile.n, terms,
            kColumns, b);
      group.sync();
      group.for_each(group.threads(), [&](int64_t thread) {
        const float* of_rows = a + thread / kAcross * kOwn;
        const float* of_columns = b + thread % kAcross * kOwn;
        for (int64_t term = 0; term < kTerms; ++term)
          for (int i = 0; i < kOwn; ++i)
            for (int j = 0; j < kOwn; ++j)
              sums[thread].of[i][j] += of_rows[term * (size.rows + kPadding) + i] *
                                       of_columns[term * (kColumns + kPadding) + j];
      });
      group.sync();
    }
    group.for_each(group.threads(), [&](int64_t thread) {
      const int64_t row = thread / kAcross * kOwn, column = thread % kAcross * kOwn;
      for (int64_t i = 0; i < least(kOwn, tile.m - row); ++i)
        for (int64_t j = 0; j < least(kOwn, tile.n - column); ++j) {
          const int64_t at = (row + i) * tile.c_row + column + j;
          const float so_far = tile.so_far ? load(tile.so_far[at]) : 0.f;
          store(tile.c[at], so_far + sums[thread].of[i][j]);
        }
    });
  }

  // As [term][row or column], zeros beyond `count` and `terms`. Neighbours are read together.
  template <class Group>
  static LONGSHORE_BODY void fetch(Group& group, const T* from, int64_t step, int64_t term_step,
                                   int64_t count, int64_t terms, int64_t room, float* to) {
    group.for_each(room * kTerms, [&](int64_t i) {
      const int64_t term = term_step == 1 ? i % kTerms : i / room;
      const int64_t at = term_step == 1 ? i / kTerms : i % room;
      const bool is_there = at < count && term < terms;
      to[term * (room + kPadding) + at] = is_there ? load(from[at * step + term * term_step]) : 0.f;
    });
  }
};

template <class Body, class Tiles, class Launcher>
void launch_body(const Tiles& tiles, const Launcher& launcher) {
  const int threads = launcher.template threads<Body>();
  launcher(Body{tiles}, tiles.tiles(Body::size(threads)), Body::scratch_bytes(threads));
}

// Where experts have so few rows, on average, tiles have fewer too.
inline constexpr int64_t kFewRows = 64;

template <bool kAdjacentB, class Launcher>
void launch_tensor_cores(const GroupedRowsArguments& a, const Launcher& launcher) {
  using Tiles = TilesOfRows<bfloat16>;
  if (a.rows <= kFewRows * a.experts)
    launch_body<GroupedTensorCoreBody<Tiles, true, kAdjacentB, 16>>(Tiles{a}, launcher);
  else
    launch_body<GroupedTensorCoreBody<Tiles, true, kAdjacentB, 64>>(Tiles{a}, launcher);
}

template <class Launcher>
void launch(const GroupedRowsArguments& a, const Launcher& launcher) {
  const bool fit = a.n % kChunk == 0 && a.k % kChunk == 0 && all_aligned({a.a, a.b, a.so_far, a.c});
  if (a.dtype == Dtype::bfloat16 && fit)
    return a.b_layout == Layout::transposed ? launch_tensor_cores<true>(a, launcher)
                                            : launch_tensor_cores<false>(a, launcher);
  with_float_type(a.dtype, [&]<class T>(T) {
    launch_body<GroupedProductBody<TilesOfRows<T>>>(TilesOfRows<T>{a}, launcher);
  });
}

template <class Launcher>
void launch(const GroupedWeightsArguments& a, const Launcher& launcher) {
  const bool fit = a.m % kChunk == 0 && a.n % kChunk == 0 && all_aligned({a.a, a.b, a.so_far, a.c});
  if (a.dtype == Dtype::bfloat16 && fit) {
    using Tiles = TilesOfWeights<bfloat16>;
    return launch_body<GroupedTensorCoreBody<Tiles, false, false, 64>>(Tiles{a}, launcher);
  }
  with_float_type(a.dtype, [&]<class T>(T) {
    launch_body<GroupedProductBody<TilesOfWeights<T>>>(TilesOfWeights<T>{a}, launcher);
  });
}

}  // namespace longshore::models
