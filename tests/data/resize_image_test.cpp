#include "longshore/data/images/resize_image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/data/images/decode_image.h"
#include "longshore/data/images/resize_kernels.h"
#include "tests/data/image_samples.h"

namespace longshore::data {
namespace {

constexpr Resample kBoth[] = {Resample::bilinear, Resample::bicubic};

const char* name(Resample resample) {
  return resample == Resample::bilinear ? "bilinear" : "bicubic";
}

std::string text(ImageSize size) {
  return std::to_string(size.width) + "x" + std::to_string(size.height);
}

TEST(ResizeImage, GivesThePixelsOfPillow) {
  const ImageSamples samples("edge_cases");
  const Image image = decode_image(samples.file("resize.png"));
  int compared = 0;
  for (Resample resample : kBoth)
    for (const std::string& size : samples.names_with(std::string(".") + name(resample))) {
      const Image expected = samples.image(size + "." + name(resample));
      expect_same_image(resize_image(image, expected, resample), expected, size);
      ++compared;
    }
  EXPECT_EQ(compared, 16);
}

// One axis as the rules have it, pixel by pixel: `at` gives a channel of a pixel of the line.
template <class At>
uint8_t resampled(int64_t from, int64_t to, int64_t i, Resample resample, const At& at) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double stretch = std::max(scale, 1.0), center = (static_cast<double>(i) + 0.5) * scale;
  const double reach = (resample == Resample::bilinear ? 1 : 2) * stretch;
  auto filter = [&](double x) {
    x = std::abs(x);
    if (resample == Resample::bilinear) return std::max(1 - x, 0.0);
    return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? -0.5 * (((x - 5) * x + 8) * x - 4) : 0.0;
  };
  const int64_t begin = std::max<int64_t>(0, std::llround(center - reach));
  const int64_t end = std::min<int64_t>(from, std::llround(center + reach));
  double total = 0;
  for (int64_t k = begin; k < end; ++k)
    total += filter((static_cast<double>(k) - center + 0.5) * (1 / stretch));
  int64_t sum = 0;
  for (int64_t k = begin; k < end; ++k) {
    const double weight = filter((static_cast<double>(k) - center + 0.5) * (1 / stretch)) / total;
    sum += at(k) * std::llround(weight * (1 << 22));
  }
  return static_cast<uint8_t>(std::clamp<int64_t>((sum + (1 << 21)) >> 22, 0, 255));
}

Image by_the_rules(const Image& image, ImageSize size, Resample resample) {
  auto with_width = [&](const Image& from) {
    if (from.width == size.width) return from;
    Image to = make_image({size.width, from.height});
    for (int64_t y = 0; y < to.height; ++y)
      for (int64_t i = 0; i < to.width * kChannels; ++i)
        to.row(y)[i] = resampled(from.width, to.width, i / kChannels, resample, [&](int64_t k) {
          return from.row(y)[k * kChannels + i % kChannels];
        });
    return to;
  };
  auto with_height = [&](const Image& from) {
    if (from.height == size.height) return from;
    Image to = make_image({from.width, size.height});
    for (int64_t y = 0; y < to.height; ++y)
      for (int64_t i = 0; i < to.width * kChannels; ++i)
        to.row(y)[i] = resampled(from.height, to.height, y, resample,
                                 [&](int64_t k) { return from.row(k)[i]; });
    return to;
  };
  const int64_t less = image.height - size.height;
  const bool is_height_first = less > 0 && less > 2 * (image.width - size.width);
  return is_height_first ? with_width(with_height(image)) : with_height(with_width(image));
}

TEST(ResizeImage, FollowsTheRulesForAnySizes) {
  std::mt19937 random(1);
  auto side = [&] { return static_cast<int64_t>(1 + random() % (random() % 4 == 0 ? 5 : 60)); };
  for (int i = 0; i < 150; ++i) {
    const Image image = noise_image({side(), side()});
    const ImageSize size = {random() % 5 == 0 ? image.width : side(),
                            random() % 5 == 0 ? image.height : side()};
    for (Resample resample : kBoth)
      expect_same_image(resize_image(image, size, resample), by_the_rules(image, size, resample),
                        text(image) + " to " + text(size) + ", " + name(resample));
  }
}

TEST(ResizeImage, LeavesAPictureOfTheSameSize) {
  const Image image = noise_image({23, 17});
  for (Resample resample : kBoth) EXPECT_EQ(resize_image(image, image, resample), image);
}

TEST(ResizeImage, LeavesAPictureOfOneColor) {
  for (int level : {0, 1, 128, 254, 255}) {
    Image image = make_image({37, 1000});
    std::ranges::fill(image.pixels, static_cast<uint8_t>(level));
    for (Resample resample : kBoth)
      for (const ImageSize size : {ImageSize{1, 1}, {224, 224}, {36, 999}, {5, 2000}}) {
        const Image resized = resize_image(image, size, resample);
        EXPECT_EQ(std::ranges::count(resized.pixels, level), std::ssize(resized.pixels))
            << text(size) << ", " << name(resample);
      }
  }
}

// Colors do not mix.
TEST(ResizeImage, TreatsChannelsAlike) {
  const Image image = noise_image({50, 40});
  Image rotated = image;
  for (size_t at = 0; at < rotated.pixels.size(); at += kChannels)
    std::rotate(rotated.pixels.begin() + at, rotated.pixels.begin() + at + 1,
                rotated.pixels.begin() + at + kChannels);
  for (Resample resample : kBoth) {
    const Image resized = resize_image(image, {31, 64}, resample);
    Image expected = resize_image(rotated, {31, 64}, resample);
    for (size_t at = 0; at < expected.pixels.size(); at += kChannels)
      std::rotate(expected.pixels.begin() + at, expected.pixels.begin() + at + 2,
                  expected.pixels.begin() + at + kChannels);
    EXPECT_EQ(resized, expected);
  }
}

TEST(ResizeImage, RefusesEmptySizes) {
  EXPECT_THROW(resize_image(make_image({1, 1}), {0, 1}, Resample::bicubic), UsageError);
  EXPECT_THROW(resize_image(Image{}, {1, 1}, Resample::bicubic), UsageError);
}

// Also those for other processors than this one.
TEST(ResizeKernels, AllGiveTheSame) {
  ASSERT_STREQ(resize_kernels().back().name, "plain");
  const Image image = noise_image({131, 40});
  for (Resample resample : kBoth)
    for (int64_t to : {1, 16, 100, 131, 300}) {
      const ResizeWeights across = resize_weights(image.width, to, resample, kPixelGroup);
      const ResizeWeights down = resize_weights(image.height, to, resample, 1);
      const auto weights = std::span(down.weights).first(static_cast<size_t>(down.stride));
      std::vector<std::vector<uint8_t>> rows, sums;
      for (const ResizeKernels& kernels : resize_kernels()) {
        kernels.resample_row(image.row(7), across,
                             rows.emplace_back(static_cast<size_t>(to * kChannels)).data());
        kernels.add_rows(image.row(0), image.width * kChannels, weights,
                         sums.emplace_back(static_cast<size_t>(image.width * kChannels)).data());
        EXPECT_EQ(rows.back(), rows.front()) << kernels.name;
        EXPECT_EQ(sums.back(), sums.front()) << kernels.name;
      }
    }
}

}  // namespace
}  // namespace longshore::data
