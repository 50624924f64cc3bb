// The loss goes through its tokens in chunks, by products whose operands lie in one workspace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "longshore/models/ops/kernels/matmul.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy_kernels.h"

namespace longshore::models {

// How many tokens at a time: one of so many of a step's, at least `least`, and more of them only up
// to `most` and these bytes. Where a step has many tokens, what is kept of them makes more room
// look small.
struct TokenShare {
  int64_t one_of, least = 0, most = 0, most_bytes = 0;
};

// Tokens whose logits exist at a time: as many as logits_bytes hold, or as many as their share,
// rounded down to a multiple. And tokens whose gradients of logits exist at a time, where these are
// narrower than the logits and W has a gradient.
struct ChunkSize {
  int64_t logits_bytes, multiple;
  TokenShare logits, gradients;
};

// Not much more than caches hold; products of fewer tokens are slower.
inline constexpr ChunkSize kChunkOnCpu{.logits_bytes = int64_t{32} << 20,
                                       .multiple = 16,
                                       .logits = {.one_of = 1, .least = 256},
                                       .gradients = {.one_of = 1}};
// Every product reads all of W, and dW's reads and writes that in float32, which it hides only in
// part. With 128,256 words an H200 takes 40.8 ms for 8192 tokens by 512 and 1536 at a time, 36.5 by
// 512 and 4096, 35.9 by 1024 and 4096, and no less than 35.5 by more.
inline constexpr ChunkSize kChunkOnCuda{.logits_bytes = int64_t{128} << 20,
                                        .multiple = 512,
                                        .logits = {16, 512, 1024, int64_t{512} << 20},
                                        .gradients = {4, 1536, 4096, int64_t{1} << 30}};

int64_t chunk_tokens(const ChunkSize& size, int64_t tokens, int64_t vocabulary);

// The products of a chunk or group: of its tokens x, of W and of the gradients of logits.
struct CrossEntropyProducts {
  Matmul logits, dx, dweight_first, dweight;
};

CrossEntropyProducts cross_entropy_products(const Type& x, const Type& weight, Dtype gradient,
                                            int64_t tokens, Into logits = Into::overwrite);

// Those of z and U, whose logits come first: then those of x and W are added to them.
CrossEntropyProducts frozen_products(std::span<const Type> in, int z, int64_t tokens);

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
