#include "longshore/data/rows/row_images.h"

#include <algorithm>

#include "longshore/base/error.h"
#include "longshore/base/text.h"
#include "longshore/data/images/patches.h"

namespace longshore::data {

void check(const RowImages& images) {
  const int64_t size = images.pixels.height;
  const bool is_square = size > 0 && size == images.pixels.width && images.patch_size > 0;
  if (!is_square || size % images.patch_size != 0 || images.text.image_token < 0 ||
      images.text.tokens_per_image < 1 || images.images_per_row < 1)
    throw InternalError("rows with " + plural(images.images_per_row, "image") + " of " +
                        std::to_string(images.pixels.width) + " x " + std::to_string(size) +
                        " pixels in patches of " + std::to_string(images.patch_size) + ", " +
                        std::to_string(images.text.tokens_per_image) + " times the token " +
                        std::to_string(images.text.image_token));
}

void RowImageWriter::put(int64_t at, std::span<const int32_t> sequence,
                         std::span<const uint8_t> carries_loss, int64_t images) {
  const int32_t token = images_.text.image_token;
  const std::span<const int32_t> inputs = sequence.first(sequence.size() - 1);
  const int64_t found = std::ranges::count(inputs, token);
  const int64_t expected = images * images_.text.tokens_per_image;
  const bool is_target_alone = found == expected && sequence.back() == token;
  if (found != expected || is_target_alone)
    throw DataError("found the token " + std::to_string(token) + ", which stands for images, " +
                    std::to_string(found + is_target_alone) + " times, expected " +
                    std::to_string(expected) + " for " + plural(images, "image") +
                    ". Tokenize the text again, for this model");
  if (places_ + found > images_.tokens_per_row())
    throw InternalError("a row with more images than it has slots");
  if (const std::span<int32_t> places = row_[kImagePlaces]; !places.empty()) {
    auto place = places.begin() + places_;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] == token)
        *place++ = static_cast<int32_t>(row_.number() * length_ + at + static_cast<int64_t>(i));
  }
  places_ += found;
  put_blocks(at, sequence, carries_loss);
}

// Before the text, images and prompt are a block: all tokens before the first to learn. Within it,
// each run of an image's tokens is one.
void RowImageWriter::put_blocks(int64_t at, std::span<const int32_t> sequence,
                                std::span<const uint8_t> carries_loss) {
  const std::span<int32_t> blocks = row_[kBlocks];
  if (blocks.empty()) return;
  const auto learnt =
      static_cast<size_t>(std::ranges::find(carries_loss, 1) - carries_loss.begin());
  bool is_inside = false;
  for (size_t i = 0; i + 1 < sequence.size(); ++i) {
    const bool was_inside = is_inside;
    is_inside = images_.text.kind == ImageText::Kind::before_text
                    ? i < learnt
                    : sequence[i] == images_.text.image_token;
    if (!is_inside) continue;
    if (!was_inside) ++blocks_;
    blocks[static_cast<size_t>(at) + i] = blocks_;
  }
}

void RowImageWriter::write_pixels(std::span<const float> planes) {
  row_.write(kPixelValues, slots_++ * std::ssize(planes),
             to_patches(planes, images_.pixels.height, images_.patch_size));
}

}  // namespace longshore::data
