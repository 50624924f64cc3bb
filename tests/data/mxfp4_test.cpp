// MXFP4, against what transformers reads of gpt-oss's weights.
#include "longshore/data/safetensors/mxfp4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "longshore/base/error.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

const std::string kFolder = "tests/goldens/models/gptoss_mxfp4/";
const std::string kExperts = "model.layers.0.mlp.experts.";

TEST(Mxfp4, GivesWhatTransformersReads) {
  const SafetensorsFile stored(kFolder + "model.safetensors"),
      golden(kFolder + "golden.safetensors");
  for (const std::string name : {"gate_up_proj", "down_proj"}) {
    const Mxfp4Tensor tensor(stored.at(kExperts + name + kMxfp4Blocks),
                             stored.at(kExperts + name + kMxfp4Scales));
    const SafetensorsTensor& reference = golden.at("dequant_bf16." + kExperts + name);
    EXPECT_EQ(tensor.info().name, kExperts + name);
    EXPECT_EQ(tensor.info().shape, reference.shape);
    EXPECT_EQ(tensor.info().dtype, SafetensorsDtype::bfloat16);
    std::vector<float> values(static_cast<size_t>(reference.element_count())),
        expected(values.size());
    EXPECT_EQ(tensor.to_float32(0, values), NonFinite{});
    to_float32(reference, expected);
    // transformers may flush what bfloat16 holds as subnormal numbers.
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_TRUE(values[i] == expected[i] || std::abs(values[i]) < 0x1p-126f)
          << name << " " << i << ": " << values[i] << ", " << expected[i];
    // Any part, with any step.
    for (const auto& [first, step] : {std::pair<size_t, size_t>{1, 2}, {193, 1}, {700, 191}}) {
      std::vector<float> part((values.size() - first) / step);
      tensor.to_float32(static_cast<int64_t>(first), part, static_cast<int64_t>(step));
      for (size_t i = 0; i < part.size(); ++i) ASSERT_EQ(part[i], values[first + i * step]);
    }
    std::vector<float> beyond(2);
    EXPECT_THROW(tensor.to_float32(std::ssize(values) - 1, beyond), InternalError);
  }
}

SafetensorsTensor bytes(const std::string& name, std::vector<int64_t> shape,
                        const std::vector<std::byte>& data) {
  return {{.name = name, .dtype = SafetensorsDtype::uint8, .shape = std::move(shape)}, data};
}

TEST(Mxfp4, ScalesToBothEnds) {
  const std::vector<std::byte> blocks(16, std::byte{0x71});  // .5, 6
  auto of_scale = [&](int scale) {
    const std::vector<std::byte> scales{static_cast<std::byte>(scale)};
    std::vector<float> values(32);
    const NonFinite odd =
        Mxfp4Tensor(bytes("w_blocks", {1, 1, 1, 16}, blocks), bytes("w_scales", {1, 1, 1}, scales))
            .to_float32(0, values);
    return std::tuple(values[0], values[1], odd);
  };
  EXPECT_EQ(of_scale(127), std::tuple(.5f, 6.f, NonFinite{}));
  EXPECT_EQ(of_scale(0), std::tuple(std::ldexp(.5f, -127), std::ldexp(6.f, -127), NonFinite{}));
  EXPECT_EQ(of_scale(254), std::tuple(std::ldexp(.5f, 127), INFINITY,
                                      (NonFinite{.nan_count = 0, .infinity_count = 16})));
  EXPECT_EQ(std::get<2>(of_scale(255)), (NonFinite{.nan_count = 32, .infinity_count = 0}));
}

TEST(Mxfp4, RefusesWhatIsNone) {
  const std::vector<std::byte> data(64);
  auto refusal = [&](std::vector<int64_t> blocks, std::vector<int64_t> scales) {
    return message_of<DataError>([&] {
      Mxfp4Tensor(bytes("w_blocks", std::move(blocks), data),
                  bytes("w_scales", std::move(scales), data));
    });
  };
  EXPECT_EQ(refusal({2, 1, 2, 8}, {2, 1, 2}),
            "tensor \"w_blocks\": found U8 [2,1,2,8], expected U8 [experts,rows,blocks,16]");
  EXPECT_THAT(refusal({4, 16}, {4}), HasSubstr("expected U8 [experts,rows,blocks,16]"));
  EXPECT_EQ(refusal({2, 1, 2, 16}, {2, 2, 1}),
            "tensor \"w_scales\": found U8 [2,2,1], expected U8, a scale for each block of "
            "\"w_blocks\"");
}

}  // namespace
}  // namespace longshore::data
