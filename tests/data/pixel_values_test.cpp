#include "longshore/data/images/pixel_values.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/data/images/decode_image.h"
#include "tests/data/image_samples.h"

namespace longshore::data {
namespace {

constexpr int64_t kSide = 56;

std::vector<float> values_of(const Image& image, const PixelSettings& settings) {
  std::vector<float> values(static_cast<size_t>(settings.value_count()));
  write_pixel_values(image, settings, values);
  return values;
}

TEST(PixelValues, AreThoseOfTransformers) {
  const ImageSamples samples("reference");
  std::vector<float> levels(256);
  std::memcpy(levels.data(), samples.tensors().at("levels").data.data(),
              levels.size() * sizeof(float));
  int compared = 0;
  for (const auto& [processor, resample] :
       {std::pair("paligemma", Resample::bicubic), {"gemma3", Resample::bilinear}})
    for (const std::string& name : samples.names_with(std::string(".") + processor)) {
      const Image expected = samples.image(name + "." + processor);
      const std::vector<float> values =
          values_of(decode_image(samples.file(name)),
                    {.height = kSide, .width = kSide, .resample = resample});
      for (int64_t channel = 0; channel < kChannels; ++channel)
        for (int64_t i = 0; i < kSide * kSide; ++i)
          ASSERT_EQ(values[static_cast<size_t>(channel * kSide * kSide + i)],
                    levels[expected.pixels[static_cast<size_t>(i * kChannels + channel)]])
              << name << ", " << processor << ": channel " << channel << ", pixel " << i;
      ++compared;
    }
  EXPECT_EQ(compared, 32);
}

TEST(PixelValues, HaveSettingsOfTheirOwnInEachChannel) {
  Image image = make_image({1, 1});
  image.pixels = {10, 20, 30};
  EXPECT_EQ(
      values_of(
          image,
          {.height = 1, .width = 2, .rescale_factor = 0.5, .mean = {1, 2, 3}, .std = {1, 2, 4}}),
      (std::vector<float>{4, 4, 4, 4, 3, 3}));
}

TEST(PixelValues, NeedTheRightRoom) {
  std::vector<float> values(11);
  EXPECT_THROW(write_pixel_values(make_image({3, 3}), {.height = 2, .width = 2}, values),
               UsageError);
}

}  // namespace
}  // namespace longshore::data
