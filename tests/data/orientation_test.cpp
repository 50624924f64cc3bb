#include "longshore/data/images/orientation.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "longshore/data/images/turn_image.h"
#include "tests/data/image_samples.h"
#include "tests/data/safetensors_samples.h"

namespace longshore::data {
namespace {

using enum Orientation;

// The red of the pixels, row by row.
std::vector<std::string> letters(const Image& image) {
  std::vector<std::string> rows;
  for (int64_t y = 0; y < image.height; ++y) {
    rows.emplace_back();
    for (int64_t x = 0; x < image.width; ++x)
      rows.back() += static_cast<char>(image.row(y)[x * kChannels]);
  }
  return rows;
}

Image image_of(const std::vector<std::string>& rows) {
  Image image =
      make_image({static_cast<int64_t>(rows[0].size()), static_cast<int64_t>(rows.size())});
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t x = 0; x < image.width; ++x)
      std::fill_n(image.row(y) + x * kChannels, kChannels,
                  static_cast<uint8_t>(rows[static_cast<size_t>(y)][static_cast<size_t>(x)]));
  return image;
}

TEST(TurnImage, DoesWhatTheNameSays) {
  using Rows = std::vector<std::string>;
  const Image image = image_of({"abc", "def"});
  auto turned = [&](Orientation orientation) { return letters(turn_image(image, orientation)); };
  EXPECT_EQ(turned(upright), (Rows{"abc", "def"}));
  EXPECT_EQ(turned(mirror), (Rows{"cba", "fed"}));
  EXPECT_EQ(turned(turn_around), (Rows{"fed", "cba"}));
  EXPECT_EQ(turned(flip), (Rows{"def", "abc"}));
  EXPECT_EQ(turned(transpose), (Rows{"ad", "be", "cf"}));
  EXPECT_EQ(turned(turn_right), (Rows{"da", "eb", "fc"}));
  EXPECT_EQ(turned(transpose_and_turn_around), (Rows{"fc", "eb", "da"}));
  EXPECT_EQ(turned(turn_left), (Rows{"cf", "be", "ad"}));
}

// Of more pixels than are turned at a time.
TEST(TurnImage, CanBeUndone) {
  const Image image = noise_image({77, 101});
  for (int number = 1; number <= 8; ++number) {
    const auto orientation = static_cast<Orientation>(number);
    const Orientation back = orientation == turn_left    ? turn_right
                             : orientation == turn_right ? turn_left
                                                         : orientation;
    expect_same_image(turn_image(turn_image(image, orientation), back), image,
                      std::to_string(number));
  }
}

std::optional<Orientation> of_exif(const std::string& exif) {
  return exif_orientation(bytes_of(exif));
}

TEST(ExifOrientation, IsReadInBothOrdersOfBytes) {
  const std::string little("II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0", 26);
  const std::string big("MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0", 26);
  for (const std::string& exif : {little, big}) {
    EXPECT_EQ(of_exif(exif), turn_right);
    EXPECT_EQ(of_exif(std::string("Exif\0\0", 6) + exif), turn_right);
    // Up to the end of the entry.
    for (size_t length = 0; length < exif.size(); ++length)
      EXPECT_EQ(of_exif(exif.substr(0, length)),
                length < 22 ? std::nullopt : std::optional(turn_right))
          << length;
  }
}

TEST(ExifOrientation, OfValuesElsewhereAndOffsetsOutside) {
  // Three numbers take six bytes, which lie at the offset.
  std::string exif("II*\0\x08\0\0\0\1\0\x12\1\3\0\3\0\0\0\x16\0\0\0\x08\0\1\0\1\0", 28);
  EXPECT_EQ(of_exif(exif), turn_left);
  exif[18] = 0x17;  // the last byte is behind the end
  EXPECT_EQ(of_exif(exif), std::nullopt);
  for (char& byte : exif) {
    const char right = byte;
    for (int value = 0; value < 256; ++value) {
      byte = static_cast<char>(value);
      of_exif(exif);
    }
    byte = right;
  }
}

TEST(XmpOrientation, IsAnAttributeOrAnElement) {
  EXPECT_EQ(xmp_orientation("<a tiff:Orientation=\"6\"/>"), turn_right);
  EXPECT_EQ(xmp_orientation("<tiff:Orientation>8</tiff:Orientation>"), turn_left);
  EXPECT_EQ(xmp_orientation("tiff:Orientation tiff:Orientation=\"x\" tiff:Orientation>3<"),
            turn_around);
  EXPECT_EQ(xmp_orientation("<a tiff:Orientation=\"9\"/>"), upright);
  EXPECT_EQ(xmp_orientation("<a tiff:Orientation='6'/>"), std::nullopt);
  EXPECT_EQ(xmp_orientation("tiff:Orientation>"), std::nullopt);
  EXPECT_EQ(xmp_orientation(""), std::nullopt);
}

}  // namespace
}  // namespace longshore::data
