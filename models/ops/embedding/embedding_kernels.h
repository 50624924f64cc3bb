// Our custom kernel on a GPU of an embedding's gradient.
#pragma once

#include "models/ir/op.h"

namespace longshore::models {

struct EmbeddingGradArguments {
  Dtype dtype;  // of dy: float32 or bfloat16
  int64_t tokens, vocabulary, width;
  int64_t padding;      // id whose row gets nothing; -1: none
  const int32_t* ids;   // [tokens], each in [0, vocabulary)
  const void* dy;       // [tokens, width]
  int32_t* sorted;      // [2, tokens]: tokens in the order of their ids, and these ids
  const float* so_far;  // [vocabulary, width]; null where there is no sum yet; may be dweight
  float* dweight;       // [vocabulary, width]
};

EmbeddingGradArguments embedding_grad_arguments(const KernelCall& call);
// Into a cudaStream_t; throws Error when the launch fails.
void launch_embedding_grad(const EmbeddingGradArguments& arguments, void* stream);

}  // namespace longshore::models
