// Declares the kernels of linear_cross_entropy for every target, and the attributes that they
// share.
#pragma once

#include "longshore/base/device.h"
#include "longshore/models/ir/op.h"
#include "longshore/models/ops/kernels/cublaslt_matmul.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"

namespace longshore::models {

struct LinearCrossEntropyAttrs {
  double soft_cap;
  Reduction reduction;
};

struct LinearCrossEntropyGradAttrs {
  LinearCrossEntropyAttrs of_loss;
  bool weight_gradient;
  Dtype weight_gradient_dtype;
  bool has_frozen;  // logits beside, of z and U
};

// Where operands are. Those that are not there: -1.
struct CrossEntropyOperands {
  int z = -1, sum = -1;       // inputs; U follows z
  int dweight = -1, dz = -1;  // outputs
};
// No attrs: of the loss alone.
CrossEntropyOperands cross_entropy_operands(size_t inputs,
                                            const LinearCrossEntropyGradAttrs* attrs);

inline const LinearCrossEntropyAttrs& linear_cross_entropy_attrs(const std::any& attrs) {
  return std::any_cast<const LinearCrossEntropyAttrs&>(attrs);
}
inline const LinearCrossEntropyGradAttrs& linear_cross_entropy_grad_attrs(const std::any& attrs) {
  return std::any_cast<const LinearCrossEntropyGradAttrs&>(attrs);
}

void linear_cross_entropy_cpu(const KernelCall& call);
void linear_cross_entropy_grad_cpu(const KernelCall& call);
int64_t linear_cross_entropy_cpu_workspace(const std::any& attrs, std::span<const Type> in,
                                           std::span<const Type> out);
int64_t linear_cross_entropy_grad_cpu_workspace(const std::any& attrs, std::span<const Type> in,
                                                std::span<const Type> out);

void linear_cross_entropy_composed(const KernelCall& call);
void linear_cross_entropy_grad_composed(const KernelCall& call);
int64_t linear_cross_entropy_composed_workspace(const std::any& attrs, std::span<const Type> in,
                                                std::span<const Type> out);
int64_t linear_cross_entropy_grad_composed_workspace(const std::any& attrs,
                                                     std::span<const Type> in,
                                                     std::span<const Type> out);

// The losses of a chunk's tokens and, where dlogits is not null, the gradients of their logits.
struct CrossEntropyRowsArguments {
  int64_t rows, vocabulary;
  int64_t targets_of_row = 1;
  float* logits;  // [rows, vocabulary]; on a GPU it stays as it is unless dlogits lies there
  const int32_t* targets;  // [rows, targets_of_row]; kIgnoredTarget: no loss and a gradient of zero
  float cap;               // of the logits; 0: none
  float* losses;           // [rows, targets_of_row]
  Dtype dtype;             // of dlogits: float32 or bfloat16. Read without gradients too, so that
                           // a loss is the same with them and without
  void* dlogits;           // [rows, vocabulary], null, or float32 in the logits' place
  // Not read without dlogits: of the sum of all losses, or [rows, targets_of_row].
  const float* dloss;
  Reduction reduction = Reduction::sum;

  LONGSHORE_DEVICE float dloss_of(int64_t row, int64_t target) const {
    return reduction == Reduction::sum ? *dloss : dloss[row * targets_of_row + target];
  }
};

// So many rows from a token on, of which logits and, for gradients, dlogits are still to be set.
// `losses` is [tokens, targets_of_row].
CrossEntropyRowsArguments cross_entropy_rows(const KernelCall& call,
                                             const LinearCrossEntropyAttrs& attrs, float* losses,
                                             int64_t token, int64_t rows);

// --- on a GPU: products by cuBLASLt, all else by kernels of our own

struct TotalLossArguments {
  int64_t tokens;
  const float* losses;
  float* total;  // their sum, added in float64 in a fixed order
};

// Into a cudaStream_t; throw Error when the launch fails.
void launch_cross_entropy_rows(const CrossEntropyRowsArguments& arguments, void* stream);
void launch_total_loss(const TotalLossArguments& arguments, void* stream);

using LaunchCrossEntropyRows = void (*)(const CrossEntropyRowsArguments&, void* stream);
using LaunchTotalLoss = void (*)(const TotalLossArguments&, void* stream);

// The op and its gradient by what is given.
void run_linear_cross_entropy(const KernelCall& call, RunProduct run, LaunchCrossEntropyRows rows,
                              LaunchTotalLoss total);
void run_linear_cross_entropy_grad(const KernelCall& call, RunProduct run,
                                   LaunchCrossEntropyRows rows, LaunchTotalLoss total);
int64_t linear_cross_entropy_cuda_workspace(const std::any& attrs, std::span<const Type> in,
                                            std::span<const Type> out);
int64_t linear_cross_entropy_grad_cuda_workspace(const std::any& attrs, std::span<const Type> in,
                                                 std::span<const Type> out);

}  // namespace longshore::models
