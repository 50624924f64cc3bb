// Cached attention on the CPU: a few queries of one key/value head to a thread, over tiles of the
// cache with an online softmax. A row of a task is one query of one of the head's query heads; rows
// that share a tile read it from the processor's cache.
#include <algorithm>
#include <cstring>
#include <limits>

#include "longshore/base/round_up.h"
#include "longshore/models/ops/cached_attention/cached_attention_kernels.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

constexpr int64_t kTileKeys = 64;  // tiles begin at multiples of it
constexpr int64_t kTaskRows = 32;

struct Scoring {
  float scale;
  float soft_cap;  // 0: none
};

// One head in a cache: rows of D elements, `stride` elements apart.
template <class T>
struct HeadRows {
  const T* data;
  int64_t stride, d;
};

struct SoftmaxRow {
  float largest = -std::numeric_limits<float>::infinity();
  float sum = 0;
};

template <class T>
LONGSHORE_INLINE void score_body(const float* q, HeadRows<T> keys, Scoring scoring, int64_t begin,
                                 int64_t end, float* scores) {
  for (int64_t j = begin; j < end; ++j) {
    const T* key = keys.data + j * keys.stride;
    float product = 0;
#pragma omp simd reduction(+ : product)
    for (int64_t i = 0; i < keys.d; ++i) product += q[i] * load(key[i]);
    scores[j] = product;
  }
  float inner = scoring.soft_cap > 0 ? scoring.scale / scoring.soft_cap : scoring.scale;
  if (scoring.soft_cap > 0) {
#pragma omp simd
    for (int64_t j = begin; j < end; ++j)
      scores[j] = scoring.soft_cap * tanh_fast(scores[j] * inner);
  } else {
#pragma omp simd
    for (int64_t j = begin; j < end; ++j) scores[j] *= inner;
  }
}

// Turns scores to probabilities relative to the largest score so far. Returns the factor for
// earlier sums.
LONGSHORE_INLINE float softmax_body(float* scores, int64_t begin, int64_t end, SoftmaxRow& row) {
  float largest = row.largest;
#pragma omp simd reduction(max : largest)
  for (int64_t j = begin; j < end; ++j) largest = scores[j] > largest ? scores[j] : largest;
  float correction = exp_fast(row.largest - largest), sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = begin; j < end; ++j) {
    scores[j] = exp_fast(scores[j] - largest);
    sum += scores[j];
  }
  row.largest = largest;
  row.sum = row.sum * correction + sum;
  return correction;
}

// out = out * correction + probabilities * values.
template <class T>
LONGSHORE_INLINE void values_body(const float* p, HeadRows<T> values, int64_t begin, int64_t end,
                                  float correction, float* out) {
  int64_t d = values.d, j = begin;
#pragma omp simd
  for (int64_t i = 0; i < d; ++i) out[i] *= correction;
  for (; j + 4 <= end; j += 4) {
    const T *v0 = values.data + j * values.stride, *v1 = v0 + values.stride;
    const T *v2 = v1 + values.stride, *v3 = v2 + values.stride;
    float p0 = p[j], p1 = p[j + 1], p2 = p[j + 2], p3 = p[j + 3];
#pragma omp simd
    for (int64_t i = 0; i < d; ++i)
      out[i] += p0 * load(v0[i]) + p1 * load(v1[i]) + (p2 * load(v2[i]) + p3 * load(v3[i]));
  }
  for (; j < end; ++j) {
    const T* v = values.data + j * values.stride;
    float probability = p[j];
#pragma omp simd
    for (int64_t i = 0; i < d; ++i) out[i] += probability * load(v[i]);
  }
}

template <class T>
LONGSHORE_INLINE void row_body(const float* q, HeadRows<T> keys, HeadRows<T> values,
                               Scoring scoring, int64_t begin, int64_t end, SoftmaxRow& row,
                               float* out) {
  float scores[kTileKeys];
  score_body(q, keys, scoring, begin, end, scores);
  float correction = softmax_body(scores, begin, end, row);
  values_body(scores, values, begin, end, correction, out);
}

