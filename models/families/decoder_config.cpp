#include "models/families/decoder_config.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace longshore::models {

bool has_window(const DecoderConfig& config, int64_t layer) {
  if (config.window == 0) return false;
  if (!config.windowed.empty()) return config.windowed[layer % std::ssize(config.windowed)];
  return config.full_attention_period == 0 || (layer + 1) % config.full_attention_period != 0;
}

bool has_rope(const DecoderConfig& config, int64_t layer) {
  if (!config.rotated.empty()) return config.rotated[layer % std::ssize(config.rotated)];
  return config.nope_layer_interval == 0 || (layer + 1) % config.nope_layer_interval != 0;
}

namespace {

// The p with which `has` every layer but each p-th; 0 where there is none.
int64_t period(const DecoderConfig& config, bool (*has)(const DecoderConfig&, int64_t)) {
  int64_t first = 0;
  while (first < config.layers && has(config, first)) ++first;
  for (int64_t layer = 0; layer < config.layers; ++layer)
    if (has(config, layer) != ((layer + 1) % (first + 1) != 0)) return 0;
  return first + 1;
}

}  // namespace

int64_t full_attention_period(const DecoderConfig& config) { return period(config, has_window); }
int64_t nope_layer_interval(const DecoderConfig& config) { return period(config, has_rope); }

DecoderConfig with_defaults_written_out(DecoderConfig config) {
  config.family = *std::ranges::find_if(
      families(), [&](const Family* one) { return computes_as(*one, *config.family); });
  const auto head_dim = static_cast<double>(config.head_dim);
  if (!config.query_pre_attn_scalar || config.attention_multiplier)
    config.query_pre_attn_scalar = head_dim;
  if (config.attention_multiplier == 1 / std::sqrt(head_dim)) config.attention_multiplier.reset();
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
  const bool has_windows = std::ranges::find(config.windowed, true) != config.windowed.end();
  if (!has_windows) config.window = 0;
  // Without a base of its own it is the other layers' rotation, scaling included, which no base
  // says.
  if (!has_windows || (!config.window_rope_base && config.rope_scaling == RopeScaling{}))
    config.window_rope_base = config.rope_base;
  return config;
}

}  // namespace longshore::models
