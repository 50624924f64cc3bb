#include "longshore/models/ops/attention/attention_loops.h"

#include <cmath>
#include <limits>

#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

// The columns of a tile that a query sees: [begin, end).
struct Columns {
  int32_t begin, end;
};

LONGSHORE_INLINE Columns visible_columns(const Tile& tile, const VisibleKeys& visible,
                                         int64_t row) {
  int64_t query = tile.row + row;
  auto column = [&](int64_t key) {
    return static_cast<int32_t>(std::clamp<int64_t>(key - tile.column, 0, tile.columns));
  };
  return {column(visible.first(query)), column(visible.end(query))};
}

LONGSHORE_INLINE Columns whole(const Tile& tile) { return {0, static_cast<int32_t>(tile.columns)}; }

// The visible columns and their neighbours, as whole vectors: loops without remainders are worth
// more than what they compute for nothing.
LONGSHORE_INLINE Columns whole_vectors(const Tile& tile, Columns visible) {
  constexpr int32_t kVector = 32;
  if (visible.begin == visible.end) return visible;
  return {visible.begin / kVector * kVector,
          std::min(static_cast<int32_t>(tile.columns),
                   (visible.end + kVector - 1) / kVector * kVector)};
}

// `value` in the columns of a row from which others hide the query's keys.
template <class T>
LONGSHORE_INLINE void hide(Columns seen, Columns row, float value, T* to) {
  for (int32_t i = row.begin; i < seen.begin; ++i) store(to[i], value);
  for (int32_t i = seen.end; i < row.end; ++i) store(to[i], value);
}

LONGSHORE_INLINE void cap(Scoring scoring, Columns columns, float* products) {
  float inner = scoring.scale / scoring.soft_cap;
#pragma omp simd
  for (int64_t i = columns.begin; i < columns.end; ++i)
    products[i] = scoring.soft_cap * tanh_fast(products[i] * inner);
}

// What was computed in place of the products, to where it belongs. A loop of its own: one that
// narrows what it has just computed is twice as slow.
template <class T>
LONGSHORE_INLINE void place(const float* computed, Columns columns, T* to) {
  if (static_cast<const void*>(computed) == to) return;
#pragma omp simd
  for (int32_t i = columns.begin; i < columns.end; ++i) store(to[i], computed[i]);
}

template <class T>
LONGSHORE_INLINE void softmax_body(const Tile& tile, const VisibleKeys& visible, Scoring scoring,
                                   bool first, float* products, T* p, const SoftmaxRows& rows,
                                   int64_t d) {
  float* out = rows.out;
  float scale = scoring.soft_cap > 0 ? 1.f : scoring.scale;
  for (int64_t r = 0; r < tile.rows; ++r, products += tile.columns, p += tile.columns, out += d) {
    const Columns seen = visible_columns(tile, visible, r), worked = whole_vectors(tile, seen);
    if (seen.begin < seen.end) {
      if (scoring.soft_cap > 0) cap(scoring, worked, products);
      constexpr float kLeast = -std::numeric_limits<float>::infinity();
      hide(seen, worked, kLeast, products);
      float tile_largest = kLeast;
#pragma omp simd reduction(max : tile_largest)
      for (int32_t i = worked.begin; i < worked.end; ++i)
        tile_largest = products[i] > tile_largest ? products[i] : tile_largest;
      float now = std::max(rows.largest[r], tile_largest * scale);
      float correction = exp_fast(rows.largest[r] - now), tile_sum = 0;
#pragma omp simd reduction(+ : tile_sum)
      for (int32_t i = worked.begin; i < worked.end; ++i) {
        products[i] = exp_fast(products[i] * scale - now);
        tile_sum += products[i];
      }
      place(products, worked, p);
      rows.largest[r] = now;
      rows.sum[r] = rows.sum[r] * correction + tile_sum;
      if (!first) {
#pragma omp simd
        for (int64_t i = 0; i < d; ++i) out[i] *= correction;
      }
    }
    hide(worked, whole(tile), 0.f, p);
  }
}

template <class T>
LONGSHORE_INLINE void finish_body(const SoftmaxRows& from, T* context, int64_t stride,
                                  float* log_sum_exp, int64_t rows, int64_t d) {
  const float* out = from.out;
  for (int64_t r = 0; r < rows; ++r, out += d, context += stride) {
    float inverse = 1.f / from.sum[r];
#pragma omp simd
    for (int64_t i = 0; i < d; ++i) store(context[i], out[i] * inverse);
    log_sum_exp[r] = from.largest[r] + std::log(from.sum[r]);
  }
}

