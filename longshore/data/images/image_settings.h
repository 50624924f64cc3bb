// Reads how a Hugging Face folder's image processor makes pixel values.
//
// The processors of SigLIP (which PaliGemma's folders name) and of Gemma 3 are known, in all their
// variants: those with "Fast" resize on tensors and differ by a level here and there from what
// write_pixel_values() does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "longshore/data/images/pixel_values.h"
#include "longshore/data/images/transparent_color.h"

namespace longshore::data {

struct ImageSettings {
  PixelSettings pixels;
  TransparentColor transparent_color = TransparentColor::white;
  std::optional<int64_t> image_seq_length;  // tokens that stand for an image, where a file says it
};

// Of the texts of preprocessor_config.json and of processor_config.json, which goes before it where
// it has an "image_processor"; "" where there is no such file. Throws a DataError, which names the
// file, on what is not supported.
ImageSettings parse_image_settings(std::string_view preprocessor_config,
                                   std::string_view processor_config);

ImageSettings read_image_settings(const std::filesystem::path& folder);

}  // namespace longshore::data
