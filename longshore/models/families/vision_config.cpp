#include "longshore/models/families/vision_config.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "longshore/models/families/limits.h"

namespace longshore::models {
namespace {

constexpr int64_t kMostPixels = 8192;
constexpr std::array kFamilies = {&kPaliGemma, &kGemma3};

}  // namespace

const VisionFamily* find_vision_family(std::string_view name) {
  for (const VisionFamily* family : kFamilies)
    if (family->name == name) return family;
  return nullptr;
}

const VisionFamily* vision_family_of(const Family& decoder) {
  for (const VisionFamily* family : kFamilies)
    if (std::ranges::find(family->decoders, &decoder) != family->decoders.end()) return family;
  return nullptr;
}

const std::vector<VisionField>& vision_fields() {
  static const std::vector<VisionField> fields{
      {"image_size_for_vit", "image_size", &VisionConfig::image_size, kMostPixels, 224,
       "pixels of an image each way, to which it is resized"},
      {"patch_size_for_vit", "patch_size", &VisionConfig::patch_size, kMostPixels, 16,
       "pixels of a patch each way; divides image_size_for_vit"},
      {"hidden_size_for_vit", "hidden_size", &VisionConfig::width, kMaxWidth, 768,
       "width of the tower"},
      {"num_hidden_layers_for_vit", "num_hidden_layers", &VisionConfig::layers, kMaxLayers, 12,
       "layers of the tower"},
      {"num_attention_heads_for_vit", "num_attention_heads", &VisionConfig::heads, kMaxWidth, 12,
       "its attention heads; divides hidden_size_for_vit"},
      {"intermediate_size_for_vit", "intermediate_size", &VisionConfig::mlp_width, kMaxWidth, 3072,
       "width between its MLP's projections"},
  };
  return fields;
}

bool pools_evenly(const VisionConfig& config) {
  const auto across = std::llround(std::sqrt(static_cast<double>(config.image_tokens)));
  return across > 0 && across * across == config.image_tokens && config.side() % across == 0;
}

int64_t rows_of_image(const VisionFamily& family, const VisionConfig& config) {
  return family.pools ? config.image_tokens : config.patches();
}

}  // namespace longshore::models
