#include "longshore/data/images/image_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "longshore/base/error.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// As published with PaliGemma.
constexpr const char* kPaliGemma = R"({
  "do_convert_rgb": null,
  "do_normalize": true,
  "do_rescale": true,
  "do_resize": true,
  "image_mean": [0.5, 0.5, 0.5],
  "image_processor_type": "SiglipImageProcessor",
  "image_seq_length": 1024,
  "image_std": [0.5, 0.5, 0.5],
  "processor_class": "PaliGemmaProcessor",
  "resample": 3,
  "rescale_factor": 0.00392156862745098,
  "size": {"height": 448, "width": 448}
})";

ImageSettings parsed(const std::string& config, const std::string& processor = "") {
  return parse_image_settings(config, processor);
}

// An image processor of SigLIP with these keys.
std::string siglip(const std::string& keys) {
  return R"({"image_processor_type": "SiglipImageProcessor", )" + keys + "}";
}

std::string refusal(const std::string& config, const std::string& processor = "") {
  return message_of<DataError>([&] { parsed(config, processor); });
}

TEST(ImageSettings, AreReadFromPublishedFiles) {
  const ImageSettings pali = parsed(kPaliGemma);
  EXPECT_EQ(pali.pixels, (PixelSettings{.height = 448, .width = 448}));
  EXPECT_EQ(pali.transparent_color, TransparentColor::kept);
  EXPECT_EQ(pali.image_seq_length, 1024);

  const ImageSettings gemma = parsed(R"({
    "do_pan_and_scan": null, "image_processor_type": "Gemma3ImageProcessor",
    "image_mean": [0.1, 0.2, 0.3], "image_std": 0.25, "pan_and_scan_max_num_crops": null,
    "resample": 2, "rescale_factor": 0.5, "size": {"height": 896, "width": 900}})",
                                     R"({"image_seq_length": 256})");
  EXPECT_EQ(gemma.pixels, (PixelSettings{.height = 896,
                                         .width = 900,
                                         .resample = Resample::bilinear,
                                         .rescale_factor = 0.5,
                                         .mean = {0.1, 0.2, 0.3},
                                         .std = {0.25, 0.25, 0.25}}));
  EXPECT_EQ(gemma.transparent_color, TransparentColor::white);
  EXPECT_EQ(gemma.image_seq_length, 256);
}

TEST(ImageSettings, WithinTheProcessorsFileGoFirst) {
  const std::string nested =
      R"({"processor_class": "X", "image_seq_length": 4, "image_processor": )" +
      siglip(R"("image_seq_length": 9, "size": {"height": 56, "width": 28})") + "}";
  for (const char* beside : {"", kPaliGemma}) {
    const ImageSettings settings = parsed(beside, nested);
    EXPECT_EQ(settings.pixels, (PixelSettings{.height = 56, .width = 28}));
    EXPECT_EQ(settings.image_seq_length, 4);
  }
  EXPECT_EQ(parsed(kPaliGemma, R"({"image_processor": null})").pixels.height, 448);
  EXPECT_THAT(refusal("", nested.substr(0, nested.size() - 2) + R"(, "do_resize": false}})"),
              HasSubstr("processor_config.json: image_processor/do_resize: expected true"));
}

TEST(ImageSettings, AreThoseOfTheClassWhereAFileSaysNothing) {
  EXPECT_EQ(parsed(R"({"image_processor_type": "SiglipImageProcessorFast"})").pixels,
            (PixelSettings{.height = 224, .width = 224}));
  EXPECT_EQ(parsed(R"({"feature_extractor_type": "Gemma3ImageProcessor"})").pixels.resample,
            Resample::bilinear);
  EXPECT_EQ(parsed(siglip(R"("do_convert_rgb": true)")).transparent_color, TransparentColor::white);
}

