// turn_image() makes a stored picture upright.
#pragma once

#include "data/images/image.h"
#include "data/images/orientation.h"

namespace longshore::data {

Image turn_image(Image image, Orientation orientation);

}  // namespace longshore::data
