#include "longshore/models/ops/dequantize/dequantize_cpu.h"

#include <algorithm>

#include "longshore/models/ops/dequantize/dequantize_cpu_body.h"

namespace longshore::models {
namespace {

template <class T>
LONGSHORE_INLINE void range_body(const DequantizeArguments& a, const QuantizedView& view,
                                 int64_t first, int64_t end, T* to) {
  const int64_t columns = a.matrix.columns;
  numbers_body(a, view, {.first = {first / columns, first % columns}, .count = end - first}, to);
}

}  // namespace

LONGSHORE_SIMD void dequantize_numbers(const DequantizeArguments& a, const QuantizedView& view,
                                       int64_t first, int64_t end, float* to) {
  range_body(a, view, first, end, to);
}
LONGSHORE_SIMD void dequantize_numbers(const DequantizeArguments& a, const QuantizedView& view,
                                       int64_t first, int64_t end, bfloat16* to) {
  range_body(a, view, first, end, to);
}

namespace {

template <class T>
void run_in_order(const DequantizeArguments& a) {
  constexpr int64_t kPart = 1 << 14;
  const int64_t count = a.matrix.count(), parts = ceil_div(count, kPart);
  parallel_ranges(a.matrices * parts, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t matrix = i / parts, first = i % parts * kPart;
      dequantize_numbers(a, view_of(a, matrix), first, std::min(first + kPart, count),
                         static_cast<T*>(a.out) + matrix * count + first);
    }
  });
}

}  // namespace

void run_dequantize_cpu(const KernelCall& call) {
  const DequantizeArguments a = dequantize_arguments(call);
  if (a.is_transposed) return run_dequantize_transposed_cpu(a);
  with_float_type(a.dtype, [&]<class T>(T) { run_in_order<T>(a); });
}

}  // namespace longshore::models
