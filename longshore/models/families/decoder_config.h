// A DecoderConfig describes a decoder: its family, its sizes, and the batch that it is traced for.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "longshore/models/families/family.h"
#include "longshore/models/families/lora_config.h"
#include "longshore/models/families/vision_config.h"
#include "longshore/models/ir/types.h"
#include "longshore/models/ops/rope/rope_options.h"

namespace longshore::models {

// Of what the loss that balances experts is: of each row of a layer, the mean over rows and layers
// with experts, as in MaxText; or of all tokens of all layers together, padding aside, as in
// transformers.
enum class BalanceLoss : uint8_t { rows, model };

// Comments name the config keys; fields.h has their ranges.
struct DecoderConfig {
  int64_t batch = 1;           // per_device_batch_size
  int64_t length = 2048;       // max_target_length
  int64_t vocabulary = 32000;  // vocab_size
  int64_t width = 4096;        // base_emb_dim
  int64_t layers = 32;         // base_num_decoder_layers
  int64_t query_heads = 32;    // base_num_query_heads
  int64_t kv_heads = 32;       // base_num_kv_heads
  int64_t head_dim = 128;      // head_dim
  // Of layers without a window: global_head_dim, global_num_kv_heads; unset: as the others'.
  std::optional<int64_t> global_head_dim, global_kv_heads;
  bool keys_as_values = false;  // share_kv_projections: in layers without a window
  // The last layers that have no keys and values of their own, but those of the last layer before
  // them that has a window as they have, or none: num_kv_shared_layers.
  int64_t kv_shared_layers = 0;
  int64_t mlp_width = 11008;     // base_mlp_dim
  bool double_wide_mlp = false;  // use_double_wide_mlp: in layers that share keys and values
  // Experts in the place of MLPs.
  int64_t experts = 0;              // num_experts; 0: none
  int64_t experts_per_token = 0;    // num_experts_per_tok
  int64_t expert_width = 0;         // base_moe_mlp_dim; 0: as mlp_width
  bool normalizes_experts = false;  // norm_topk_prob: a token's experts have weights of sum 1
  // Which layers have experts: all but mlp_only_layers; empty: each interleave_moe_layer_step'th.
  std::vector<bool> sparse = {};
  int64_t moe_layer_step = 1;
  double balance_loss_weight = 0;                // load_balance_loss_weight
  BalanceLoss balance_loss = BalanceLoss::rows;  // load_balance_loss_type
  double router_z_loss_weight = 0;   // router_z_loss_weight; mean over layers with experts
  int64_t per_layer_width = 0;       // hidden_size_per_layer_input; 0: layers have no such input
  double norm_epsilon = 1e-5;        // normalization_layer_epsilon
  double rope_base = 10000;          // rope_max_timescale
  double partial_rotary_factor = 1;  // partial_rotary_factor: the share of a head that turns
  bool tied_embeddings = false;      // logits_via_embedding
  Dtype dtype = Dtype::float32;      // dtype
  bool deterministic = true;         // deterministic; of GPUs, others always are

