#include "models/ops/infer.h"

#include "base/error.h"

namespace longshore::models {

void expect(bool holds, const char* op, const char* message) {
  if (!holds) throw InternalError(std::string(op) + ": " + message);
}

void expect_inputs(std::span<const Type> in, size_t least, size_t most, const char* op) {
  if (in.size() < least || in.size() > most)
    throw InternalError(std::string(op) + ": " + std::to_string(in.size()) + " inputs");
}

const char* name(OpClass op_class) {
  static constexpr std::array kNames{"memory", "matmul", "attention"};
  return kNames[static_cast<size_t>(op_class)];
}

Types types_of(std::span<const Ref> refs) {
  Types types;
  for (const Ref& ref : refs) types.push_back(ref.type);
  return types;
}

double operand_bytes(std::span<const Type> in, std::span<const Type> out) {
  double bytes = 0;
  for (const Type& type : in) bytes += static_cast<double>(type.bytes());
  for (const Type& type : out) bytes += static_cast<double>(type.bytes());
  return bytes;
}

}  // namespace longshore::models
