// image_text() says how images stand in the text of a model that reads them.
#pragma once

#include "longshore/data/images/image_text.h"
#include "longshore/models/families/vision_config.h"

namespace longshore::trainer {

inline data::ImageText image_text(const models::VisionConfig& vision) {
  return {.kind = vision.family->has_prefix ? data::ImageText::Kind::before_text
                                            : data::ImageText::Kind::in_text,
          .image_token = static_cast<int32_t>(vision.image_token),
          .tokens_per_image = vision.image_tokens};
}

}  // namespace longshore::trainer
