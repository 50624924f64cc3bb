#include "models/ops/attention_loops.h"

#include <cmath>
#include <limits>

#include "models/ops/simd.h"

namespace longshore::models {
namespace {

// The columns of a tile that a query sees: [begin, end).
struct Columns {
  int64_t begin, end;
};

LONGSHORE_INLINE Columns visible_columns(const Tile& tile, const VisibleKeys& visible,
                                         int64_t row) {
  int64_t query = tile.row + row;
  return {std::clamp<int64_t>(visible.first(query) - tile.column, 0, tile.columns),
          std::clamp<int64_t>(visible.end(query) - tile.column, 0, tile.columns)};
}

template <class T>
LONGSHORE_INLINE void hide(const Tile& tile, Columns columns, T* row) {
  for (int64_t i = 0; i < columns.begin; ++i) store(row[i], 0.f);
  for (int64_t i = columns.end; i < tile.columns; ++i) store(row[i], 0.f);
}

LONGSHORE_INLINE void cap(Scoring scoring, Columns columns, float* products) {
  float inner = scoring.scale / scoring.soft_cap;
#pragma omp simd
  for (int64_t i = columns.begin; i < columns.end; ++i)
    products[i] = scoring.soft_cap * tanh_fast(products[i] * inner);
}

template <class T>
LONGSHORE_INLINE void softmax_body(const Tile& tile, const VisibleKeys& visible, Scoring scoring,
                                   bool first, float* products, T* p, const SoftmaxRows& rows,
                                   int64_t d) {
  float* out = rows.out;
  float scale = scoring.soft_cap > 0 ? 1.f : scoring.scale;
  for (int64_t r = 0; r < tile.rows; ++r, products += tile.columns, p += tile.columns, out += d) {
    Columns columns = visible_columns(tile, visible, r);
    if (columns.begin < columns.end) {
      if (scoring.soft_cap > 0) cap(scoring, columns, products);
      float tile_largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : tile_largest)
      for (int64_t i = columns.begin; i < columns.end; ++i)
        tile_largest = products[i] > tile_largest ? products[i] : tile_largest;
      float now = std::max(rows.largest[r], tile_largest * scale);
      float correction = exp_fast(rows.largest[r] - now), tile_sum = 0;
#pragma omp simd reduction(+ : tile_sum)
      for (int64_t i = columns.begin; i < columns.end; ++i) {
        float e = exp_fast(products[i] * scale - now);
        tile_sum += e;
        store(p[i], e);
      }
      rows.largest[r] = now;
      rows.sum[r] = rows.sum[r] * correction + tile_sum;
      if (!first) {
#pragma omp simd
        for (int64_t i = 0; i < d; ++i) out[i] *= correction;
      }
    }
    hide(tile, columns, p);
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

template <class T>
LONGSHORE_INLINE void dscores_row(float scale, Columns columns, const float* products,
                                  const float* dp, float log_sum_exp, float delta, T* p, T* ds) {
#pragma omp simd
  for (int64_t i = columns.begin; i < columns.end; ++i) {
    float e = exp_fast(products[i] * scale - log_sum_exp);
    float slope = scale * e * (dp[i] - delta);
    store(p[i], e);
    store(ds[i], slope);
  }
}

// The derivative of cap*tanh(s/cap) is 1 - tanh(s/cap)^2.
template <class T>
LONGSHORE_INLINE void dscores_capped_row(Scoring scoring, Columns columns, const float* products,
                                         const float* dp, float log_sum_exp, float delta, T* p,
                                         T* ds) {
  float inner = scoring.scale / scoring.soft_cap;
#pragma omp simd
  for (int64_t i = columns.begin; i < columns.end; ++i) {
    float capped = tanh_fast(products[i] * inner);
    float e = exp_fast(capped * scoring.soft_cap - log_sum_exp);
    float slope = scoring.scale * e * (dp[i] - delta) * ((1.f - capped) * (1.f + capped));
    store(p[i], e);
    store(ds[i], slope);
  }
}

template <class T>
LONGSHORE_INLINE void dscores_body(const Tile& tile, const VisibleKeys& visible, Scoring scoring,
                                   const float* products, const float* dp, const GradientRows& rows,
                                   T* p, T* ds) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    Columns columns = visible_columns(tile, visible, r);
    float log_sum_exp = rows.log_sum_exp[r], delta = rows.delta[r];
    if (scoring.soft_cap > 0)
      dscores_capped_row(scoring, columns, products, dp, log_sum_exp, delta, p, ds);
    else
      dscores_row(scoring.scale, columns, products, dp, log_sum_exp, delta, p, ds);
    hide(tile, columns, p);
    hide(tile, columns, ds);
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
                                   const float* products, const float* dp,                        \
                                   const GradientRows& rows, T* p, T* ds) {                       \
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
