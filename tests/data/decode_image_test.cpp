#include "longshore/data/images/decode_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "longshore/base/error.h"
#include "longshore/data/images/decode_jpeg.h"
#include "tests/data/image_samples.h"
#include "tests/data/safetensors_samples.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

Image decode(std::string_view file, const DecodeOptions& options = {}) {
  return decode_image(bytes_of(file), options);
}

std::string refusal(std::string_view file, const DecodeOptions& options = {}) {
  return message_of<DataError>([&] { decode(file, options); });
}

std::string sample(const std::string& name) {
  return text_of(ImageSamples("edge_cases").file(name));
}

// What libraries write there is no message of ours.
class DecodeImage : public testing::Test {
 protected:
  void SetUp() override { testing::internal::CaptureStderr(); }
  void TearDown() override { EXPECT_EQ(testing::internal::GetCapturedStderr(), ""); }
};

TEST_F(DecodeImage, GivesThePixelsThatTransformersTakes) {
  for (const char* set : {"reference", "edge_cases"}) {
    const ImageSamples samples(set);
    const std::vector<std::string> names = samples.names_with(".white");
    ASSERT_GE(names.size(), 15u);
    for (const std::string& name : names) {
      const Image white = samples.image(name + ".white");
      expect_same_image(decode_image(samples.file(name)), white, name);
      const bool differs = samples.tensors().contains(name + ".kept");
      const Image kept = differs ? samples.image(name + ".kept") : white;
      expect_same_image(
          decode_image(samples.file(name), {.transparent_color = TransparentColor::kept}), kept,
          name + " with its transparent color");
    }
  }
}

TEST_F(DecodeImage, GivesTheSizeThatIsStored) {
  EXPECT_EQ(image_size(bytes_of(sample("rgb8.png"))), (ImageSize{13, 11}));
  EXPECT_EQ(image_size(bytes_of(sample("rgb.jpg"))), (ImageSize{35, 27}));
  EXPECT_EQ(image_size(bytes_of(sample("exif6.jpg"))), (ImageSize{7, 4}));
  EXPECT_EQ(decode(sample("exif6.jpg")).width, 4);
}

TEST_F(DecodeImage, LimitsPixelsByTheHeader) {
  for (const std::string name : {"rgb.jpg", "rgb8.png"}) {
    const std::string file = sample(name);
    const ImageSize size = image_size(bytes_of(file));
    const int64_t pixels = size.width * size.height;
    EXPECT_EQ(decode(file, {.max_pixels = pixels}).height, size.height);
    EXPECT_THAT(refusal(file, {.max_pixels = pixels - 1}),
                HasSubstr(std::to_string(size.width) + " x " + std::to_string(size.height) +
                          " pixels, expected at most " + std::to_string(pixels - 1)));
  }
  std::string large = sample("rgb8.png");
  constexpr size_t kWidth = 16, kHeight = 20;  // where the header has them, the high byte first
  large[kWidth + 1] = 15;
  large[kHeight + 2] = 1;
  EXPECT_THAT(refusal(large), StartsWith("found 983053 x 267 pixels, expected at most 178956970"));
  EXPECT_EQ(image_size(bytes_of(large)), (ImageSize{983053, 267}));
  large[kWidth + 1] = 16;
  EXPECT_THAT(refusal(large), HasSubstr("sides from 1 to 1000000"));
  std::string empty = sample("rgb8.png");
  empty[kWidth + 3] = 0;
  EXPECT_THAT(refusal(empty), HasSubstr("found 0 x 11 pixels, expected sides from 1"));
}

