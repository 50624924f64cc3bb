#include "models/ops/kernels/matrix_vector.h"

#include <algorithm>

#include "base/round_up.h"
#include "models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

constexpr int64_t kRows = 4;    // of W that share what is read of x
constexpr int64_t kPart = 256;  // elements of a row between prefetches of the next rows

template <class T>
LONGSHORE_INLINE void put(T* y, float sum, Into into) {
  store(*y, into == Into::add ? sum + load(*y) : sum);
}

// The processor's own prefetching begins anew with each row: short rows want help.
template <class T>
LONGSHORE_INLINE void prefetch(const T* from, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(from + i);
}

template <class T>
LONGSHORE_INLINE void rows_body(int64_t k, const T* w, const T* x, T* y, Into into) {
  const T *w1 = w + k, *w2 = w1 + k, *w3 = w2 + k;
  float sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
  for (int64_t begin = 0; begin < k; begin += kPart) {
    int64_t end = std::min(begin + kPart, k);
    for (const T* row : {w, w1, w2, w3}) prefetch(row + kRows * k + begin, end - begin);
#pragma omp simd reduction(+ : sum0, sum1, sum2, sum3)
    for (int64_t i = begin; i < end; ++i) {
      float factor = load(x[i]);
      sum0 += load(w[i]) * factor;
      sum1 += load(w1[i]) * factor;
      sum2 += load(w2[i]) * factor;
      sum3 += load(w3[i]) * factor;
    }
  }
  put(y, sum0, into);
  put(y + 1, sum1, into);
  put(y + 2, sum2, into);
  put(y + 3, sum3, into);
}

template <class T>
LONGSHORE_INLINE void row_body(int64_t k, const T* w, const T* x, T* y, Into into) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < k; ++i) sum += load(w[i]) * load(x[i]);
  put(y, sum, into);
}

// Rows [begin, end), the first of which is a multiple of kRows.
template <class T>
LONGSHORE_INLINE void range_body(int64_t begin, int64_t end, int64_t k, const T* w, const T* x,
                                 T* y, Into into) {
  int64_t row = begin;
  for (; row + kRows <= end; row += kRows) rows_body(k, w + row * k, x, y + row, into);
  for (; row < end; ++row) row_body(k, w + row * k, x, y + row, into);
}

LONGSHORE_SIMD void rows_times_vector(int64_t begin, int64_t end, int64_t k, const float* w,
                                      const float* x, float* y, Into into) {
  range_body(begin, end, k, w, x, y, into);
}
LONGSHORE_SIMD void rows_times_vector(int64_t begin, int64_t end, int64_t k, const bfloat16* w,
                                      const bfloat16* x, bfloat16* y, Into into) {
  range_body(begin, end, k, w, x, y, into);
}

}  // namespace

void matrix_vector(int64_t n, int64_t k, Dtype dtype, const void* w, const void* x, void* y,
                   Into into) {
  with_float_type(dtype, [&]<class T>(T) {
    parallel_ranges(ceil_div(n, kRows), [&](int64_t first, int64_t last) {
      rows_times_vector(first * kRows, std::min(last * kRows, n), k, static_cast<const T*>(w),
                        static_cast<const T*>(x), static_cast<T*>(y), into);
    });
  });
}

}  // namespace longshore::models
