#include "longshore/models/ops/kernels/matrix_vector.h"

#include <algorithm>

#include "longshore/base/round_up.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

constexpr int64_t kRows = kProductRows;  // of W that share what is read of x
constexpr int64_t kPart = 256;           // elements of a row between prefetches of the next rows

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

// Elements [begin, end) of four rows and of x.
template <class T>
LONGSHORE_INLINE void add_part(int64_t begin, int64_t end, const T* w, int64_t stride, const T* x,
                               float* sums) {
  const T *w1 = w + stride, *w2 = w1 + stride, *w3 = w2 + stride;
  float sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
#pragma omp simd reduction(+ : sum0, sum1, sum2, sum3)
  for (int64_t i = begin; i < end; ++i) {
    float factor = load(x[i]);
    sum0 += load(w[i]) * factor;
    sum1 += load(w1[i]) * factor;
    sum2 += load(w2[i]) * factor;
    sum3 += load(w3[i]) * factor;
  }
  sums[0] += sum0;
  sums[1] += sum1;
  sums[2] += sum2;
  sums[3] += sum3;
}

template <class T>
LONGSHORE_INLINE void rows_body(int64_t k, const T* w, const T* x, T* y, Into into) {
  float sums[kRows] = {};
  for (int64_t begin = 0; begin < k; begin += kPart) {
    int64_t end = std::min(begin + kPart, k);
    for (int64_t row = 0; row < kRows; ++row) prefetch(w + (kRows + row) * k + begin, end - begin);
    add_part(begin, end, w, k, x, sums);
  }
  for (int64_t row = 0; row < kRows; ++row) put(y + row, sums[row], into);
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

LONGSHORE_SIMD void add_products(int64_t count, const float* rows, int64_t stride, const float* x,
                                 float* sums) {
  add_part(0, count, rows, stride, x, sums);
}

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
