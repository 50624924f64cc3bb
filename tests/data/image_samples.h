// Pictures as files, and what transformers makes of them: see tests/goldens/images/make.py.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "longshore/data/images/image.h"
#include "longshore/data/safetensors/safetensors.h"

namespace longshore::data {

class ImageSamples {
 public:
  explicit ImageSamples(const std::string& name)
      : tensors_("tests/goldens/images/" + name + ".safetensors") {}

  const SafetensorsFile& tensors() const { return tensors_; }

  std::span<const std::byte> file(const std::string& name) const {
    return tensors_.at(name + ".file").data;
  }

  // Of a tensor of bytes, [H, W, 3].
  Image image(const std::string& name) const {
    const SafetensorsTensor& tensor = tensors_.at(name);
    const auto* bytes = reinterpret_cast<const uint8_t*>(tensor.data.data());
    return {{tensor.shape.at(1), tensor.shape.at(0)}, {bytes, bytes + tensor.data.size()}};
  }

  // Those of tensors, without that end.
  std::vector<std::string> names_with(const std::string& end) const {
    std::vector<std::string> names;
    for (const SafetensorsTensor& tensor : tensors_.tensors())
      if (tensor.name.ends_with(end))
        names.push_back(tensor.name.substr(0, tensor.name.size() - end.size()));
    return names;
  }

 private:
  SafetensorsFile tensors_;
};

inline Image noise_image(ImageSize size) {
  std::mt19937 random(static_cast<uint32_t>(size.width * 1000 + size.height));
  Image image = make_image(size);
  for (uint8_t& byte : image.pixels) byte = static_cast<uint8_t>(random());
  return image;
}

inline void expect_same_image(const Image& found, const Image& expected, const std::string& what) {
  ASSERT_EQ(found.width, expected.width) << what;
  ASSERT_EQ(found.height, expected.height) << what;
  for (int64_t y = 0; y < expected.height; ++y)
    for (int64_t i = 0; i < expected.width * kChannels; ++i)
      ASSERT_EQ(int{found.row(y)[i]}, int{expected.row(y)[i]})
          << what << ": row " << y << ", column " << i / kChannels << ", channel " << i % kChannels;
}

}  // namespace longshore::data
