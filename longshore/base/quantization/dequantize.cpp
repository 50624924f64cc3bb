#include "longshore/base/quantization/dequantize.h"

namespace longshore {

const CodeBook& code_book(QuantizedFormat format) {
  if (format == QuantizedFormat::nf4) return kNf4;
  return format == QuantizedFormat::fp4 ? kFp4 : kE2m1;
}

QuantizedView view_of(const QuantizedMatrix& matrix, const std::byte* memory) {
  const QuantizedParts parts = parts_of(matrix);
  auto at = [&](const QuantizedParts::Part& part) -> const void* {
    return part.bytes > 0 ? memory + part.offset : nullptr;
  };
  return {.codes = static_cast<const uint8_t*>(at(parts.codes)),
          .scales = at(parts.scales),
          .nested_scales = static_cast<const float*>(at(parts.nested_scales)),
          .nested_codes = static_cast<const float*>(at(parts.nested_codes)),
          .nested_mean = static_cast<const float*>(at(parts.nested_mean))};
}

void dequantize(const QuantizedMatrix& matrix, const QuantizedView& view, int64_t first,
                std::span<float> to) {
  const int64_t end = first + std::ssize(to);
  const float* book = code_book(matrix.format).data();
  for (int64_t begin = first; begin < end;) {
    const ScaledRun run = scaled_run(matrix, begin, end);
    const float scale = view.scales ? scale_of(matrix, view, run.block) : 1;
    for (int64_t i = run.first; i < run.end; ++i)
      to[static_cast<size_t>(i - first)] = number_of(matrix, view, book, i, scale);
    begin = run.end;
  }
}

}  // namespace longshore
