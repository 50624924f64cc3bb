// turn_image() makes a stored picture upright.
#pragma once

#include "longshore/data/images/image.h"
#include "longshore/data/images/orientation.h"

namespace longshore::data {

Image turn_image(Image image, Orientation orientation);

}  // namespace longshore::data
