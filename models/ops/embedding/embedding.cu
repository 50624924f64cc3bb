#include "models/ops/kernels/cuda_group.cuh"
#include "models/ops/embedding/embedding_body.h"

namespace longshore::models {

void launch_embedding_grad(const EmbeddingGradArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "embedding_grad"));
}

}  // namespace longshore::models
