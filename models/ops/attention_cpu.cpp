// Attention on the CPU: tiles of scores by oneDNN, softmax by our own loops, a head (forward) or a
// key/value head with its query heads (backward) to a thread. A head's rows are gathered first:
// oneDNN's fast kernels want them adjacent.
//
// B batch, T length, H query heads, G key/value heads, D head_dim; a tile is R rows (queries) by
// S columns (keys).
#include <algorithm>
#include <cmath>
#include <limits>

#include "models/ops/attention_kernels.h"
#include "models/ops/onednn_matmul.h"
#include "models/ops/simd.h"

namespace longshore::models {
namespace {

constexpr int64_t kRows = 128;
constexpr int64_t kForwardColumns = 512;
constexpr int64_t kBackwardColumns = 256;

struct Sizes {
  int64_t b, t, h, g, d;
  Dtype dtype;
  float scale;

  Sizes(const std::any& attrs, const Type& q, const Type& k)
      : b(q.shape[0]),
        t(q.shape[1]),
        h(q.shape[2] / std::any_cast<const AttentionAttrs&>(attrs).head_dim),
        g(k.shape[2] / std::any_cast<const AttentionAttrs&>(attrs).head_dim),
        d(std::any_cast<const AttentionAttrs&>(attrs).head_dim),
        dtype(q.dtype),
        scale(1.f / std::sqrt(static_cast<float>(d))) {}

  int64_t q_stride() const { return h * d; }
  int64_t k_stride() const { return g * d; }
  // Queries from `row` on see keys up to their own.
  int64_t visible_keys(int64_t row, int64_t rows) const { return std::min(t, row + rows); }
};

struct Tile {
  int64_t row, rows, column, columns;
};

// Tiles in the order a head visits them: all columns of one block of rows, or all rows of one
// block of columns.
template <class F>
void tiles_by_row(const Sizes& s, F f) {
  for (int64_t row = 0; row < s.t; row += kRows) {
    int64_t rows = std::min(kRows, s.t - row), keys = s.visible_keys(row, rows);
    for (int64_t column = 0; column < keys; column += kForwardColumns)
      f(Tile{row, rows, column, std::min(kForwardColumns, keys - column)});
  }
}

template <class F>
void tiles_by_column(const Sizes& s, F f) {
  for (int64_t column = 0; column < s.t; column += kBackwardColumns) {
    int64_t block = std::min(kBackwardColumns, s.t - column);
    for (int64_t row = column / kRows * kRows; row < s.t; row += kRows) {
      int64_t rows = std::min(kRows, s.t - row);
      f(Tile{row, rows, column, std::min(block, s.visible_keys(row, rows) - column)});
    }
  }
}

// --- the products of one tile, all on the calling thread

Matmul product(const Sizes& s, int64_t m, int64_t n, int64_t k, Layout a, Layout b, Into into) {
  return {.m = m,
          .n = n,
          .k = k,
          .ab = s.dtype,
          .c = Dtype::float32,
          .a_layout = a,
          .b_layout = b,
          .into = into,
          .threads = Threads::one};
}

// scores[R,S] = Q·Kᵀ, and likewise dP = dO·Vᵀ.
Matmul scores_product(const Sizes& s, const Tile& tile) {
  return product(s, tile.rows, tile.columns, s.d, Layout::plain, Layout::transposed,
                 Into::overwrite);
}

// out[R,D] += P[R,S]·V, and dQ += dS·K.
Matmul rows_product(const Sizes& s, const Tile& tile, Into into) {
  return product(s, tile.rows, s.d, tile.columns, Layout::plain, Layout::plain, into);
}

// dV[S,D] += Pᵀ·dO, and dK += dSᵀ·Q.
Matmul columns_product(const Sizes& s, const Tile& tile) {
  return product(s, tile.columns, s.d, tile.rows, Layout::transposed, Layout::plain, Into::add);
}

// --- memory of one thread

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

int64_t threads_of(int64_t tasks) { return std::min<int64_t>(omp_get_max_threads(), tasks); }

// Hands out consecutive parts of a workspace; without one it only adds up their bytes.
class Parts {
 public:
  explicit Parts(std::byte* base) : base_(base) {}

  template <class T>
  T* take(int64_t count) {
    T* part = base_ ? reinterpret_cast<T*>(base_ + bytes_) : nullptr;
    bytes_ += aligned(count * static_cast<int64_t>(sizeof(T)));
    return part;
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  int64_t bytes_ = 0;
};

template <class T>
struct ForwardParts {
  T *q, *k, *v, *probabilities;
  float *scores, *out, *largest, *sum;
  std::span<std::byte> scratch;
  int64_t bytes;