template <class T>
LONGSHORE_INLINE void delta_body(const T* dout, const T* out, int64_t stride, float* delta,
                                 int64_t rows, int64_t d) {
  for (int64_t r = 0; r < rows; ++r, dout += d, out += stride) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < d; ++i) sum += load(dout[i]) * load(out[i]);
    delta[r] = sum;
  }
}

// Turns one row's products to P and its dP to dS, in place.
LONGSHORE_INLINE void dscores_row(float scale, Columns worked, float log_sum_exp, float delta,
                                  float* products, float* dp) {
#pragma omp simd
  for (int32_t i = worked.begin; i < worked.end; ++i) {
    const float e = exp_fast(products[i] * scale - log_sum_exp);
    dp[i] = scale * e * (dp[i] - delta);
    products[i] = e;
  }
}

// The derivative of cap*tanh(s/cap) is 1 - tanh(s/cap)^2.
LONGSHORE_INLINE void dscores_capped_row(Scoring scoring, Columns worked, float log_sum_exp,
                                         float delta, float* products, float* dp) {
  const float inner = scoring.scale / scoring.soft_cap;
#pragma omp simd
  for (int32_t i = worked.begin; i < worked.end; ++i) {
    const float capped = tanh_fast(products[i] * inner);
    const float e = exp_fast(capped * scoring.soft_cap - log_sum_exp);
    dp[i] = scoring.scale * e * (dp[i] - delta) * ((1.f - capped) * (1.f + capped));
    products[i] = e;
  }
}

template <class T>
LONGSHORE_INLINE void dscores_body(const Tile& tile, const VisibleKeys& visible, Scoring scoring,
                                   float* products, float* dp, const GradientRows& rows, T* p,
                                   T* ds) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    const Columns seen = visible_columns(tile, visible, r), worked = whole_vectors(tile, seen);
    const float log_sum_exp = rows.log_sum_exp[r], delta = rows.delta[r];
    if (scoring.soft_cap > 0)
      dscores_capped_row(scoring, worked, log_sum_exp, delta, products, dp);
    else
      dscores_row(scoring.scale, worked, log_sum_exp, delta, products, dp);
    place(products, worked, p);
    place(dp, worked, ds);
    hide(seen, whole(tile), 0.f, p);
    hide(seen, whole(tile), 0.f, ds);
    products += tile.columns, dp += tile.columns, p += tile.columns, ds += tile.columns;
  }
}

template <class T>
LONGSHORE_INLINE void narrow_body(const float* from, T* to, int64_t stride, int64_t rows,
                                  int64_t d) {
  for (int64_t r = 0; r < rows; ++r, from += d, to += stride) {
#pragma omp simd
    for (int64_t i = 0; i < d; ++i) store(to[i], from[i]);
  }
}

}  // namespace

#define LONGSHORE_ATTENTION_LOOPS(T)                                                              \
  LONGSHORE_SIMD void softmax_tile(const Tile& tile, const VisibleKeys& visible, Scoring scoring, \
                                   bool first, float* products, T* p, const SoftmaxRows& rows,    \
                                   int64_t d) {                                                   \
    softmax_body(tile, visible, scoring, first, products, p, rows, d);                            \
  }                                                                                               \
  LONGSHORE_SIMD void finish_rows(const SoftmaxRows& from, T* context, int64_t stride,            \
                                  float* log_sum_exp, int64_t rows, int64_t d) {                  \
    finish_body(from, context, stride, log_sum_exp, rows, d);                                     \
  }                                                                                               \
  LONGSHORE_SIMD void delta_rows(const T* dout, const T* out, int64_t stride, float* delta,       \
                                 int64_t rows, int64_t d) {                                       \
    delta_body(dout, out, stride, delta, rows, d);                                                \
  }                                                                                               \
  LONGSHORE_SIMD void dscores_tile(const Tile& tile, const VisibleKeys& visible, Scoring scoring, \
                                   float* products, float* dp, const GradientRows& rows, T* p,    \
                                   T* ds) {                                                       \
    dscores_body(tile, visible, scoring, products, dp, rows, p, ds);                              \
  }                                                                                               \
  LONGSHORE_SIMD void narrow_rows(const float* from, T* to, int64_t stride, int64_t rows,         \
                                  int64_t d) {                                                    \
    narrow_body(from, to, stride, rows, d);                                                       \
  }
LONGSHORE_ATTENTION_LOOPS(float)
LONGSHORE_ATTENTION_LOOPS(bfloat16)
#undef LONGSHORE_ATTENTION_LOOPS

}  // namespace longshore::models
