#include "longshore/models/ops/kernels/add_range.h"

#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

template <class T>
LONGSHORE_INLINE void add_body(const T* a, const T* b, T* out, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(out[i], load(a[i]) + load(b[i]));
}

LONGSHORE_SIMD void add(const float* a, const float* b, float* out, int64_t count) {
  add_body(a, b, out, count);
}
LONGSHORE_SIMD void add(const bfloat16* a, const bfloat16* b, bfloat16* out, int64_t count) {
  add_body(a, b, out, count);
}

}  // namespace

void add_range(const float* a, const float* b, float* out, int64_t count) { add(a, b, out, count); }
void add_range(const bfloat16* a, const bfloat16* b, bfloat16* out, int64_t count) {
  add(a, b, out, count);
}

}  // namespace longshore::models