template <class T>
LONGSHORE_INLINE void widen_body(const T* from, float* to, int64_t d) {
#pragma omp simd
  for (int64_t i = 0; i < d; ++i) to[i] = load(from[i]);
}

template <class T>
LONGSHORE_INLINE void finish_body(const float* out, float sum, T* context, int64_t d) {
  float inverse = 1.f / sum;
#pragma omp simd
  for (int64_t i = 0; i < d; ++i) store(context[i], out[i] * inverse);
}

#define LONGSHORE_CACHED_ATTENTION(T)                                                          \
  LONGSHORE_SIMD void attend_row(const float* q, HeadRows<T> keys, HeadRows<T> values,         \
                                 Scoring scoring, int64_t begin, int64_t end, SoftmaxRow& row, \
                                 float* out) {                                                 \
    row_body(q, keys, values, scoring, begin, end, row, out);                                  \
  }                                                                                            \
  LONGSHORE_SIMD void widen(const T* from, float* to, int64_t d) { widen_body(from, to, d); }  \
  LONGSHORE_SIMD void finish_row(const float* out, float sum, T* context, int64_t d) {         \
    finish_body(out, sum, context, d);                                                         \
  }
LONGSHORE_CACHED_ATTENTION(float)
LONGSHORE_CACHED_ATTENTION(bfloat16)
#undef LONGSHORE_CACHED_ATTENTION

// Rows [begin, end) of head `g` of row `b` of the batch: row r is query r / group of query head
// g * group + r % group.
struct Task {
  int64_t b, g, begin, end;
};

// How the rows of a key/value head are divided, so that no thread is without work.
int64_t tasks_per_head(const CachedAttentionSizes& s) {
  int64_t rows = s.s * s.group(), heads = s.b * s.g, threads = omp_get_max_threads();
  int64_t tasks = std::max(ceil_div(rows, kTaskRows), ceil_div(threads, heads));
  return std::min(tasks, rows);
}

struct Scratch {
  float *q, *out;  // [R,D]

  static int64_t count(const CachedAttentionSizes& s) { return 2 * kTaskRows * s.d; }
  Scratch(const CachedAttentionSizes& s, float* memory) : q(memory), out(q + kTaskRows * s.d) {}
};

template <class T>
class Attention {
 public:
  Attention(const KernelCall& call, const CachedAttentionSizes& sizes)
      : call_(call), sinks_(cached_sinks_of(call)), spans_(spans_of(call)), s_(sizes) {}

  void run(const Task& task, const Scratch& scratch) const {
    SoftmaxRow rows[kTaskRows];
    std::fill_n(scratch.out, (task.end - task.begin) * s_.d, 0.f);
    int64_t first = s_.p, end = 0;
    for (int64_t r = task.begin; r < task.end; ++r) {
      // A sink is the first score, of a value of zeros.
      if (sinks_) rows[r - task.begin] = {load(sinks_->as<T>()[query_head(task, r)]), 1};
      widen(call_.in[0].as<T>() + at(task, r), scratch.q + (r - task.begin) * s_.d, s_.d);
      first = std::min(first, first_key(task, r));
      end = std::max(end, end_key(task, r));
    }
    for (int64_t tile = first / kTileKeys * kTileKeys; tile < end; tile += kTileKeys)
      for (int64_t r = task.begin; r < task.end; ++r) {
        int64_t from = std::max(first_key(task, r) - tile, int64_t{0});
        int64_t to = std::min(end_key(task, r) - tile, kTileKeys), i = r - task.begin;
        if (from < to)
          attend_row(scratch.q + i * s_.d, head(1, task, tile), head(2, task, tile),
                     {static_cast<float>(s_.scale), static_cast<float>(s_.soft_cap)}, from, to,
                     rows[i], scratch.out + i * s_.d);
      }
    for (int64_t r = task.begin; r < task.end; ++r)
      finish_row(scratch.out + (r - task.begin) * s_.d, rows[r - task.begin].sum,
                 call_.out[0].as<T>() + at(task, r), s_.d);
  }

