#include "longshore/models/ir/op.h"

namespace longshore::models {

const char* name(Target target) {
  static constexpr std::array kNames{"cpu", "cuda", "cuda_composed", "reference"};
  return kNames[static_cast<size_t>(target)];
}

const char* name(OpClass op_class) {
  static constexpr std::array kNames{"memory", "matmul", "attention", "grouped"};
  return kNames[static_cast<size_t>(op_class)];
}

Types types_of(std::span<const Ref> refs) {
  Types types;
  for (const Ref& ref : refs) types.push_back(ref.type);
  return types;
}

}  // namespace longshore::models
