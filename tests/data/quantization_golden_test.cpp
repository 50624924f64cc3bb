// NF4 and FP4 against the bytes and numbers of bitsandbytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "longshore/base/quantization/code_books.h"
#include "longshore/base/quantization/dequantize.h"
#include "longshore/base/quantization/quantize.h"
#include "longshore/data/safetensors/safetensors.h"
#include "longshore/data/safetensors/safetensors_float.h"

namespace longshore::data {
namespace {

using testing::ElementsAreArray;

const std::string kFolder = "tests/goldens/models/nf4/";

std::vector<float> floats(const SafetensorsTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.element_count()));
  to_float32(tensor, values);
  return values;
}

template <class T>
std::vector<T> values_at(const std::vector<std::byte>& memory, const QuantizedParts::Part& part) {
  std::vector<T> values(static_cast<size_t>(part.bytes) / sizeof(T));
  std::memcpy(values.data(), memory.data() + part.offset, static_cast<size_t>(part.bytes));
  return values;
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected,
                 double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  double largest = 0, difference = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    largest = std::max<double>(largest, std::fabs(expected[i]));
    difference = std::max<double>(difference, std::fabs(found[i] - expected[i]));
  }
  EXPECT_LE(difference, tolerance * largest);
}

TEST(QuantizationGoldens, CodeBooksAreBitsandbytes) {
  const SafetensorsFile golden(kFolder + "golden.safetensors");
  EXPECT_THAT(kNf4, ElementsAreArray(floats(golden.at("quant_map.nf4"))));
  EXPECT_THAT(kFp4, ElementsAreArray(floats(golden.at("quant_map.fp4"))));
  EXPECT_THAT(nested_codes(), ElementsAreArray(floats(golden.at("nested_quant_map.dynamic"))));
}

TEST(QuantizationGoldens, CodesScalesAndNumbersAreBitsandbytes) {
  const SafetensorsFile weights(kFolder + "weights.safetensors"),
      golden(kFolder + "golden.safetensors");
  int compared = 0;
  for (const SafetensorsTensor& weight : weights.tensors())
    for (const bool is_nf4 : {true, false})
      for (const bool is_nested : {false, true}) {
        const std::string which =
            weight.name + (is_nf4 ? ".nf4" : ".fp4") + (is_nested ? "_dq" : "");
        if (!golden.contains("dequant_f32." + which)) continue;
        SCOPED_TRACE(which);
        QuantizedMatrix matrix{.format = is_nf4 ? QuantizedFormat::nf4 : QuantizedFormat::fp4,
                               .rows = weight.shape[0],
                               .columns = weight.shape[1],
                               .has_nested_scales = is_nested};
        const QuantizedParts parts = parts_of(matrix);
        std::vector<std::byte> memory(static_cast<size_t>(parts.bytes));
        quantize(
            matrix, matrix.rows,
            [&](int64_t first, std::span<float> to) { to_float32(weight, first, to); },
            [&](int64_t offset, std::span<const std::byte> from) {
              std::ranges::copy(from, memory.begin() + offset);
            });
        const SafetensorsTensor& packed = golden.at((is_nf4 ? "packed." : "packed_zero0.") + which);
        EXPECT_THAT(values_at<std::byte>(memory, parts.codes), ElementsAreArray(packed.data));
        if (!is_nested) {
          EXPECT_EQ(values_at<float>(memory, parts.scales), floats(golden.at("absmax." + which)));
        } else {
          // Of one block there is nothing left without the mean, for which every code will do.
          if (golden.contains("absmax." + which)) {
            EXPECT_THAT(values_at<std::byte>(memory, parts.scales),
                        ElementsAreArray(golden.at("absmax." + which).data));
          }
          expect_near(values_at<float>(memory, parts.nested_scales),
                      floats(golden.at("nested_absmax." + which)), 1e-6);
          expect_near(values_at<float>(memory, parts.nested_mean),
                      floats(golden.at("nested_offset." + which)), 1e-6);
        }
        std::vector<float> values(static_cast<size_t>(matrix.count()));
        dequantize(matrix, view_of(matrix, memory.data()), 0, values);
        expect_near(values, floats(golden.at("dequant_f32." + which)), 1e-6);
        matrix.rounded_to = RoundedTo::bfloat16;
        dequantize(matrix, view_of(matrix, memory.data()), 0, values);
        EXPECT_EQ(values, floats(golden.at("dequant_bf16." + which)));
        ++compared;
      }
  EXPECT_EQ(compared, 42);
}

}  // namespace
}  // namespace longshore::data