 private:
  int64_t position(const Task& task, int64_t r) const {
    return call_.in[3].as<int32_t>()[task.b * s_.s + r / s_.group()];
  }
  // The first position of the row's block, or its last.
  int64_t span(const Task& task, int64_t r, int64_t side) const {
    if (!spans_) return position(task, r);
    return spans_->as<int32_t>()[(task.b * s_.s + r / s_.group()) * 2 + side];
  }
  int64_t chunk_begin(const Task& task, int64_t r) const {
    return position(task, r) / s_.chunk * s_.chunk;
  }
  int64_t first_key(const Task& task, int64_t r) const {
    return std::max(std::min(position(task, r) - s_.window + 1, span(task, r, 0)),
                    chunk_begin(task, r));
  }
  int64_t end_key(const Task& task, int64_t r) const {
    return std::min(std::max(position(task, r), span(task, r, 1)) + 1,
                    chunk_begin(task, r) + s_.chunk);
  }
  int64_t query_head(const Task& task, int64_t r) const {
    return task.g * s_.group() + r % s_.group();
  }
  // Where the row lies in q and in the context.
  int64_t at(const Task& task, int64_t r) const {
    return ((task.b * s_.s + r / s_.group()) * s_.h + query_head(task, r)) * s_.d;
  }
  // Of keys (1) or values (2), from row `key` on.
  HeadRows<T> head(int cache, const Task& task, int64_t key) const {
    return {call_.in[cache].as<T>() + ((task.b * s_.p + key) * s_.g + task.g) * s_.d, s_.g * s_.d,
            s_.d};
  }

  const KernelCall& call_;
  const Ref *sinks_, *spans_;
  const CachedAttentionSizes& s_;
};

}  // namespace

void append_to_cache_cpu(const KernelCall& call) {
  const Ref &rows = call.in[0], &before = call.in[1], &now = call.out[0];
  const int32_t* positions = call.in[2].as<int32_t>();
  const int64_t s = rows.type.shape[1], p = now.type.shape[1], count = rows.type.shape.rows();
  const int64_t row_bytes = rows.type.bytes() / count;
  if (before.data != now.data) std::memcpy(now.data, before.data, now.type.bytes());
  for (int64_t i = 0; i < count; ++i) {
    if (positions[i] < 0 || positions[i] >= p)
      throw InternalError("append_to_cache: position " + std::to_string(positions[i]) +
                          " of a cache of " + std::to_string(p));
    std::memcpy(now.as<std::byte>() + (i / s * p + positions[i]) * row_bytes,
                rows.as<std::byte>() + i * row_bytes, row_bytes);
  }
}

int64_t cached_attention_cpu_workspace(const std::any& attrs, std::span<const Type> in,
                                       std::span<const Type>) {
  int64_t bytes = Scratch::count({attrs, in}) * size_bytes(Dtype::float32);
  return omp_get_max_threads() * bytes;
}

void cached_attention_cpu(const KernelCall& call) {
  const Types types = types_of(call.in);
  const CachedAttentionSizes s(call.attrs, types);
  int64_t rows = s.s * s.group(), per_head = tasks_per_head(s), tasks = s.b * s.g * per_head;
  with_float_type(call.in[0].type.dtype, [&]<class T>(T) {
    Attention<T> attention(call, s);
    parallel_shares(tasks, [&](int64_t share, int64_t first, int64_t last) {
      Scratch scratch(s,
                      reinterpret_cast<float*>(call.workspace.data()) + share * Scratch::count(s));
      for (int64_t i = first; i < last; ++i) {
        int64_t head = i / per_head, part = i % per_head;
        attention.run({.b = head / s.g,
                       .g = head % s.g,
                       .begin = rows * part / per_head,
                       .end = rows * (part + 1) / per_head},
                      scratch);
      }
    });
  });
}

}  // namespace longshore::models
