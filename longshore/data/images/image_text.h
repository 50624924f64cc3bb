// An ImageText says how images stand in the text of a model that reads them.
#pragma once

#include <cstdint>

namespace longshore::data {

struct ImageText {
  enum class Kind : uint8_t {
    before_text,  // PaliGemma: the tokens of all images, bos, the prompt; together one block
    in_text       // Gemma 3: each image's where it stands, between tokens of their own
  };

  Kind kind = Kind::before_text;
  int32_t image_token = -1;      // stands at each place that the model fills from an image
  int64_t tokens_per_image = 0;  // places
  bool operator==(const ImageText&) const = default;
};

}  // namespace longshore::data
