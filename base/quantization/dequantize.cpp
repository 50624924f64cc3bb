#include "base/quantization/dequantize.h"

#include <cstring>

namespace longshore {
namespace {

const CodeBook& book(QuantizedFormat format) {
  switch (format) {
    case QuantizedFormat::nf4:
      return kNf4;
    case QuantizedFormat::fp4:
      return kFp4;
    default:
      return kE2m1;
  }
}

float number(const QuantizedMatrix& m, const QuantizedView& view, int64_t i, float scale) {
  if (has_4_bits(m.format)) return book(m.format)[code4(m, view.codes, i)] * scale;
  switch (m.format) {
    case QuantizedFormat::float32: {
      float value;
      std::memcpy(&value, view.codes + i * 4, sizeof value);
      return value;
    }
    case QuantizedFormat::bfloat16: {
      bfloat16 value;
      std::memcpy(&value, view.codes + i * 2, sizeof value);
      return to_float(value);
    }
    default:
      return scaled8(m.format, view.codes[i], scale);
  }
}

}  // namespace

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
  for (int64_t begin = first; begin < end;) {
    const ScaledRun run = scaled_run(matrix, begin, end);
    const float scale = view.scales ? scale_of(matrix, view, run.block) : 1;
    for (int64_t i = run.first; i < run.end; ++i)
      to[static_cast<size_t>(i - first)] =
          rounded(number(matrix, view, i, scale), matrix.rounded_to);
    begin = run.end;
  }
}

}  // namespace longshore
