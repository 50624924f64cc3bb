#include "longshore/models/families/decoder_config.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace longshore::models {

namespace {

// Whether a layer has what the list says of each, from the start again for further layers, or,
// where it is empty, all but each `period`th have.
bool has(const std::vector<bool>& list, int64_t period, int64_t layer) {
  if (!list.empty()) return list[layer % std::ssize(list)];
  return period == 0 || (layer + 1) % period != 0;
}

// The p with which every p-th layer alone is said not to have it; 0 where there is none.
int64_t period(const DecoderConfig& config, bool (*said)(const DecoderConfig&, int64_t)) {
  int64_t first = 0;
  while (first < config.layers && said(config, first)) ++first;
  for (int64_t layer = 0; layer < config.layers; ++layer)
    if (said(config, layer) != has({}, first + 1, layer)) return 0;
  return first + 1;
}

}  // namespace

const char* window_word(const Family& family) {
  return family.layer.window == WindowKind::chunk ? "chunked_attention" : kSlidingAttention;
}

bool has_window(const DecoderConfig& config, int64_t layer) {
  if (config.family->hf.last_is_global && layer == config.layers - 1) return false;
  return config.window > 0 && has(config.windowed, config.full_attention_period, layer);
}

bool has_rope(const DecoderConfig& config, int64_t layer) {
  return has(config.rotated, config.nope_layer_interval, layer);
}

int64_t head_dim(const DecoderConfig& config, bool has_window) {
  return has_window ? config.head_dim : config.global_head_dim.value_or(config.head_dim);
}

int64_t kv_heads(const DecoderConfig& config, bool has_window) {
  return has_window ? config.kv_heads : config.global_kv_heads.value_or(config.kv_heads);
}

KvSharing kv_sharing(const DecoderConfig& config, int64_t layer) {
  const int64_t own = config.layers - config.kv_shared_layers;
  if (layer >= own) return KvSharing::reads;
  auto is_alike = [&](int64_t other) {
    return has_window(config, other) == has_window(config, layer);
  };
  for (int64_t later = layer + 1; later < own; ++later)
    if (is_alike(later)) return KvSharing::none;
  for (int64_t reader = own; reader < config.layers; ++reader)
    if (is_alike(reader)) return KvSharing::gives;
  return KvSharing::none;
}

std::optional<int64_t> layer_without_keys(const DecoderConfig& config) {
  const int64_t own = config.layers - config.kv_shared_layers;
  for (int64_t reader = std::max<int64_t>(own, 0); reader < config.layers; ++reader) {
    int64_t giver = own - 1;
    while (giver >= 0 && has_window(config, giver) != has_window(config, reader)) --giver;
    if (giver < 0) return reader;
  }
  return std::nullopt;
}

bool has_experts(const DecoderConfig& config, int64_t layer) {
  if (config.experts == 0) return false;
  return config.sparse.empty() ? (layer + 1) % config.moe_layer_step == 0
                               : has(config.sparse, 0, layer);
}

int64_t layers_with_experts(const DecoderConfig& c) {
  int64_t layers = 0;
  for (int64_t layer = 0; layer < c.layers; ++layer) layers += has_experts(c, layer) ? 1 : 0;
  return layers;
}

int64_t moe_layer_step(const DecoderConfig& config) {
  int64_t first = 0;
  while (first < config.layers && !has_experts(config, first)) ++first;
  for (int64_t layer = 0; layer < config.layers; ++layer)
    if (has_experts(config, layer) != ((layer + 1) % (first + 1) == 0)) return 0;
  return first + 1;
}

int64_t expert_width(const DecoderConfig& config) {
  return config.expert_width > 0 ? config.expert_width : config.mlp_width;
}

int64_t mlp_width(const DecoderConfig& config, KvSharing sharing) {
  const bool is_double = config.double_wide_mlp && sharing == KvSharing::reads;
  return (is_double ? 2 : 1) * config.mlp_width;
}

int64_t rotary_dim(const DecoderConfig& config, bool has_window) {
  return static_cast<int64_t>(static_cast<double>(head_dim(config, has_window)) *
                              config.partial_rotary_factor);
}

int64_t full_attention_period(const DecoderConfig& config) { return period(config, has_window); }
int64_t nope_layer_interval(const DecoderConfig& config) { return period(config, has_rope); }

DecoderConfig with_defaults_written_out(DecoderConfig config) {
  config.family = *std::ranges::find_if(
      families(), [&](const Family* one) { return computes_as(*one, *config.family); });
  const auto width_of_head = static_cast<double>(config.head_dim);
  if (!config.query_pre_attn_scalar || config.attention_multiplier)
    config.query_pre_attn_scalar = width_of_head;
  if (config.attention_multiplier == 1 / std::sqrt(width_of_head))
    config.attention_multiplier.reset();
  std::vector<bool> windowed;
  for (int64_t layer = 0; layer < config.layers; ++layer)
    windowed.push_back(has_window(config, layer));
  config.windowed = std::move(windowed);
  config.full_attention_period = 0;
  std::vector<bool> rotated;
  for (int64_t layer = 0; layer < config.layers; ++layer)
    rotated.push_back(has_rope(config, layer));
  config.rotated = std::move(rotated);
  config.nope_layer_interval = 0;
  std::vector<bool> sparse;
  for (int64_t layer = 0; layer < config.layers; ++layer)
    sparse.push_back(has_experts(config, layer));
  config.sparse = std::move(sparse);
  config.moe_layer_step = 1;
  config.expert_width = config.experts > 0 ? expert_width(config) : 0;
  config.normalizes_experts |= config.family->layer.experts.normalizes;
  if (config.activation_limit == 0) config.activation_alpha = DecoderConfig{}.activation_alpha;
  if (!config.has_unrotated_temperature) {
    config.unrotated_temperature_beta = DecoderConfig{}.unrotated_temperature_beta;
    config.unrotated_temperature_length = DecoderConfig{}.unrotated_temperature_length;
  }
  config.balance_loss = {};
  config.balance_loss_weight = config.router_z_loss_weight = 0;  // which trains it, but is not it
  config.max_position_embeddings.reset();
  if (config.kv_shared_layers == 0) config.double_wide_mlp = false;
  config.global_head_dim = head_dim(config, false);
  config.global_kv_heads = kv_heads(config, false);
  const bool has_windows = std::ranges::find(config.windowed, true) != config.windowed.end();
  if (!has_windows) config.window = 0;
  // Without a base of its own it is the other layers' rotation, scaling included, which no base
  // says.
  if (!has_windows || (!config.window_rope_base && config.rope_scaling == RopeScaling{}))
    config.window_rope_base = config.rope_base;
  return config;
}

}  // namespace longshore::models
