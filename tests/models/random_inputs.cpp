#include "tests/models/random_inputs.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <cmath>

#include "longshore/models/ops/kernels/aten.h"

namespace longshore::models {

at::Tensor random_normal(const Type& type, uint64_t seed) {
  return at::randn(type.shape.sizes(), at::detail::createCPUGenerator(seed), at::kDouble)
      .to(scalar_type(type.dtype));
}

at::Tensor random_integers(at::IntArrayRef sizes, int64_t limit, uint64_t seed) {
  return at::randint(0, limit, sizes, at::detail::createCPUGenerator(seed), at::kInt);
}

Tensors random_inputs(const Program& program, const OpCase& op_case, uint64_t seed) {
  Tensors inputs = op_case.integers;
  for (ValueId id : program.inputs) {
    const Value& value = program[id];
    if (value.type.dtype == Dtype::int32 || value.type.dtype == Dtype::uint8) continue;
    at::Tensor x = random_normal(value.type, ++seed);
    if (value.source == Source::weight && value.type.shape.rank() == 1) x.mul_(0.25).add_(1);
    if (value.source == Source::weight && value.type.shape.rank() == 2)
      x.div_(std::sqrt(static_cast<double>(value.type.shape.back())));
    inputs[value.name] = x;
  }
  if (op_case.adjust) op_case.adjust(inputs);
  return inputs;
}

Tensors random_cotangents(const Program& program, uint64_t seed) {
  Tensors cotangents;
  for (const Output& output : program.outputs) {
    const Value& value = program[output.value];
    cotangents[value.name] = random_normal(value.type, ++seed);
  }
  return cotangents;
}

}  // namespace longshore::models
