// resize_image() resamples a picture exactly as Pillow's resize does, to the byte: each pixel is a
// sum over a window of the picture, as wide as the filter, which is stretched where the picture
// gets smaller. Lines are resampled first, then columns, or the other way round, with a rounding to
// 8 bits between.
#pragma once

#include "longshore/data/images/image.h"
#include "longshore/data/images/resample.h"

namespace longshore::data {

// Both sizes are at least 1 x 1. Takes one thread.
Image resize_image(const Image& image, ImageSize size, Resample resample);

}  // namespace longshore::data
