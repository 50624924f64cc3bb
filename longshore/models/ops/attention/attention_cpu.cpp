// Attention on the CPU: tiles of scores by oneDNN, softmax by our own loops, a head (forward) or a
// key/value head with its query heads (backward) to a thread. A head's rows are gathered first:
// oneDNN's fast kernels want them adjacent. Sizes as in attention_tiles.h.
#include <algorithm>
#include <limits>

#include "longshore/base/round_up.h"
#include "longshore/models/ops/attention/attention_kernels.h"
#include "longshore/models/ops/attention/attention_loops.h"
#include "longshore/models/ops/attention/attention_tiles.h"
#include "longshore/models/ops/kernels/onednn_matmul.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

using Sizes = AttentionSizes;

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

constexpr int64_t kCacheLine = 64;

int64_t threads_of(int64_t tasks) { return std::min<int64_t>(omp_get_max_threads(), tasks); }

// Hands out consecutive parts of a workspace; without one it only adds up their bytes.
class Parts {
 public:
  explicit Parts(std::byte* base) : base_(base) {}

  template <class T>
  T* take(int64_t count) {
    T* part = base_ ? reinterpret_cast<T*>(base_ + bytes_) : nullptr;
    bytes_ += round_up(count * static_cast<int64_t>(sizeof(T)), kCacheLine);
    return part;
  }
  // Nulls where the batch says nothing of the keys that are seen.
  KeyRanges take_ranges(const Sizes& s) {
    if (!s.is_by_batch) return {};
    return {.first = take<int32_t>(s.t), .end = take<int32_t>(s.t)};
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  int64_t bytes_ = 0;
};

int64_t forward_scratch(const Sizes& s) {
  int64_t need = 0;
  auto fit = [&](const Tile& tile) {
    need = std::max({need, workspace_bytes(scores_product(s, tile)),
                     workspace_bytes(rows_product(s, tile, Into::add))});
  };
  if (s.is_by_batch)
    tile_shapes(s, kForwardColumns, fit);
  else
    tiles_by_row(s, VisibleKeys(s, {}), [&](const Tile& tile, bool, bool) { fit(tile); });
  return need;
}

int64_t backward_scratch(const Sizes& s) {
  int64_t need = 0;
  auto fit = [&](const Tile& tile) {
    need = std::max({need, workspace_bytes(scores_product(s, tile)),
                     workspace_bytes(rows_product(s, tile, Into::add)),
                     workspace_bytes(columns_product(s, tile))});
  };
  if (s.is_by_batch)
    tile_shapes(s, kBackwardColumns, fit);
  else
    tiles_by_column(s, VisibleKeys(s, {}), fit);
  return need;
}

template <class T>
struct ForwardParts {
  KeyRanges ranges;
  T *q, *k, *v, *probabilities;
  float* products;
  SoftmaxRows rows;
  std::span<std::byte> scratch;
  int64_t bytes;

  ForwardParts(const Sizes& s, std::byte* base) {
    int64_t most_rows = std::min(kTileRows, s.t), need = forward_scratch(s);
    int64_t tile_count = most_rows * std::min(kForwardColumns, s.t);
    Parts parts(base);
    ranges = parts.take_ranges(s);
    q = parts.take<T>(s.t * s.d);
    k = parts.take<T>(s.t * s.d);
    v = parts.take<T>(s.t * s.d);
    products = parts.take<float>(tile_count);
    probabilities =
        sizeof(T) == sizeof(float) ? reinterpret_cast<T*>(products) : parts.take<T>(tile_count);
    rows.out = parts.take<float>(most_rows * s.d);
    rows.largest = parts.take<float>(most_rows);
    rows.sum = parts.take<float>(most_rows);
    scratch = {parts.take<std::byte>(need), static_cast<size_t>(need)};
    bytes = parts.bytes();
  }
};

template <class T>
struct BackwardParts {
  KeyRanges ranges;
  T *q, *k, *v, *dout, *probabilities, *ds;
  float *products, *dp, *dq, *dk, *dv, *delta;
  std::span<std::byte> scratch;
  int64_t bytes;

