#include "longshore/trainer/config/model_keys.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <system_error>
#include <unordered_set>

#include "longshore/base/error.h"
#include "longshore/base/integer.h"
#include "longshore/base/printable.h"
#include "longshore/models/families/decoder_config.h"
#include "longshore/models/families/family.h"
#include "longshore/models/families/limits.h"
#include "longshore/trainer/config/key_values.h"

namespace longshore::trainer {

bool has_dense_layers(const Config& config) {
  return !config.mlp_only_layers.empty() ||
         models::layers_with_experts(config.model) < config.model.layers;
}

namespace {

// "MODULE:VALUE", where an expression may have colons too.
template <class T>
std::vector<std::pair<std::string, T>> module_values(const Config& config, const std::string& key,
                                                     const std::vector<std::string>& items, T least,
                                                     T most, const std::string& values) {
  std::vector<std::pair<std::string, T>> found;
  for (const std::string& item : items) {
    const size_t colon = std::min(item.rfind(':'), item.size());
    const char *begin = item.data() + std::min(colon + 1, item.size()),
               *end = item.data() + item.size();
    T value{};
    const auto [rest, error] = std::from_chars(begin, end, value);
    if (colon == 0 || rest != end || error != std::errc() || !(value >= least && value <= most))
      throw ConfigError(location(config, key) + ": found " + excerpt(item) +
                        ", expected MODULE:VALUE, with values that are " + values +
                        ", as in q_proj:16");
    found.emplace_back(item.substr(0, colon), value);
  }
  return found;
}

std::vector<std::string> lora_targets_of_layers(const Config& config) {
  std::vector<std::string> targets =
      models::lora_targets(config.model.family->layer, has_dense_layers(config));
  if (config.model.experts == 0) std::erase_if(targets, models::is_expert_target);
  return targets;
}

}  // namespace

std::vector<std::string> known_lora_targets(const Config& config) {
  std::vector<std::string> targets = lora_targets_of_layers(config);
  if (!config.model.tied_embeddings && !config.use_multimodal)
    targets.emplace_back(models::kHeadModule);
  return targets;
}

std::vector<std::string> lora_targets(const Config& config) {
  const bool is_all = config.lora_targets == std::vector<std::string>{kAllLinear};
  return is_all ? lora_targets_of_layers(config) : config.lora_targets;
}

std::vector<int64_t> trained_tokens(const Config& config) {
  std::vector<int64_t> tokens;
  std::unordered_set<int64_t> seen;
  for (const std::string& text : config.trainable_token_indices) {
    const std::optional<int64_t> token = integer<int64_t>(text);
    if (!token || *token < 0 || *token >= config.model.vocabulary)
      throw ConfigError(location(config, "trainable_token_indices") + ": found " + excerpt(text) +
                        ", expected numbers of tokens from 0 to below " +
                        described(config, "vocab_size"));
    if (!seen.insert(*token).second)
      throw ConfigError(location(config, "trainable_token_indices") + ": found " + excerpt(text) +
                        " twice, expected each token once");
    tokens.push_back(*token);
  }
  if (std::ranges::find(config.modules_to_save, models::kEmbeddingModule) !=
      config.modules_to_save.end())
    return tokens;
  for (const int64_t token : config.added_tokens)
    if (std::ranges::find(tokens, token) == tokens.end()) tokens.push_back(token);
  return tokens;
}

std::vector<std::pair<std::string, int64_t>> rank_pattern(const Config& config) {
  return module_values<int64_t>(config, "rank_pattern", config.rank_pattern, 1,
                                models::kMaxLoraRank,
                                "integers from 1 to " + std::to_string(models::kMaxLoraRank));
}

std::vector<std::pair<std::string, double>> alpha_pattern(const Config& config) {
  return module_values<double>(config, "alpha_pattern", config.alpha_pattern,
                               std::numeric_limits<float>::min(), std::numeric_limits<float>::max(),
                               "numbers above 0");
}

models::LoraConfig lora_config(const Config& config) {
  if (config.lora_rank == 0) return {};
  return {.rank = config.lora_rank,
          .alpha = config.lora_alpha,
          .targets = lora_targets(config),
          .rank_stabilized = config.use_rslora,
          .per_expert = config.lora_per_expert && config.model.experts > 0,
          .dropout = config.lora_dropout,
          .dropout_seed = static_cast<uint64_t>(config.seed),
          .has_magnitudes = config.use_dora,
          .saved_modules = config.modules_to_save,
          .trained_tokens = trained_tokens(config),
          .modules = config.lora_modules};
}

std::vector<bool> windowed(const Config& config) {
  std::vector<bool> layers;
  for (const std::string& type : config.layer_types)
    layers.push_back(type != models::kFullAttention);
  return layers;
}

models::RopeScaling rope_scaling(const Config& config) {
  switch (config.rope_type) {
    case RopeType::unscaled:
      return {};
    case RopeType::linear:
      return models::LinearRopeScaling{config.rope_factor};
    case RopeType::llama3:
      return models::Llama3RopeScaling{
          config.rope_factor, config.rope_low_freq_factor, config.rope_high_freq_factor,
          static_cast<double>(config.rope_original_max_position_embeddings)};
    case RopeType::yarn:
      return models::YarnRopeScaling{
          .factor = config.rope_factor,
          .original_max_position_embeddings =
              static_cast<double>(config.rope_original_max_position_embeddings),
          .beta_fast = config.beta_fast,
          .beta_slow = config.beta_slow,
          .truncate = config.rope_truncate,
          .attention_factor = config.rope_attention_factor > 0
                                  ? config.rope_attention_factor
                                  : models::yarn_attention_factor(config.rope_factor)};
    case RopeType::proportional:
      return models::ProportionalRopeScaling{.turned = config.model.partial_rotary_factor,
                                             .factor = config.rope_factor};
  }
  throw InternalError("a rope_type without a scaling");
}

}  // namespace longshore::trainer
