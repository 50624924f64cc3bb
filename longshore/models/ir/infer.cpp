#include "longshore/models/ir/infer.h"

#include "longshore/base/error.h"

namespace longshore::models {

void expect(bool holds, const char* op, const char* message) {
  if (!holds) throw InternalError(std::string(op) + ": " + message);
}

void expect_inputs(std::span<const Type> in, size_t least, size_t most, const char* op) {
  if (in.size() < least || in.size() > most)
    throw InternalError(std::string(op) + ": " + std::to_string(in.size()) + " inputs");
}

Dtype reduction_dtype(Dtype dtype) {
  return dtype == Dtype::float64 ? Dtype::float64 : Dtype::float32;
}

Type scalar_loss(Dtype dtype) { return {{}, reduction_dtype(dtype)}; }

double operand_bytes(std::span<const Type> in, std::span<const Type> out) {
  double bytes = 0;
  for (const Type& type : in) bytes += static_cast<double>(type.bytes());
  for (const Type& type : out) bytes += static_cast<double>(type.bytes());
  return bytes;
}

}  // namespace longshore::models
