// How long one core takes to make a model's pixel values of a JPEG file.
//
// usage: bench_images [WIDTH HEIGHT [SIDE]]     of the picture, 640 x 480 without, and of what the
// model reads, 224 without
#include <fmt/format.h>
#include <jpeglib.h>
#include <stdio.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include "longshore/base/exit_code.h"
#include "longshore/data/images/decode_image.h"
#include "longshore/data/images/patches.h"
#include "longshore/data/images/pixel_values.h"

namespace {

using namespace longshore::data;

// Soft shapes and some noise, as in photographs.
Image picture(ImageSize size) {
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0, 6);
  Image image = make_image(size);
  for (int64_t y = 0; y < size.height; ++y)
    for (int64_t i = 0; i < size.width * kChannels; ++i) {
      const double x = static_cast<double>(i / kChannels), channel = static_cast<double>(i % 3);
      const double soft = std::sin(x / 37 + channel) + std::cos(static_cast<double>(y) / 23) +
                          std::sin((x + static_cast<double>(y)) / 9);
      image.row(y)[i] = static_cast<uint8_t>(std::clamp(128 + 35 * soft + noise(random), 0., 255.));
    }
  return image;
}

std::vector<std::byte> jpeg(Image image) {
  jpeg_compress_struct compressor;
  jpeg_error_mgr errors;
  compressor.err = jpeg_std_error(&errors);
  jpeg_create_compress(&compressor);
  unsigned char* bytes = nullptr;
  unsigned long count = 0;
  jpeg_mem_dest(&compressor, &bytes, &count);
  compressor.image_width = static_cast<JDIMENSION>(image.width);
  compressor.image_height = static_cast<JDIMENSION>(image.height);
  compressor.input_components = 3;
  compressor.in_color_space = JCS_RGB;
  jpeg_set_defaults(&compressor);
  jpeg_set_quality(&compressor, 90, TRUE);
  jpeg_start_compress(&compressor, TRUE);
  for (int64_t y = 0; y < image.height; ++y) {
    JSAMPROW row = image.row(y);
    jpeg_write_scanlines(&compressor, &row, 1);
  }
  jpeg_finish_compress(&compressor);
  const auto* begin = reinterpret_cast<const std::byte*>(bytes);
  std::vector<std::byte> file(begin, begin + count);
  jpeg_destroy_compress(&compressor);
  std::free(bytes);
  return file;
}

void run(ImageSize size, int64_t side) {
  constexpr int kRounds = 101;
  constexpr int64_t kPatch = 14;
  const std::vector<std::byte> file = jpeg(picture(size));
  const PixelSettings settings{.height = side, .width = side};
  std::vector<float> planes(static_cast<size_t>(settings.value_count()));
  std::vector<double> decoding, resizing, ordering;
  for (int round = 0; round < kRounds; ++round) {
    auto since = [start = std::chrono::steady_clock::now()]() mutable {
      const auto before = std::exchange(start, std::chrono::steady_clock::now());
      return std::chrono::duration<double, std::milli>(start - before).count();
    };
    const Image image = decode_image(file);
    decoding.push_back(since());
    write_pixel_values(image, settings, planes);
    resizing.push_back(since());
    to_patches(planes, side, kPatch);
    ordering.push_back(since());
  }
  auto median = [](std::vector<double>& times) {
    std::ranges::sort(times);
    return times[times.size() / 2];
  };
  fmt::print(
      "{} x {}, {} KB: {:.2f} ms to decode, {:.2f} ms to resize to {} x {}, {:.2f} ms for "
      "patches\n",
      size.width, size.height, file.size() / 1000, median(decoding), median(resizing), side, side,
      median(ordering));
}

}  // namespace

int main(int argc, char** argv) {
  auto number = [&](int at, int64_t otherwise) {
    return argc > at ? std::max<int64_t>(14, std::atoll(argv[at])) : otherwise;
  };
  return longshore::exit_code_of("bench_images", [&] {
    run({number(1, 640), number(2, 480)}, number(3, 224) / 14 * 14);
  });
}
