#include "longshore/models/ops/kernels/cuda_group.cuh"
#include "longshore/models/ops/permute/permute_kernels.h"

namespace longshore::models {

void launch_group_by_expert(const GroupByExpertArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "group_by_expert"));
}

void launch_permute_tokens(const PermuteArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "permute_tokens"));
}

void launch_sum_tokens(const SumTokensArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "a sum of tokens' rows"));
}

void launch_combine_tokens_grad(const CombineGradArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "combine_tokens_grad"));
}

}  // namespace longshore::models
