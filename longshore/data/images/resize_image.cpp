#include "longshore/data/images/resize_image.h"

#include <algorithm>
#include <span>

#include "longshore/base/error.h"
#include "longshore/data/images/resize_kernels.h"
#include "longshore/data/images/resize_weights.h"

namespace longshore::data {
namespace {

Image resampled_rows(const Image& image, const ResizeWeights& weights) {
  Image result = make_image({static_cast<int64_t>(weights.first.size()), image.height});
  for (int64_t y = 0; y < image.height; ++y)
    resize_kernels().front().resample_row(image.row(y), weights, result.row(y));
  return result;
}

// With black at the right.
Image padded(const Image& image, int64_t width) {
  Image result = make_image({width, image.height});
  for (int64_t y = 0; y < image.height; ++y)
    std::copy_n(image.row(y), image.width * kChannels, result.row(y));
  return result;
}

Image with_width(const Image& image, int64_t width, Resample resample) {
  const ResizeWeights weights = resize_weights(image.width, width, resample, kPixelGroup);
  // Weights of 0 need pixels, too.
  if (image.width < weights.stride) return resampled_rows(padded(image, weights.stride), weights);
  return resampled_rows(image, weights);
}

Image with_height(const Image& image, int64_t height, Resample resample) {
  const ResizeWeights weights = resize_weights(image.height, height, resample, 1);
  Image result = make_image({image.width, height});
  const auto stride = static_cast<size_t>(weights.stride);
  for (int64_t y = 0; y < height; ++y)
    resize_kernels().front().add_rows(
        image.row(weights.first[static_cast<size_t>(y)]), image.width * kChannels,
        std::span(weights.weights).subspan(static_cast<size_t>(y) * stride, stride), result.row(y));
  return result;
}

}  // namespace

Image resize_image(const Image& image, ImageSize size, Resample resample) {
  if (std::min({image.width, image.height, size.width, size.height}) < 1)
    throw UsageError("resize_image: found a picture without pixels, expected at least one");
  const bool changes_width = image.width != size.width;
  const bool changes_height = image.height != size.height;
  if (!changes_width && !changes_height) return image;
  if (!changes_height) return with_width(image, size.width, resample);
  if (!changes_width) return with_height(image, size.height, resample);
  // The order matters for results, too, because of the rounding between.
  const int64_t rows_less = image.height - size.height, columns_less = image.width - size.width;
  if (rows_less > 0 && rows_less > 2 * columns_less)
    return with_width(with_height(image, size.height, resample), size.width, resample);
  return with_height(with_width(image, size.width, resample), size.height, resample);
}

}  // namespace longshore::data