  ForwardParts(const Sizes& s, std::byte* base) {
    int64_t rows = std::min(kRows, s.t), columns = std::min(kForwardColumns, s.t), need = 0;
    tiles_by_row(s, [&](const Tile& tile) {
      need = std::max({need, workspace_bytes(scores_product(s, tile)),
                       workspace_bytes(rows_product(s, tile, Into::add))});
    });
    Parts parts(base);
    q = parts.take<T>(s.t * s.d);
    k = parts.take<T>(s.t * s.d);
    v = parts.take<T>(s.t * s.d);
    scores = parts.take<float>(rows * columns);
    probabilities = sizeof(T) == 4 ? reinterpret_cast<T*>(scores) : parts.take<T>(rows * columns);
    out = parts.take<float>(rows * s.d);
    largest = parts.take<float>(rows);
    sum = parts.take<float>(rows);
    scratch = {parts.take<std::byte>(need), static_cast<size_t>(need)};
    bytes = parts.bytes();
  }
};

template <class T>
struct BackwardParts {
  T *q, *k, *v, *dout, *probabilities, *ds;
  float *scores, *dp, *dq, *dk, *dv, *delta;
  std::span<std::byte> scratch;
  int64_t bytes;

  BackwardParts(const Sizes& s, std::byte* base) {
    int64_t tile_count = std::min(kRows, s.t) * std::min(kBackwardColumns, s.t), need = 0;
    tiles_by_column(s, [&](const Tile& tile) {
      need = std::max({need, workspace_bytes(scores_product(s, tile)),
                       workspace_bytes(rows_product(s, tile, Into::add)),
                       workspace_bytes(columns_product(s, tile))});
    });
    Parts parts(base);
    q = parts.take<T>(s.t * s.d);
    k = parts.take<T>(s.t * s.d);
    v = parts.take<T>(s.t * s.d);
    dout = parts.take<T>(s.t * s.d);
    scores = parts.take<float>(tile_count);
    dp = parts.take<float>(tile_count);
    bool narrow = sizeof(T) < sizeof(float);
    probabilities = narrow ? parts.take<T>(tile_count) : reinterpret_cast<T*>(scores);
    ds = narrow ? parts.take<T>(tile_count) : reinterpret_cast<T*>(dp);
    dq = parts.take<float>(s.t * s.d);
    dk = parts.take<float>(s.t * s.d);
    dv = parts.take<float>(s.t * s.d);
    delta = parts.take<float>(s.t);
    scratch = {parts.take<std::byte>(need), static_cast<size_t>(need)};
    bytes = parts.bytes();
  }
};

// --- loops

// One tile's scores to probabilities relative to the largest score so far; earlier results are
// rescaled to it. `out` is [R,D].
template <class T>
LONGSHORE_INLINE void softmax_body(const Tile& tile, float scale, const float* scores, T* p,
                                   float* largest, float* sum, float* out, int64_t d) {
  for (int64_t r = 0; r < tile.rows; ++r, scores += tile.columns, p += tile.columns, out += d) {
    int64_t visible = std::clamp<int64_t>(tile.row + r - tile.column + 1, 0, tile.columns);
    float tile_largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : tile_largest)
    for (int64_t i = 0; i < visible; ++i)
      tile_largest = scores[i] > tile_largest ? scores[i] : tile_largest;
    if (visible > 0) {
      float now = std::max(largest[r], tile_largest * scale);
      float correction = exp_fast(largest[r] - now), tile_sum = 0;
#pragma omp simd reduction(+ : tile_sum)
      for (int64_t i = 0; i < visible; ++i) {
        float e = exp_fast(scores[i] * scale - now);
        tile_sum += e;
        store(p[i], e);
      }
      largest[r] = now;
      sum[r] = sum[r] * correction + tile_sum;
      if (tile.column > 0) {
#pragma omp simd
        for (int64_t i = 0; i < d; ++i) out[i] *= correction;
      }
    }
    for (int64_t i = visible; i < tile.columns; ++i) store(p[i], 0.f);
  }
}

template <class T>
LONGSHORE_INLINE void finish_body(const float* out, const float* largest, const float* sum,
                                  T* context, int64_t stride, float* log_sum_exp, int64_t rows,
                                  int64_t d) {
  for (int64_t r = 0; r < rows; ++r, out += d, context += stride) {
    float inverse = 1.f / sum[r];
#pragma omp simd
    for (int64_t i = 0; i < d; ++i) store(context[i], out[i] * inverse);
    log_sum_exp[r] = largest[r] + std::log(sum[r]);
  }
}

// delta[r] = sum of dO*O over a row; rows of dO are adjacent.
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

// P = exp(scale*scores - log_sum_exp), dS = scale * P * (dP - delta); either may lie in place.
template <class T>
LONGSHORE_INLINE void dscores_body(const Tile& tile, float scale, const float* scores,
                                   const float* dp, const float* log_sum_exp, const float* delta,
                                   T* p, T* ds) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    int64_t visible = std::clamp<int64_t>(tile.row + r - tile.column + 1, 0, tile.columns);
#pragma omp simd
    for (int64_t i = 0; i < visible; ++i) {
      float e = exp_fast(scores[i] * scale - log_sum_exp[r]);
      float slope = scale * e * (dp[i] - delta[r]);
      store(p[i], e);
      store(ds[i], slope);
    }
    for (int64_t i = visible; i < tile.columns; ++i) {
      store(p[i], 0.f);
      store(ds[i], 0.f);
    }
    scores += tile.columns, dp += tile.columns, p += tile.columns, ds += tile.columns;
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

#define LONGSHORE_ATTENTION_LOOPS(T)                                                              \
  LONGSHORE_SIMD void softmax_tile(const Tile& tile, float scale, const float* scores, T* p,      \
                                   float* largest, float* sum, float* out, int64_t d) {           \
    softmax_body(tile, scale, scores, p, largest, sum, out, d);                                   \
  }                                                                                               \
  LONGSHORE_SIMD void finish_rows(const float* out, const float* largest, const float* sum,       \
                                  T* context, int64_t stride, float* log_sum_exp, int64_t rows,   \
                                  int64_t d) {                                                    \
    finish_body(out, largest, sum, context, stride, log_sum_exp, rows, d);                        \
  }                                                                                               \
  LONGSHORE_SIMD void delta_rows(const T* dout, const T* out, int64_t stride, float* delta,       \
                                 int64_t rows, int64_t d) {                                       \
    delta_body(dout, out, stride, delta, rows, d);                                                \
  }                                                                                               \
  LONGSHORE_SIMD void dscores_tile(const Tile& tile, float scale, const float* scores,            \
                                   const float* dp, const float* log_sum_exp, const float* delta, \
                                   T* p, T* ds) {                                                 \
    dscores_body(tile, scale, scores, dp, log_sum_exp, delta, p, ds);                             \
  }                                                                                               \
  LONGSHORE_SIMD void narrow_rows(const float* from, T* to, int64_t stride, int64_t rows,         \
                                  int64_t d) {                                                    \
    narrow_body(from, to, stride, rows, d);                                                       \
  }
LONGSHORE_ATTENTION_LOOPS(float)
LONGSHORE_ATTENTION_LOOPS(bfloat16)
#undef LONGSHORE_ATTENTION_LOOPS

// --- one head

template <class T>
void gather(const T* from, int64_t stride, T* to, const Sizes& s) {
  for (int64_t row = 0; row < s.t; ++row) std::copy_n(from + row * stride, s.d, to + row * s.d);
}

template <class T>
void forward_head(const Sizes& s, const ForwardParts<T>& parts, T* context, float* log_sum_exp) {
  tiles_by_row(s, [&](const Tile& tile) {
    if (tile.column == 0) {
      std::fill_n(parts.largest, tile.rows, -std::numeric_limits<float>::infinity());
      std::fill_n(parts.sum, tile.rows, 0.f);
    }
    run(scores_product(s, tile), parts.q + tile.row * s.d, parts.k + tile.column * s.d,
        parts.scores, parts.scratch);
    softmax_tile(tile, s.scale, parts.scores, parts.probabilities, parts.largest, parts.sum,
                 parts.out, s.d);
    run(rows_product(s, tile, tile.column == 0 ? Into::overwrite : Into::add), parts.probabilities,
        parts.v + tile.column * s.d, parts.out, parts.scratch);
    if (tile.column + tile.columns == s.visible_keys(tile.row, tile.rows))
      finish_rows(parts.out, parts.largest, parts.sum, context + tile.row * s.q_stride(),
                  s.q_stride(), log_sum_exp + tile.row, tile.rows, s.d);
  });
}

// `out` and `dq` lie as the op's operands do. Adds to parts.dk and parts.dv, which all query heads
// of a key/value head share.
template <class T>
void backward_head(const Sizes& s, const BackwardParts<T>& parts, const T* out,
                   const float* log_sum_exp, T* dq) {
  delta_rows(parts.dout, out, s.q_stride(), parts.delta, s.t, s.d);
  std::fill_n(parts.dq, s.t * s.d, 0.f);
  tiles_by_column(s, [&](const Tile& tile) {
    const T *q_tile = parts.q + tile.row * s.d, *dout_tile = parts.dout + tile.row * s.d;
    const T *k_tile = parts.k + tile.column * s.d, *v_tile = parts.v + tile.column * s.d;
    run(scores_product(s, tile), q_tile, k_tile, parts.scores, parts.scratch);
    run(scores_product(s, tile), dout_tile, v_tile, parts.dp, parts.scratch);
    dscores_tile(tile, s.scale, parts.scores, parts.dp, log_sum_exp + tile.row,
                 parts.delta + tile.row, parts.probabilities, parts.ds);
    run(columns_product(s, tile), parts.probabilities, dout_tile, parts.dv + tile.column * s.d,
        parts.scratch);
    run(columns_product(s, tile), parts.ds, q_tile, parts.dk + tile.column * s.d, parts.scratch);
    run(rows_product(s, tile, Into::add), parts.ds, k_tile, parts.dq + tile.row * s.d,
        parts.scratch);
  });
  narrow_rows(parts.dq, dq, s.q_stride(), s.t, s.d);
}

}  // namespace

int64_t attention_cpu_workspace(const std::any& attrs, std::span<const Type> in,
                                std::span<const Type>) {
  Sizes s(attrs, in[0], in[1]);
  int64_t bytes = 0;
  with_float_type(s.dtype, [&]<class T>(T) { bytes = ForwardParts<T>(s, nullptr).bytes; });
  return threads_of(s.b * s.h) * bytes;
}

int64_t attention_grad_cpu_workspace(const std::any& attrs, std::span<const Type> in,
                                     std::span<const Type>) {
  Sizes s(attrs, in[1], in[2]);
  int64_t bytes = 0;
  with_float_type(s.dtype, [&]<class T>(T) { bytes = BackwardParts<T>(s, nullptr).bytes; });
  return threads_of(s.b * s.g) * bytes;
}

void attention_cpu(const KernelCall& call) {
  Sizes s(call.attrs, call.in[0].type, call.in[1].type);
  int64_t tasks = s.b * s.h, threads = threads_of(tasks);
  int64_t share_bytes = static_cast<int64_t>(call.workspace.size()) / threads;
  with_float_type(s.dtype, [&]<class T>(T) {
    parallel_shares(threads, [&](int64_t, int64_t first_share, int64_t last_share) {
      for (int64_t share = first_share; share < last_share; ++share) {
        ForwardParts<T> parts(s, call.workspace.data() + share * share_bytes);
        for (int64_t task = tasks * share / threads; task < tasks * (share + 1) / threads; ++task) {
          int64_t b = task / s.h, h = task % s.h, g = h / (s.h / s.g);
          int64_t at = b * s.t * s.q_stride() + h * s.d, kv = b * s.t * s.k_stride() + g * s.d;
          gather(call.in[0].as<T>() + at, s.q_stride(), parts.q, s);
          gather(call.in[1].as<T>() + kv, s.k_stride(), parts.k, s);
          gather(call.in[2].as<T>() + kv, s.k_stride(), parts.v, s);
          forward_head<T>(s, parts, call.out[0].as<T>() + at, call.out[1].as<float>() + task * s.t);
        }
      }
    });
  });
}

void attention_grad_cpu(const KernelCall& call) {
  Sizes s(call.attrs, call.in[1].type, call.in[2].type);
  int64_t tasks = s.b * s.g, threads = threads_of(tasks), group = s.h / s.g;
  int64_t share_bytes = static_cast<int64_t>(call.workspace.size()) / threads;
  with_float_type(s.dtype, [&]<class T>(T) {
    parallel_shares(threads, [&](int64_t, int64_t first_share, int64_t last_share) {
      for (int64_t share = first_share; share < last_share; ++share) {
        BackwardParts<T> parts(s, call.workspace.data() + share * share_bytes);
        for (int64_t task = tasks * share / threads; task < tasks * (share + 1) / threads; ++task) {
          int64_t b = task / s.g, g = task % s.g;
          int64_t kv = b * s.t * s.k_stride() + g * s.d;
          gather(call.in[2].as<T>() + kv, s.k_stride(), parts.k, s);
          gather(call.in[3].as<T>() + kv, s.k_stride(), parts.v, s);
          std::fill_n(parts.dk, s.t * s.d, 0.f);
          std::fill_n(parts.dv, s.t * s.d, 0.f);
          for (int64_t h = g * group; h < (g + 1) * group; ++h) {
            int64_t at = b * s.t * s.q_stride() + h * s.d;
            gather(call.in[0].as<T>() + at, s.q_stride(), parts.dout, s);
            gather(call.in[1].as<T>() + at, s.q_stride(), parts.q, s);
            backward_head<T>(s, parts, call.in[4].as<T>() + at,
                             call.in[5].as<float>() + (b * s.h + h) * s.t,
                             call.out[0].as<T>() + at);
          }
          narrow_rows(parts.dk, call.out[1].as<T>() + kv, s.k_stride(), s.t, s.d);
          narrow_rows(parts.dv, call.out[2].as<T>() + kv, s.k_stride(), s.t, s.d);
        }
      }
    });
  });
}

}  // namespace longshore::models
