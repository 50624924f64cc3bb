// The Llama family (Touvron et al. 2023, arXiv 2307.09288): pre-norm decoder with RMSNorm, rotary
// positions, grouped key/value heads and a SwiGLU MLP. Weights have Hugging Face's names.
//
// Stages: `embed` (token ids to the first carry, and the rotation tables), `decoder` (the scan),
// `head` (final norm, output projection, loss).
#pragma once

#include "models/model.h"

namespace longshore::models {

// Comments name the config keys.
struct LlamaConfig {
  int64_t batch = 1;             // per_device_batch_size
  int64_t length = 2048;         // max_target_length
  int64_t vocabulary = 32000;    // vocab_size
  int64_t width = 4096;          // base_emb_dim
  int layers = 32;               // base_num_decoder_layers
  int64_t query_heads = 32;      // base_num_query_heads
  int64_t kv_heads = 32;         // base_num_kv_heads
  int64_t head_dim = 128;        // head_dim
  int64_t mlp_width = 11008;     // base_mlp_dim
  double norm_epsilon = 1e-5;    // normalization_layer_epsilon
  double rope_base = 10000;      // rope_max_timescale
  bool tied_embeddings = false;  // logits_via_embedding
  Dtype dtype = Dtype::float32;  // dtype
};

// What the head computes.
enum class Head {
  loss,    // batch `targets` i32 [B,T] -> sum of token losses
  logits,  // batch `rows` i32 [N] -> logits [N,V] of chosen positions, in `dtype`
};

struct HeadOptions {
  Head head = Head::loss;
  int64_t rows = 1;  // N, for logits
};

// Batch inputs: `tokens` i32 [B,T], `positions` i32 [B,T], and the head's.
Model llama(const LlamaConfig& config, const HeadOptions& head = {});

}  // namespace longshore::models
