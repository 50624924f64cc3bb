// What the decoders of single formats give to decode_image().
#pragma once

#include "longshore/data/images/image.h"
#include "longshore/data/images/orientation.h"

namespace longshore::data {

struct DecodedImage {
  Image image;  // as stored
  Orientation orientation = Orientation::upright;
};

}  // namespace longshore::data
