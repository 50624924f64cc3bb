// Small programs for each op, at sizes that suit finite differences and at sizes that make kernels
// use several tiles, chunks and threads. Backward ops appear through the programs' gradients.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "models/ir/program.h"
#include "models/ops/attention/attention.h"
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

// Inputs q, k, v, and segments and blocks where they are defined.
struct AttentionShape {
  int64_t b, t, h, g;
  AttentionOptions options;
  at::Tensor segments = {}, blocks = {};  // int32 [B,T]
};
OpCase attention_case(const AttentionShape& shape);
// Runs of these lengths in every row, with ids of no order; the last one is what is left.
at::Tensor segments_of(int64_t b, int64_t t, const std::vector<int64_t>& lengths);
// Blocks [begin, end), with ids of no order, in the first row; a position later in each row.
at::Tensor blocks_of(int64_t b, int64_t t, const std::vector<std::pair<int64_t, int64_t>>& blocks);

std::vector<OpCase> small_cases();
std::vector<OpCase> large_cases();
// At the widths of published models, for the ops that have kernels of our own on a GPU.
std::vector<OpCase> real_cases();

// Every input that the program's nodes read: normal numbers in the input's dtype, scaled so that
// results are of order one.
Tensors random_inputs(const Program& program, const OpCase& op_case, uint64_t seed);

// One random cotangent for each output, by the output's name.
Tensors random_cotangents(const Program& program, uint64_t seed);
at::Tensor random_normal(const Type& type, uint64_t seed);

// float64 gradients for float64, else float32, as training has them.
BackwardProgram differentiate(const Program& program, std::vector<ValueId> accumulate = {});

// `values` in the types that `program` has for them.
Tensors convert(const Tensors& values, const Program& program);

}  // namespace longshore::models
