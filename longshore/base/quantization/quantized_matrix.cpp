#include "longshore/base/quantization/quantized_matrix.h"

#include "longshore/base/error.h"
#include "longshore/base/round_up.h"

namespace longshore {

const char* name(QuantizedFormat format) {
  switch (format) {
    case QuantizedFormat::float32:
      return "float32";
    case QuantizedFormat::bfloat16:
      return "bfloat16";
    case QuantizedFormat::fp8:
      return "fp8";
    case QuantizedFormat::int8:
      return "int8";
    case QuantizedFormat::nf4:
      return "nf4";
    case QuantizedFormat::fp4:
      return "fp4";
    case QuantizedFormat::mxfp4:
      return "mxfp4";
  }
  throw InternalError("a quantized format that is none");
}

BlockRange blocks_of(const QuantizedMatrix& matrix) {
  switch (matrix.format) {
    case QuantizedFormat::nf4:
    case QuantizedFormat::fp4:
      return {matrix.first() / matrix.block,
              ceil_div(matrix.first() + matrix.count(), matrix.block)};
    case QuantizedFormat::fp8:
      return {matrix.first_row / kFp8Block, ceil_div(matrix.first_row + matrix.rows, kFp8Block)};
    default:
      return {};
  }
}

BlockRange nested_blocks_of(const QuantizedMatrix& matrix) {
  const BlockRange blocks = blocks_of(matrix);
  return {blocks.first / kNestedBlock, ceil_div(blocks.end, kNestedBlock)};
}

QuantizedParts parts_of(const QuantizedMatrix& matrix) {
  constexpr int64_t kAlignment = 64, kFloat = sizeof(float);
  QuantizedParts parts;
  int64_t end = 0;
  auto place = [&](QuantizedParts::Part& part, int64_t bytes) {
    part = {end, bytes};
    end = round_up(end + bytes, kAlignment);
  };
  const int64_t count = matrix.count();
  switch (matrix.format) {
    case QuantizedFormat::float32:
      place(parts.codes, count * kFloat);
      break;
    case QuantizedFormat::bfloat16:
      place(parts.codes, count * 2);
      break;
    case QuantizedFormat::int8:
      place(parts.codes, count);
      place(parts.scales, matrix.rows * kFloat);
      break;
    case QuantizedFormat::fp8:
      place(parts.codes, count);
      place(parts.scales, blocks_of(matrix).count() * ceil_div(matrix.columns, kFp8Block) * kFloat);
      break;
    case QuantizedFormat::mxfp4:
      place(parts.codes, ceil_div(matrix.first() % 2 + count, 2));
      place(parts.scales, matrix.rows * ceil_div(matrix.columns, kMxfp4Block));
      break;
    case QuantizedFormat::nf4:
    case QuantizedFormat::fp4: {
      const int64_t blocks = blocks_of(matrix).count();
      place(parts.codes, ceil_div(matrix.first() % 2 + count, 2));
      place(parts.scales, matrix.has_nested_scales ? blocks : blocks * kFloat);
      if (!matrix.has_nested_scales) break;
      place(parts.nested_scales, nested_blocks_of(matrix).count() * kFloat);
      place(parts.nested_codes, 256 * kFloat);
      place(parts.nested_mean, kFloat);
      break;
    }
  }
  parts.bytes = end;
  return parts;
}

}  // namespace longshore
