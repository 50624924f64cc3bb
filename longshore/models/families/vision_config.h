// A VisionConfig describes what a decoder reads images with: a vision tower (SigLIP; Zhai et al.
// 2023, arXiv 2303.15343) and the projector that makes rows of the decoder of what it gives.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "longshore/models/families/family.h"

namespace longshore::models {

// What a kind of model makes of the tower's rows, and which positions of the decoder see each other
// both ways.
struct VisionFamily {
  const char* name;      // model_type
  const char* hf_class;  // the first of `architectures`
  // What its text model may be; the first is that of a config.json that does not say it.
  std::vector<const Family*> decoders = {};
  bool pools = false;  // averages windows of patches and norms them, before the projection
  // Whether images and prompt see each other (Gemma's prefix), or each image itself.
  bool has_prefix = false;
};

extern const VisionFamily kPaliGemma, kGemma3;

// nullptr if there is none of that name, or none with that decoder.
const VisionFamily* find_vision_family(std::string_view name);
const VisionFamily* vision_family_of(const Family& decoder);

// Comments name the config keys.
struct VisionConfig {
  const VisionFamily* family = &kPaliGemma;  // model_type
  int64_t images = 1;  // in the batch; with none the model is of text alone, by its full names
  int64_t image_size = 224;    // image_size_for_vit: pixels, both ways
  int64_t patch_size = 14;     // patch_size_for_vit: likewise
  int64_t width = 1152;        // hidden_size_for_vit
  int64_t layers = 27;         // num_hidden_layers_for_vit
  int64_t heads = 16;          // num_attention_heads_for_vit
  int64_t mlp_width = 4304;    // intermediate_size_for_vit
  double norm_epsilon = 1e-6;  // normalization_layer_epsilon_for_vit
  int64_t image_tokens = 256;  // mm_tokens_per_image: rows of one in the decoder
  int64_t image_token = -1;    // image_token_id: the token where they go

  bool reads_images() const { return images > 0; }
  int64_t side() const { return image_size / patch_size; }  // patches
  int64_t patches() const { return side() * side(); }
  int64_t patch_values() const { return 3 * patch_size * patch_size; }

  bool operator==(const VisionConfig&) const = default;
};

// A size of the tower, from 1 to `most`.
struct VisionField {
  const char* key;     // of configs
  const char* hf_key;  // of the vision_config in config.json
  int64_t VisionConfig::*member;
  int64_t most;
  int64_t otherwise;  // what transformers takes where config.json does not say it
  const char* help;
};

const std::vector<VisionField>& vision_fields();

// Whether windows of the patches, equal squares, can be averaged to that many rows.
bool pools_evenly(const VisionConfig& config);
// Rows of one image in the decoder, with that family: mm_tokens_per_image, or a row for each patch.
int64_t rows_of_image(const VisionFamily& family, const VisionConfig& config);

}  // namespace longshore::models
