// Small programs for each op, as their records (op_records.h) have them: at sizes that suit finite
// differences and at sizes that make kernels use several tiles, chunks and threads. Backward ops
// appear through the programs' gradients.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "longshore/models/ir/program.h"
#include "tests/models/harness.h"

namespace longshore::models {

struct OpCase {
  std::string name;
  std::function<Program(Dtype)> trace;
  Tensors integers;  // what the int32 inputs hold
  // The program's outputs as a composition of tests/models/plain.h, from the inputs in one float
  // dtype; null where there is nothing to differentiate.
  std::function<std::vector<at::Tensor>(const Tensors& inputs)> plain;
  // Changes random inputs that an op cannot take as they are.
  std::function<void(Tensors& inputs)> adjust;
};

std::vector<OpCase> small_cases();
std::vector<OpCase> large_cases();
// At the widths of published models, for the ops that have kernels of our own on a GPU.
std::vector<OpCase> real_cases();

}  // namespace longshore::models
