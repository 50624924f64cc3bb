// A RowImageWriter writes what a model reads of a row's images.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "longshore/data/images/decode_image.h"
#include "longshore/data/images/image_text.h"
#include "longshore/data/images/pixel_values.h"
#include "longshore/data/images/transparent_color.h"
#include "longshore/data/rows/batch.h"

namespace longshore::data {

// How rows have images.
struct RowImages {
  ImageText text;
  PixelSettings pixels;    // height is width
  int64_t patch_size = 0;  // pixels both ways, of which height is a multiple
  TransparentColor transparent_color = TransparentColor::white;
  int64_t max_pixels = kMaxImagePixels;  // of a file
  int64_t images_per_row = 0;            // slots

  int64_t tokens_per_row() const { return images_per_row * text.tokens_per_image; }
};

// Throws an InternalError where no row could have images like this.
void check(const RowImages& images);

// One after another, from the row's beginning on. Images take slots in the order of their tokens.
class RowImageWriter {
 public:
  // The row is padding, of `length` positions.
  RowImageWriter(const RowImages& images, const Row& row, int64_t length)
      : images_(images), row_(row), length_(length) {}

  // Of a sequence that Row::put() has put there: blocks, and places for the tokens of `images`
  // images. Throws a DataError, without a file's name, where others than theirs are there.
  void put(int64_t at, std::span<const int32_t> sequence, std::span<const uint8_t> carries_loss,
           int64_t images);

  // The pixels of the next slot, [3, height, width]; the row has kPixelValues.
  void write_pixels(std::span<const float> planes);

 private:
  void put_blocks(int64_t at, std::span<const int32_t> sequence,
                  std::span<const uint8_t> carries_loss);

  const RowImages& images_;
  const Row& row_;
  int64_t length_;
  int64_t places_ = 0, slots_ = 0;  // that are taken
  int32_t blocks_ = 0;              // the number of the last
};

}  // namespace longshore::data
