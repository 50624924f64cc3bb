// What the gradients of norms have in common: (dy, x, w, statistics.. [, sum of dx] [, sum of dw])
// -> dx [, dw], where dw is there if the weight trains.
#pragma once

#include <any>
#include <span>
#include <string>
#include <vector>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/op.h"

namespace longshore::models {

// Attributes of such an op.
struct NormGradAttrs {
  int operands;              // before the sums
  double weight_offset = 0;  // see rms_norm.h
  bool weight_gradient = false;
  bool input_sum = false, weight_sum = false;
  Dtype weight_gradient_dtype = Dtype::float32;

  int input_sum_index() const { return input_sum ? operands : -1; }
  int weight_sum_index() const { return weight_sum ? operands + input_sum : -1; }
};

const NormGradAttrs& norm_grad_attrs(const std::any& attrs);

// Emits the op for those of the two gradients that are wanted; `in` are its operands.
void emit_norm_grad(Backward& backward, const Op& op, NormGradAttrs attrs, std::vector<ValueId> in);

// Of an op's record, where `op` is its name.
Types infer_norm_grad(const std::any& attrs, std::span<const Type> in, const char* op);
std::vector<Reuse> reuse_norm_grad(const std::any& attrs, int inputs);
std::string print_norm_grad(const std::any& attrs);

// On the CPU each thread has a partial gradient of the weight in the workspace, row by row; then
// they are added up, behind the sum so far.
int64_t norm_grad_partials_bytes(const std::any& attrs, std::span<const Type> in,
                                 std::span<const Type> out);
void add_norm_grad_partials(const KernelCall& call);

// Of a GPU's partials (norm_partials.h).
int64_t custom_norm_grad_bytes(const std::any& attrs, std::span<const Type> in,
                               std::span<const Type> out);

}  // namespace longshore::models
