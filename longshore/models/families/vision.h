// Traces the stages that make rows of a decoder of images: patches, tower, projector.
//
// Weights have the names of published folders. The tower's layers emit labels of the decoder's, so
// that policies can speak of them.
#pragma once

#include <vector>

#include "longshore/models/families/decoder_config.h"
#include "longshore/models/ir/model.h"

namespace longshore::models {

// The tower's scan.
inline constexpr const char* kVisionStage = "vision";
// Batch inputs, see below and decoder.h.
inline constexpr const char *kPixelValues = "pixel_values", *kImagePlaces = "image_places",
                            *kBlocks = "blocks", *kSpans = "spans";

// Whether what the tower gives, normed, is an output too: nothing that trains reads it.
enum class TowerOutput : uint8_t { inner, returned };

// Of a config that has `vision`. The first reads the batch input `pixel_values` in `dtype`: N
// images of P patches, each a patch's pixels in the order of the patch embedding's weight: channel,
// row, column. The last gives [N,R,C], R rows for each image, and then, if it is returned, what the
// tower gives [N,P,E]. `first` is the number of stages before them.
std::vector<Stage> vision_stages(const DecoderConfig& config, int first, TowerOutput tower);

}  // namespace longshore::models
