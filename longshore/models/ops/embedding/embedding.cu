#include "longshore/models/ops/embedding/embedding_kernels.h"
#include "longshore/models/ops/kernels/cuda_group.cuh"

namespace longshore::models {

void launch_embedding_grad(const EmbeddingGradArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "embedding_grad"));
}

}  // namespace longshore::models