TEST_F(DecodeImage, NamesOtherFormats) {
  EXPECT_EQ(refusal(""), "found nothing, expected PNG or JPEG");
  EXPECT_EQ(refusal("hello"), "found \"hello\", expected PNG or JPEG");
  EXPECT_EQ(refusal("GIF89a\1\2"), "found GIF, expected PNG or JPEG");
  EXPECT_EQ(refusal(std::string("RIFF\0\0\0\0WEBPVP8 ", 16)), "found WebP, expected PNG or JPEG");
  EXPECT_EQ(refusal(std::string("\0\0\0\x1c"
                                "ftypavif",
                                12)),
            "found AVIF, expected PNG or JPEG");
  EXPECT_EQ(refusal(std::string("MM\0*\0\0\0\x08", 8)), "found TIFF, expected PNG or JPEG");
  EXPECT_THAT(refusal("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("Git LFS"));
  EXPECT_EQ(refusal("\x89PNG\r\n"), "found \"\\x89PNG\\r\\n\", expected PNG or JPEG");
  EXPECT_THROW(image_size(bytes_of("BM")), DataError);
}

TEST_F(DecodeImage, RefusesAnimations) {
  std::string file = sample("rgb8.png");
  const std::string control(
      "\0\0\0\x08"
      "acTL\0\0\0\1\0\0\0\0....",
      20);
  file.insert(file.find("IDAT") - 4, control);
  EXPECT_THAT(refusal(file), HasSubstr("animation"));
}

// Each is refused, or what is missing was behind the pixels.
TEST_F(DecodeImage, RefusesWhatIsCutOff) {
  for (const std::string name :
       {"rgb8_interlaced.png", "palette2.png", "exif6.jpg", "grey_progressive.jpg", "cmyk.jpg",
        "arithmetic.jpg", "rgb_restart_marker_blocks.jpg", "profile6_compressed.png"}) {
    const std::string file = sample(name);
    const Image whole = decode(file);
    size_t refused = 0;
    for (size_t length = 0; length < file.size(); ++length) try {
        EXPECT_EQ(decode(file.substr(0, length)), whole) << name << " cut to " << length;
      } catch (const DataError&) {
        ++refused;
      }
    EXPECT_GE(refused + 2, file.size()) << name;
  }
}

TEST_F(DecodeImage, SaysWhereAFileEnds) {
  const std::string jpeg = sample("rgb.jpg"), png = sample("rgb8.png");
  for (const std::string& half :
       {jpeg.substr(0, 300), jpeg.substr(0, jpeg.size() - 100), png.substr(0, 200)}) {
    EXPECT_THAT(refusal(half), AnyOf(StartsWith("JPEG: truncated"), StartsWith("PNG: truncated")));
    EXPECT_THAT(refusal(half), HasSubstr("after " + std::to_string(half.size()) + " bytes"));
  }
}

// Any byte may be wrong: no crash, and no picture of another size than the header's.
TEST_F(DecodeImage, SurvivesAnyWrongByte) {
  for (const std::string name : {"grey4_interlaced.png", "palette_alpha_second.png",
                                 "grey_progressive.jpg", "exif6.jpg", "xmp8_compressed.png"}) {
    std::string file = sample(name);
    for (char& byte : file)
      for (int mask : {0x01, 0x80, 0xff}) {
        const char right = byte;
        byte = static_cast<char>(byte ^ mask);
        try {
          const DecodeOptions options = {.max_pixels = 1 << 20};
          const Image image = decode(file, options);
          const ImageSize size = image_size(bytes_of(file));
          EXPECT_EQ(image.width * image.height, size.width * size.height);
          EXPECT_EQ(static_cast<int64_t>(image.pixels.size()),
                    size.width * size.height * kChannels);
        } catch (const DataError&) {
        }
        byte = right;
      }
  }
}

TEST_F(DecodeImage, RefusesDamagedPng) {
  const std::string file = sample("rgb8.png");
  std::string wrong_sum = file;
  wrong_sum.back() ^= 1;
  EXPECT_EQ(refusal(wrong_sum), "PNG: IEND: CRC error");
  std::string wrong_data = file;
  wrong_data[file.find("IDAT") + 4 + 10] ^= 1;
  EXPECT_THAT(refusal(wrong_data), StartsWith("PNG: "));
  std::string wrong_text = sample("profile6.png");
  wrong_text[wrong_text.find("exif")] ^= 1;
  EXPECT_THAT(refusal(wrong_text), StartsWith("PNG: tEXt: CRC error"));
  std::string endless = file;
  endless[file.find("IDAT") - 4] = 0x7f;
  EXPECT_THAT(refusal(endless), StartsWith("PNG: truncated or damaged"));
  std::string other = file;
  other[12] = 'J';
  EXPECT_THAT(refusal(other), HasSubstr("\"JHDR\" of 13 bytes, expected IHDR of 13"));
}

// libjpeg would fill the rest with grey, and Pillow takes that.
TEST_F(DecodeImage, RefusesDamagedJpeg) {
  const std::string file = sample("rgb.jpg");
  const size_t scan = file.find("\xff\xda");
  ASSERT_NE(scan, file.npos);
  const std::string ended_early = file.substr(0, file.size() - 200) + "\xff\xd9";
  EXPECT_EQ(refusal(ended_early), "JPEG: Corrupt JPEG data: premature end of data segment");
  std::string cut = file;
  cut.erase(scan, 2);
  EXPECT_THAT(refusal(cut), StartsWith("JPEG: "));
  const std::string restarts = sample("rgb_restart_marker_rows.jpg");
  std::string wrong_restart = restarts;
  wrong_restart[restarts.find("\xff\xd0") + 1] = '\xd5';
  EXPECT_THAT(refusal(wrong_restart), HasSubstr("Corrupt JPEG data"));
}

TEST_F(DecodeImage, RefusesJpegOfOtherComponents) {
  std::string file = sample("rgb.jpg");
  const size_t frame = file.find("\xff\xc0"), scan = file.find("\xff\xda");
  ASSERT_EQ(file.substr(scan + 2, 3), std::string("\0\x0c\3", 3));
  ASSERT_EQ(file[frame + 9], 3);
  // Two of three, in the lengths too.
  file.replace(scan + 2, 3, std::string("\0\x0a\2", 3));
  file.erase(scan + 9, 2);
  file[frame + 3] = 14;
  file[frame + 9] = 2;
  file.erase(frame + 16, 3);
  EXPECT_THAT(refusal(file), HasSubstr("found 2 color components, expected 1, 3 or 4"));
}

// Each scan costs as much as a picture, and nearly nothing in the file.
TEST_F(DecodeImage, LimitsScans) {
  const std::string file = sample("grey_progressive.jpg"), begin = "\xff\xda";
  int scans = 0;
  for (size_t at = file.find(begin); at != file.npos; at = file.find(begin, at + 1)) ++scans;
  // The first scan, which can come again, ends where the next one's tables begin.
  const size_t first = file.find(begin), tables = file.find("\xff\xc4", first);
  const std::string again = file.substr(first, tables - first);
  std::string many = file;
  for (; scans < kMaxJpegScans; ++scans) many.insert(first, again);
  EXPECT_EQ(decode(many), decode(file));
  many.insert(first, again);
  EXPECT_EQ(refusal(many), "JPEG: found scan 101, expected at most 100");
}

// Were it read, the picture would be turned.
TEST_F(DecodeImage, LeavesOutLongTexts) {
  EXPECT_EQ(decode(sample("long_text.png")).width, 7);
  EXPECT_EQ(decode(sample("profile6_compressed.png")).width, 4);
}

}  // namespace
}  // namespace longshore::data