TEST(ImageSettings, MayLeaveOutSteps) {
  const PixelSettings bytes = parsed(siglip(R"("do_rescale": false, "do_normalize": null)")).pixels;
  EXPECT_EQ(bytes.rescale_factor, 1);
  EXPECT_EQ(bytes.mean, (std::array<double, 3>{0, 0, 0}));
  EXPECT_EQ(bytes.std, (std::array<double, 3>{1, 1, 1}));
}

TEST(ImageSettings, SayWhatIsNotSupported) {
  auto refused = [](const std::string& keys) { return refusal(siglip(keys)); };
  EXPECT_EQ(refused(R"("do_pan_and_scan": true)"),
            "preprocessor_config.json: do_pan_and_scan: expected false, found true");
  EXPECT_THAT(refused(R"("do_resize": false)"), HasSubstr("do_resize: expected true"));
  EXPECT_THAT(refused(R"("do_resize": null)"), HasSubstr("do_resize: expected true"));
  EXPECT_THAT(refused(R"("do_center_crop": true)"), HasSubstr("do_center_crop: expected false"));
  EXPECT_THAT(refused(R"("do_pad": true)"), HasSubstr("do_pad: expected false"));
  EXPECT_THAT(refused(R"("do_rescale": 1)"), HasSubstr("do_rescale: expected true or false"));
  EXPECT_THAT(refused(R"("resample": 1)"),
              HasSubstr("resample: expected 2 (bilinear) or 3 (bicubic), found 1"));
  EXPECT_THAT(refused(R"("size": {"shortest_edge": 224})"),
              HasSubstr("size/shortest_edge: expected height and width alone"));
  EXPECT_THAT(refused(R"("size": 224)"), HasSubstr("size: expected an object"));
  EXPECT_THAT(refused(R"("size": {"height": 224})"), HasSubstr("size/width: expected"));
  EXPECT_THAT(refused(R"("size": {"height": 224, "width": 5000})"),
              HasSubstr("size/width: expected a number from 1 to 4096, found 5000"));
  EXPECT_THAT(refused(R"("image_mean": [0.5])"), HasSubstr("image_mean: expected three numbers"));
  EXPECT_THAT(refused(R"("image_std": [1, 0, 1])"), HasSubstr("image_std: expected numbers above"));
  EXPECT_THAT(refused(R"("image_mean": null)"), HasSubstr("image_mean: expected a number"));
  EXPECT_THAT(refused(R"("rescale_factor": 1e999)"), HasSubstr("rescale_factor: expected"));
  EXPECT_THAT(refused(R"("rescale_factor": -1)"), HasSubstr("rescale_factor: expected more than"));
  EXPECT_THAT(refused(R"("image_seq_length": 0)"), HasSubstr("image_seq_length: expected"));
  EXPECT_THAT(refusal(R"({"image_processor_type": "SigLipImageProcessor"})"),
              HasSubstr("nearest: SiglipImageProcessor"));
  EXPECT_THAT(refusal(R"({"size": {}})"), HasSubstr("image_processor_type: expected"));
  EXPECT_THAT(refusal("[]"), HasSubstr("preprocessor_config.json: the file: expected an object"));
  EXPECT_THAT(refusal("{"), HasSubstr("preprocessor_config.json: no valid JSON"));
  EXPECT_THAT(refusal(kPaliGemma, "{"), StartsWith("processor_config.json: no valid JSON"));
}

TEST(ImageSettings, OfAFolder) {
  const TemporaryFolder folder;
  const std::string path = (folder / "").string();
  EXPECT_THAT(message_of<DataError>([&] { read_image_settings(path); }),
              HasSubstr("/preprocessor_config.json: no such file, and no image_processor in"));
  folder.write("preprocessor_config.json", kPaliGemma);
  EXPECT_EQ(read_image_settings(path).pixels.height, 448);
  folder.write("processor_config.json", R"({"image_seq_length": 7})");
  EXPECT_EQ(read_image_settings(path).image_seq_length, 7);
}

}  // namespace
}  // namespace longshore::data
