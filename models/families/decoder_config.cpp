// What a decoder's config says by itself, without the ops that a decoder is made of.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "models/families/decoder.h"

namespace longshore::models {

bool has_window(const DecoderConfig& config, int layer) {
  return config.window > 0 && (config.windowed.empty() || config.windowed[layer]);
}

double query_pre_attn_scalar(double query_scale) {
  const double near = 1 / (query_scale * query_scale);
  if (const double whole = std::round(near); 1 / std::sqrt(whole) == query_scale) return whole;
  constexpr int kMaxSteps = 8;  // roundings are fewer
  double below = near, above = near;
  for (int step = 0; step < kMaxSteps; ++step) {
    for (double candidate : {below, above})
      if (1 / std::sqrt(candidate) == query_scale) return candidate;
    below = std::nextafter(below, 0.0);
    above = std::nextafter(above, INFINITY);
  }
  return near;
}

DecoderConfig with_defaults_written_out(DecoderConfig config) {
  if (config.query_scale == 0)
    config.query_scale = 1 / std::sqrt(static_cast<double>(config.head_dim));
  std::vector<bool> windowed;
  for (int layer = 0; layer < config.layers; ++layer) windowed.push_back(has_window(config, layer));
  config.windowed = std::move(windowed);
  const bool has_windows = std::ranges::find(config.windowed, true) != config.windowed.end();
  if (!has_windows) config.window = 0;
  // Base 0 is the other layers' rotation, scaling included, which no base can say.
  if (!has_windows || (config.window_rope_base == 0 && config.rope_scaling == RopeScaling{}))
    config.window_rope_base = config.rope_base;
  return config;
}

}  // namespace longshore::models
