// What bitsandbytes says in JSON of a weight in 4 bits, in a tensor beside it:
//
//   {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [40, 72],
//    "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.307161}
//
// the last three with nested scales alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "longshore/base/quantization/quantized_matrix.h"

namespace longshore::data {

struct QuantState {
  QuantizedFormat format = QuantizedFormat::nf4;  // nf4, fp4
  int64_t block = 0;
  RoundedTo rounded_to = RoundedTo::float32;  // the dtype
  int64_t rows = 0, columns = 0;              // at least 1
  std::optional<float> nested_mean;           // with nested scales; finite
};

// Real ones have less than 200.
inline constexpr size_t kMaxQuantStateBytes = 4096;

// Throws a DataError, which does not name the tensor, on anything else.
QuantState parse_quant_state(std::string_view text);

}  // namespace longshore::data