  BackwardParts(const Sizes& s, std::byte* base) {
    int64_t tile_count = std::min(kTileRows, s.t) * std::min(kBackwardColumns, s.t);
    int64_t need = backward_scratch(s);
    Parts parts(base);
    ranges = parts.take_ranges(s);
    q = parts.take<T>(s.t * s.d);
    k = parts.take<T>(s.t * s.d);
    v = parts.take<T>(s.t * s.d);
    dout = parts.take<T>(s.t * s.d);
    products = parts.take<float>(tile_count);
    dp = parts.take<float>(tile_count);
    bool narrow = sizeof(T) < sizeof(float);
    probabilities = narrow ? parts.take<T>(tile_count) : reinterpret_cast<T*>(products);
    ds = narrow ? parts.take<T>(tile_count) : reinterpret_cast<T*>(dp);
    dq = parts.take<float>(s.t * s.d);
    dk = parts.take<float>(s.t * s.d);
    dv = parts.take<float>(s.t * s.d);
    delta = parts.take<float>(s.t);
    scratch = {parts.take<std::byte>(need), static_cast<size_t>(need)};
    bytes = parts.bytes();
  }
};

// What the queries of row b of the batch see; `ranges` are filled if the batch says it.
VisibleKeys visible_keys(const KernelCall& call, const Sizes& s, const KeyRanges& ranges,
                         int64_t b) {
  if (s.is_by_batch) find_ranges(s, key_rule(call, b), ranges);
  return {s, ranges};
}

// --- one head

template <class T>
void gather(const T* from, int64_t stride, T* to, const Sizes& s) {
  for (int64_t row = 0; row < s.t; ++row) std::copy_n(from + row * stride, s.d, to + row * s.d);
}

constexpr float kLeast = -std::numeric_limits<float>::infinity();

// The logit of the head's sink; kLeast where there are none.
template <class T>
float sink_of(const KernelCall& call, int64_t head) {
  const Ref* sinks = sinks_of(call);
  return sinks ? load(sinks->as<T>()[head]) : kLeast;
}

template <class T>
void forward_head(const Sizes& s, const VisibleKeys& visible, float sink,
                  const ForwardParts<T>& parts, T* context, float* log_sum_exp) {
  tiles_by_row(s, visible, [&](const Tile& tile, bool first, bool last) {
    // A sink is the first score, of a value of zeros.
    if (first) {
      std::fill_n(parts.rows.largest, tile.rows, sink);
      std::fill_n(parts.rows.sum, tile.rows, sink == kLeast ? 0.f : 1.f);
    }
    run(scores_product(s, tile), parts.q + tile.row * s.d, parts.k + tile.column * s.d,
        parts.products, parts.scratch);
    softmax_tile(tile, visible, {s.scale, s.soft_cap}, first, parts.products, parts.probabilities,
                 parts.rows, s.d);
    run(rows_product(s, tile, first ? Into::overwrite : Into::add), parts.probabilities,
        parts.v + tile.column * s.d, parts.rows.out, parts.scratch);
    if (last)
      finish_rows(parts.rows, context + tile.row * s.q_stride(), s.q_stride(),
                  log_sum_exp + tile.row, tile.rows, s.d);
  });
}

// `out` and `dq` lie as the op's operands do. Adds to parts.dk and parts.dv, which all query heads
// of a key/value head share.
template <class T>
void backward_head(const Sizes& s, const VisibleKeys& visible, const BackwardParts<T>& parts,
                   const T* out, const float* log_sum_exp, T* dq) {
  delta_rows(parts.dout, out, s.q_stride(), parts.delta, s.t, s.d);
  std::fill_n(parts.dq, s.t * s.d, 0.f);
  tiles_by_column(s, visible, [&](const Tile& tile) {
    const T *q_tile = parts.q + tile.row * s.d, *dout_tile = parts.dout + tile.row * s.d;
    const T *k_tile = parts.k + tile.column * s.d, *v_tile = parts.v + tile.column * s.d;
    run(scores_product(s, tile), q_tile, k_tile, parts.products, parts.scratch);
    run(scores_product(s, tile), dout_tile, v_tile, parts.dp, parts.scratch);
    dscores_tile(tile, visible, {s.scale, s.soft_cap}, parts.products, parts.dp,
                 {log_sum_exp + tile.row, parts.delta + tile.row}, parts.probabilities, parts.ds);
    run(columns_product(s, tile), parts.probabilities, dout_tile, parts.dv + tile.column * s.d,
        parts.scratch);
    run(columns_product(s, tile), parts.ds, q_tile, parts.dk + tile.column * s.d, parts.scratch);
    run(rows_product(s, tile, Into::add), parts.ds, k_tile, parts.dq + tile.row * s.d,
        parts.scratch);
  });
  narrow_rows(parts.dq, dq, s.q_stride(), s.t, s.d);
}

}  // namespace

std::string attention_cpu_path(const std::any&, std::span<const Type>) {
  return "tiles of oneDNN's matrix products";
}

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
          forward_head<T>(s, visible_keys(call, s, parts.ranges, b), sink_of<T>(call, h), parts,
                          call.out[0].as<T>() + at, call.out[1].as<float>() + task * s.t);
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
          VisibleKeys visible = visible_keys(call, s, parts.ranges, b);
          gather(call.in[2].as<T>() + kv, s.k_stride(), parts.k, s);
          gather(call.in[3].as<T>() + kv, s.k_stride(), parts.v, s);
          std::fill_n(parts.dk, s.t * s.d, 0.f);
          std::fill_n(parts.dv, s.t * s.d, 0.f);
          for (int64_t h = g * group; h < (g + 1) * group; ++h) {
            int64_t at = b * s.t * s.q_stride() + h * s.d;
            gather(call.in[0].as<T>() + at, s.q_stride(), parts.dout, s);
            gather(call.in[1].as<T>() + at, s.q_stride(), parts.q, s);
            backward_head<T>(s, visible, parts, call.in[4].as<T>() + at,
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
