// Converts weights: to float32 from whatever a file holds, and to what a file shall hold.
#pragma once

#include <cstdint>
#include <span>

#include "longshore/data/safetensors/safetensors.h"

namespace longshore::data {

struct NonFinite {
  int64_t nan_count = 0;
  int64_t infinity_count = 0;
  bool operator==(const NonFinite&) const = default;
};

// Converts F32, BF16, F16 (exact) or F64 (to nearest) and counts what is not finite in the result.
// `to` has element_count() elements. Other dtypes are a DataError that names the tensor.
NonFinite to_float32(const SafetensorsTensor& tensor, std::span<float> to);
// The same for as many elements as `to` has room for, starting with element `first`, `step` from
// one to the next.
NonFinite to_float32(const SafetensorsTensor& tensor, int64_t first, std::span<float> to,
                     int64_t step = 1);

// Converts to F32, BF16 or F16: to nearest, ties to even (F64 by way of float32), and infinities
// and NaN to themselves. `to` has as many elements as the tensor. A finite value that would become
// infinite is a DataError that names the tensor, as is another dtype in it.
void convert_floats(const SafetensorsTensor& tensor, SafetensorsDtype dtype,
                    std::span<std::byte> to);

// Throws a DataError that names the tensor when a value of F32 or BF16 is infinite or NaN; values
// of integers are finite.
void require_finite(const SafetensorsTensor& tensor);

}  // namespace longshore::data