  const Family* family = &kLlama;  // model_type
  bool attention_bias = false;     // attention_bias: on query, key, value and output
  bool mlp_bias = false;           // mlp_bias
  RopeScaling rope_scaling;        // rope_type, of layers without a window
  double temperature_beta = 0;     // llama_4_scaling_beta: of the queries' temperature; 0: none
  // Of the queries' temperature in layers without RoPE: temperature_tuning,
  // temperature_tuning_scale and temperature_tuning_floor_scale.
  bool has_unrotated_temperature = false;
  double unrotated_temperature_beta = 0.1;
  int64_t unrotated_temperature_length = 8192;
  bool has_qk_norm = false;     // use_qk_norm, of families in which it is not always there
  double activation_alpha = 1;  // mlp_activations_alpha: of the gate within the sigmoid
  double activation_limit = 0;  // mlp_activations_limit: of gate and up
  std::optional<double> query_pre_attn_scalar;  // scores are divided by its root; unset: head_dim
  double embedding_multiplier = 1;              // embedding_multiplier
  std::optional<double> attention_multiplier;   // of scores; unset: by query_pre_attn_scalar
  double residual_multiplier = 1;               // residual_multiplier
  double logits_scaling = 1;                    // logits_scaling: logits are divided by it
  double attention_cap = 0;                     // attn_logits_soft_cap; 0: none
  double logits_cap = 0;                        // final_logits_soft_cap; 0: none
  int64_t window = 0;                           // sliding_window_size, of the layers that have one
  // Which layers have a window, if window > 0. layer_types: for each layer whether it has, from the
  // start again for further layers; empty: full_attention_period decides, each so many'th layer has
  // none; 0: all have it.
  std::vector<bool> windowed;
  int64_t full_attention_period = 0;
  // Which layers turn query and key by their positions, in the same way: no_rope_layers, and
  // nope_layer_interval, each so many'th layer does not.
  std::vector<bool> rotated;
  int64_t nope_layer_interval = 0;
  std::optional<double> window_rope_base;  // local_rope_max_timescale; unset: as the other layers
  // A token whose embedding gets no gradient where it is an input, as torch.nn.Embedding's
  // padding_idx; a tied head's gradient stays.
  std::optional<int64_t> pad_token;  // pad_token_id
  LoraConfig lora;                   // adapters; with them all other weights are frozen
  std::optional<int64_t> max_position_embeddings;  // as config.json says; nothing is computed of it
  bool segments = false;  // the batch has input `segments` i32 [B,T]: packed documents
  std::optional<VisionConfig> vision = {};  // of a decoder that reads images too

  bool operator==(const DecoderConfig&) const = default;
};

// What Hugging Face's layer_types call layers without a window, and with one.
inline constexpr const char *kFullAttention = "full_attention",
                            *kSlidingAttention = "sliding_attention";
const char* window_word(const Family& family);

// Whether that layer, counted from 0, attends to a window only.
bool has_window(const DecoderConfig& config, int64_t layer);
// Whether that layer, counted from 0, turns query and key by their positions.
bool has_rope(const DecoderConfig& config, int64_t layer);
// The sizes of a layer with or without a window.
int64_t head_dim(const DecoderConfig& config, bool has_window);
int64_t kv_heads(const DecoderConfig& config, bool has_window);
// Whether that layer has keys and values of its own, and gives them to others, or others'.
enum class KvSharing : uint8_t { none, gives, reads };
KvSharing kv_sharing(const DecoderConfig& config, int64_t layer);
// The first of the layers that read keys and values for which no layer has any; none where all find
// theirs.
std::optional<int64_t> layer_without_keys(const DecoderConfig& config);
// Whether that layer, counted from 0, has experts.
bool has_experts(const DecoderConfig& config, int64_t layer);
int64_t layers_with_experts(const DecoderConfig& config);
// The s with which each s-th layer has experts and no other has; 0 where there is no such s.
int64_t moe_layer_step(const DecoderConfig& config);
// The width between an expert's projections.
int64_t expert_width(const DecoderConfig& config);
// The width of that layer's MLP.
int64_t mlp_width(const DecoderConfig& config, KvSharing sharing);
// The numbers of a head of such a layer that turn, the first ones.
int64_t rotary_dim(const DecoderConfig& config, bool has_window);
// The p with which every p-th layer is without rotations and no other is, as for windows.
int64_t nope_layer_interval(const DecoderConfig& config);
// The p with which every p-th layer is without a window and no other is, the older spelling of
// layer_types: 1 where none has one, more than there are layers where all have one; 0 where there
// is no such p.
int64_t full_attention_period(const DecoderConfig& config);

// The same decoder with what stands for a default written out (query_pre_attn_scalar, windowed,
// rotated, window_rope_base; an attention_multiplier that is the default is left out, and
// max_position_embeddings, losses on routers, and a double_wide_mlp that no layer has), and the
// family that others are compared as, so that decoders that compute the same compare equal.
DecoderConfig with_defaults_written_out(DecoderConfig config);

}  // namespace longshore::models
