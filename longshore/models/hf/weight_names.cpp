#include "longshore/models/hf/weight_names.h"

#include <algorithm>
#include <iterator>

#include "longshore/base/integer.h"
#include "longshore/models/hf/text_model.h"
#include "longshore/models/hf/vision.h"

namespace longshore::models {
namespace {

// A buffer by the module that has it and its name there; "" for any.
struct Buffer {
  std::string_view module, name;
};

// What transformers' decoders have had of buffers.
constexpr Buffer kBuffers[] = {
    {"rotary_emb", ""},       {"rotary_emb_local", ""},
    {"", "inv_freq"},         {"", "position_ids"},
    {"", "masked_bias"},      {"attn", "bias"},
    {"self_attn", "bias"},    {"attention", "bias"},
    {"model", "causal_mask"}, {"embed_tokens", "embed_scale"},
};

// What stands under "model." in the whole model.
constexpr std::string_view kOfBaseModel[] = {
    "embed_tokens.", "embed_tokens_per_layer.",    "per_layer_model_projection.",
    "layers.",       "per_layer_projection_norm.", "norm."};

std::string_view last_word(std::string_view name) { return name.substr(name.rfind('.') + 1); }

}  // namespace

bool is_computed_buffer(std::string_view tensor) {
  const std::string_view name = last_word(tensor);
  const std::string_view path = tensor.substr(0, tensor.size() - name.size());
  const std::string_view module = path.empty() ? "" : last_word(path.substr(0, path.size() - 1));
  return std::ranges::any_of(kBuffers, [&](const Buffer& buffer) {
    return (buffer.module.empty() || buffer.module == module) &&
           (buffer.name.empty() || buffer.name == name);
  });
}

std::optional<std::string> hf_weight_name(std::string_view tensor) {
  if (is_computed_buffer(tensor)) return std::nullopt;
  std::optional<std::string> name = text_model_name(tensor);
  const bool lacks_prefix = name && std::ranges::any_of(kOfBaseModel, [&](std::string_view start) {
                              return name->starts_with(start);
                            });
  return lacks_prefix ? "model." + *name : name;
}

std::optional<std::string> hf_image_weight_name(std::string_view tensor) {
  if (is_computed_buffer(tensor)) return std::nullopt;
  return image_model_name(tensor);
}

bool is_unread_weight(const DecoderConfig& config, std::string_view name) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return false;
  name.remove_prefix(kLayers.size());
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return false;
  const std::optional<int64_t> layer = integer<int64_t>(name.substr(0, dot));
  if (!layer || *layer < 0 || *layer >= config.layers ||
      kv_sharing(config, *layer) != KvSharing::reads)
    return false;
  constexpr std::string_view kUnread[] = {"self_attn.k_proj.weight", "self_attn.v_proj.weight",
                                          "self_attn.k_norm.weight", "self_attn.v_norm.weight"};
  return std::ranges::find(kUnread, name.substr(dot + 1)) != std::end(kUnread);
}

}  // namespace longshore::models
