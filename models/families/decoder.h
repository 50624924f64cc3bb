// Decoders of the Llama and Gemma families, as Hugging Face's model_type names them:
//
//   llama         pre-norm decoder with RMSNorm, rotary positions, grouped key/value heads and
//                 a SwiGLU MLP (Touvron et al. 2023, arXiv 2307.09288); Llama 3.1 scales its
//                 rotations
//   mistral       llama with a sliding window (Jiang et al. 2023, arXiv 2310.06825)
//   qwen2, qwen3  llama with biases on query, key and value; with norms on query and key
//   gemma         llama with GeGLU, norms whose weights are added to 1, scaled embeddings
//                 (Gemma Team 2024, arXiv 2403.08295)
//   gemma2        also norms after attention and MLP, soft-caps, every other layer with a
//                 window (Gemma Team 2024, arXiv 2408.00118)
//   gemma3_text   norms on query and key in the place of soft-caps, five layers with a window
//                 for each without, and rotations of their own for these (Gemma Team 2025,
//                 arXiv 2503.19786)
//
// Weights have Hugging Face's names. Stages: `embed` (token ids to the first carry, and the
// rotation tables), `decoder` (the scan), `head` (final norm, output projection, loss).
#pragma once

#include <vector>

#include "models/families/lora.h"
#include "models/ir/model.h"
#include "models/ops/rope/rope.h"

namespace longshore::models {

// How a layer's parts are put together.
enum class Block : uint8_t {
  llama,  // SwiGLU
  gemma,  // GeGLU; norm weights are added to 1; embeddings times sqrt(width)
  gemma2  // gemma, and norms on what attention and MLP give
};

// Comments name the config keys.
struct DecoderConfig {
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
  bool deterministic = true;     // deterministic; of GPUs, others always are

  Block block = Block::llama;
  bool is_mistral = false;      // of block llama: others call it so, and it computes the same
  bool qkv_bias = false;        // on query, key and value
  bool output_bias = false;     // on attention's output projection
  bool mlp_bias = false;        // on the MLP's projections
  bool qk_norm = false;         // RMSNorm on each head's query and key
  RopeScaling rope_scaling;     // of layers without a window
  double query_scale = 0;       // of the scores; 0: head_dim^-1/2
  double attention_cap = 0;     // soft-cap of the scores; 0: none
  double logits_cap = 0;        // soft-cap of the logits; 0: none
  int64_t window = 0;           // of the layers that have one
  std::vector<bool> windowed;   // for each layer whether it has a window; empty: all, if window > 0
  double window_rope_base = 0;  // rotation base of layers with a window; 0: as the others
  // A token whose embedding gets no gradient where it is an input, as torch.nn.Embedding's
  // padding_idx; a tied head's gradient stays. -1: none.
  int64_t pad_token = -1;  // pad_token_id
  LoraConfig lora;         // adapters; with them all other weights are frozen
  bool segments = false;   // the batch has input `segments` i32 [B,T]: packed documents

  bool operator==(const DecoderConfig&) const = default;
};

// What Hugging Face's layer_types call layers without a window, and with one.
inline constexpr const char *kFullAttention = "full_attention",
                            *kSlidingAttention = "sliding_attention";

// Whether that layer, counted from 0, attends to a window only.
bool has_window(const DecoderConfig& config, int layer);

// The x of query_scale = 1/sqrt(x), to the last bit where there is one.
double query_pre_attn_scalar(double query_scale);

// The same decoder with what stands for a default written out (query_scale, windowed,
// window_rope_base), so that equal decoders compare equal.
DecoderConfig with_defaults_written_out(DecoderConfig config);

// What the head computes.
enum class Head {
  loss,           // batch `targets` i32 [B,T] -> sum of token losses
  logits,         // batch `rows` i32 [N] -> logits [N,V] of chosen positions, in `dtype`
  hidden_states,  // batch `targets` -> final norm [B,T,C] and logits [B,T,V], in `dtype`; the loss
};

struct HeadOptions {
  Head head = Head::loss;
  int64_t rows = 1;  // N, for logits
};

// Batch inputs: `tokens` i32 [B,T], `positions` i32 [B,T], `segments` where there are, and the
// head's.
Model decoder(const DecoderConfig& config, const HeadOptions& head = {});

// The same decoder, for text that is made token by token: each run takes the next T tokens of every
// row, whose places in it are `positions`, and keeps their keys and values. Each layer has the
// states `key_cache` and `value_cache` [B,P,G,D], P being `capacity`, the most tokens a row may
// have. Batch inputs: `tokens`, `positions`, and `rows` i32 [B], the positions of the flattened
// [B*T] whose logits [B,V] come out. Equal to `decoder` up to the order of summation.
Model cached_decoder(const DecoderConfig& config, int64_t capacity);

}  // namespace longshore::models
