// Runs linear's ops on a GPU, by the matrix product that the caller gives.
#pragma once

#include "longshore/models/ir/op.h"
#include "longshore/models/ops/kernels/cublaslt_matmul.h"

namespace longshore::models {

void run_linear(const KernelCall& call, RunProduct run);
void run_linear_input_grad(const KernelCall& call, RunProduct run);
void run_linear_weight_grad(const KernelCall& call, RunProduct run);

}  // namespace longshore::models
