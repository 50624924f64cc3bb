// Our own kernels on a GPU of what linear_cross_entropy does beside its matrix products.
#pragma once

#include "models/op.h"
#include "models/ops/cublaslt_matmul.h"

namespace longshore::models {

// The losses of a chunk's tokens and, where dlogits is not null, the gradients of their logits.
struct CrossEntropyRowsArguments {
  int64_t rows, vocabulary;
  float* logits;           // [rows, vocabulary]; stays as it is unless dlogits lies there
  const int32_t* targets;  // [rows]; kIgnoredTarget: no loss and a gradient of zero
  float cap;               // of the logits; 0: none
  float* losses;           // [rows]
  Dtype dtype;             // of dlogits: float32 or bfloat16. Read without gradients too, so that
                           // a loss is the same with them and without
  void* dlogits;           // [rows, vocabulary], null, or float32 in the logits' place
  const float* dloss;      // a scalar, not read without dlogits
};

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

}  // namespace longshore::models
