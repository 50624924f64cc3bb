// How the loss goes through its tokens: in chunks, by products whose operands lie in one workspace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "models/ops/linear_cross_entropy_kernels.h"
#include "models/ops/matmul.h"

namespace longshore::models {

// Tokens whose logits exist at a time: as many as the budget holds, but enough for products to run
// well.
struct ChunkSize {
  int64_t logits_bytes;
  int64_t multiple, least;  // tokens
  // Tokens whose gradients of logits exist at a time where these are narrower than the logits and
  // W has a gradient.
  int64_t least_gradients = 0;
};

// Not much more than caches hold; products of fewer tokens are slower.
inline constexpr ChunkSize kChunkOnCpu{.logits_bytes = 32 << 20, .multiple = 16, .least = 256};
// Every product reads all of W, and dW's reads and writes that in float32: an H100 moves it as fast
// as it computes from some 250 tokens on, and with dW from 1000. More leave products the time to
// hide that, and cost memory.
inline constexpr ChunkSize kChunkOnCuda{
    .logits_bytes = 128 << 20, .multiple = 256, .least = 512, .least_gradients = 1536};

int64_t chunk_tokens(const ChunkSize& size, int64_t tokens, int64_t vocabulary);

// The products of a chunk or group: of its tokens x, of W and of the gradients of logits.
struct CrossEntropyProducts {
  Matmul logits, dx, dweight_first, dweight;
};

CrossEntropyProducts cross_entropy_products(const Type& x, const Type& weight, Dtype gradient,
                                            int64_t tokens);

// The workspace, cut into its parts at these offsets, and the tokens of a chunk, which has its
// logits at a time, and of a group of chunks, which has their gradients. Those that are float32
// take the logits' place: they have no part.
struct CrossEntropyWorkspace {
  int64_t chunk, group, logits, dlogits, losses, scratch, bytes;
};

// What a product takes of the workspace.
using ScratchBytes = int64_t (*)(const Matmul& matmul);

// No attrs: the loss alone.
CrossEntropyWorkspace cross_entropy_workspace(std::span<const Type> in,
                                              const LinearCrossEntropyGradAttrs* attrs,
                                              const ChunkSize& chunk_size,
                                              ScratchBytes scratch_bytes);

}  // namespace longshore::models
