#include "longshore/data/safetensors/quantized_data.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/round_up.h"
#include "longshore/data/safetensors/expect_tensor.h"
#include "longshore/data/safetensors/quant_state.h"
#include "longshore/data/safetensors/safetensors_float.h"

namespace longshore::data {
namespace {

using enum SafetensorsDtype;

using Shape = std::vector<int64_t>;

std::string joined(std::string_view start, std::string_view ending) {
  return std::string(start) + std::string(ending);
}

class Reader {
 public:
  Reader(const QuantizedNames& names, const FindTensor& find)
      : names_(names), find_(find), weight_(needed(names.weight)) {}

  QuantizedData read() {
    data_.codes = weight_.data;
    switch (names_.kind) {
      case QuantizedKind::bitsandbytes_4_bits:
        read_4_bits();
        break;
      case QuantizedKind::bitsandbytes_int8:
        read_int8();
        break;
      case QuantizedKind::fp8:
        read_fp8();
        break;
    }
    return std::move(data_);
  }

 private:
  const SafetensorsTensor& needed(const std::string& name) const {
    if (const SafetensorsTensor* tensor = find_(name)) return *tensor;
    throw DataError("tensor " + in_quotes(name) + ": found none, expected one beside " +
                    in_quotes(names_.companions.empty() ? names_.weight : names_.companions[0]));
  }

  std::string of_weight() const { return " of " + in_quotes(names_.weight); }

  // The numbers' own matrix; sizes are 1 or more.
  void set_matrix(QuantizedMatrix matrix, SafetensorsDtype dtype) {
    data_.info = {.name = names_.weight, .dtype = dtype, .shape = {matrix.rows, matrix.columns}};
    data_.info.element_count();  // which throws where there are too many
    data_.matrix = matrix;
  }

  // As the file has it, one code a number.
  void set_matrix(QuantizedFormat format, SafetensorsDtype dtype) {
    expect_tensor(weight_.dtype == dtype && weight_.shape.size() == 2 &&
                      std::ranges::all_of(weight_.shape, [](int64_t size) { return size > 0; }),
                  weight_, name(dtype) + std::string(" [rows,columns], which has scales"));
    set_matrix({.format = format, .rows = weight_.shape[0], .columns = weight_.shape[1]}, float32);
  }

  void set_scales(const SafetensorsTensor& scales) {
    data_.scales_name = scales.name;
    const bool is_aligned = reinterpret_cast<uintptr_t>(scales.data.data()) % alignof(float) == 0;
    if (scales.dtype == uint8 || (scales.dtype == float32 && is_aligned))
      data_.scales_in_file = scales.data;
    else
      data_.scales_here = floats(scales);
  }

  static std::vector<float> floats(const SafetensorsTensor& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.element_count()));
    to_float32(tensor, values);
    return values;
  }

  // --- 4 bits

  void read_4_bits() {
    const QuantState state = read_state();
    const SafetensorsDtype dtype = state.rounded_to == RoundedTo::bfloat16  ? bfloat16
                                   : state.rounded_to == RoundedTo::float16 ? float16
                                                                            : float32;
    set_matrix({.format = state.format,
                .rows = state.rows,
                .columns = state.columns,
                .rounded_to = state.rounded_to,
                .block = state.block,
                .has_nested_scales = state.nested_mean.has_value()},
               dtype);
    const int64_t count = data_.matrix.count(), bytes = count / 2 + count % 2;
    const bool is_storage = weight_.dtype == uint8 || weight_.dtype == bfloat16 ||
                            weight_.dtype == float16 || weight_.dtype == float32;
    expect_tensor(is_storage && weight_.shape.size() == 2 && weight_.shape[1] == 1 &&
                      std::ssize(weight_.data) == bytes,
                  weight_,
                  "U8 [" + std::to_string(bytes) +
                      ",1], or BF16, F16 or F32 of as many bytes, for " +
                      shape_text(data_.info.shape));
    require_book();
    const int64_t blocks = ceil_div(count, state.block);
    const SafetensorsTensor& absmax = needed(joined(names_.weight, kAbsmax));
    const SafetensorsDtype scale_dtype = state.nested_mean ? uint8 : float32;
    expect_tensor(absmax.dtype == scale_dtype && absmax.shape == Shape{blocks}, absmax,
                  joined(name(scale_dtype), " ") + shape_text(Shape{blocks}) +
                      ", one for each block of " + std::to_string(state.block) + of_weight());
    set_scales(absmax);
    if (state.nested_mean) return read_nested(*state.nested_mean, blocks);
    for (std::string_view ending : {kNestedAbsmax, kNestedQuantMap})
      if (const SafetensorsTensor* tensor = find_(joined(names_.weight, ending)))
        throw DataError("tensor " + in_quotes(tensor->name) +
                        ": found one, expected none where quant_state has no nested_offset");
  }

  QuantState read_state() const {
    const std::string nf4 = joined(names_.weight, kNf4State),
                      fp4 = joined(names_.weight, kFp4State);
    const bool is_fp4 = find_(fp4) != nullptr;
    if (is_fp4 && find_(nf4))
      throw DataError("tensor " + in_quotes(fp4) + ": found beside " + in_quotes(nf4) +
                      ", expected one of the two");
    const SafetensorsTensor& text = needed(is_fp4 ? fp4 : nf4);
    expect_tensor(text.dtype == uint8 && text.shape.size() == 1, text, "U8 [bytes], JSON");
    try {
      const QuantState state =
          parse_quant_state({reinterpret_cast<const char*>(text.data.data()), text.data.size()});
      const QuantizedFormat expected = is_fp4 ? QuantizedFormat::fp4 : QuantizedFormat::nf4;
      if (state.format != expected)
        throw DataError(std::string("quant_type: found \"") + longshore::name(state.format) +
                        "\", expected \"" + longshore::name(expected) + "\" as in the name");
      return state;
    } catch (const DataError& error) {
      throw DataError("tensor " + in_quotes(text.name) + ": " + error.what());
    }
  }

  // bitsandbytes takes codes for what its own book says, whatever the file has.
  void require_book() const {
    const SafetensorsTensor& map = needed(joined(names_.weight, kQuantMap));
    expect_tensor(map.dtype == float32 && map.shape == Shape{16}, map, "F32 [16]");
    const std::vector<float> values = floats(map);
    const CodeBook& book = code_book(data_.matrix.format);
    for (size_t i = 0; i < book.size(); ++i)
      if (!(std::fabs(values[i] - book[i]) <= 1e-6f))
        throw DataError("tensor " + in_quotes(map.name) + ": found " + std::to_string(values[i]) +
                        " for code " + std::to_string(i) + ", expected " + std::to_string(book[i]) +
                        " as " + longshore::name(data_.matrix.format) + " has it");
  }

  void read_nested(float mean, int64_t blocks) {
    const int64_t groups = ceil_div(blocks, kNestedBlock);
    const SafetensorsTensor &scales = needed(joined(names_.weight, kNestedAbsmax)),
                            &map = needed(joined(names_.weight, kNestedQuantMap));
    expect_tensor(scales.dtype == float32 && scales.shape == Shape{groups}, scales,
                  "F32 " + shape_text(Shape{groups}) + ", one for each 256 blocks" + of_weight());
    expect_tensor(map.dtype == float32 && map.shape == Shape{256}, map, "F32 [256]");
    require_finite(scales);
    require_finite(map);
    data_.nested_scales = floats(scales);
    data_.nested_codes = floats(map);
    const auto found = std::ranges::adjacent_find(data_.nested_codes, std::greater_equal());
    if (found != data_.nested_codes.end())
      throw DataError("tensor " + in_quotes(map.name) + ": found " + std::to_string(found[1]) +
                      " after " + std::to_string(found[0]) + ", expected numbers that ascend");
    data_.nested_mean = mean;
  }

  // --- 8 bits

  void read_int8() {
    set_matrix(QuantizedFormat::int8, int8);
    const std::string stem(stem_of_weight(names_.weight).value());
    const SafetensorsTensor& scales = needed(joined(stem, kScb));
    expect_tensor(
        (scales.dtype == float32 || scales.dtype == float16) &&
            scales.shape == Shape{data_.matrix.rows},
        scales,
        "F32 or F16 " + shape_text(Shape{data_.matrix.rows}) + ", one for each row" + of_weight());
    set_scales(scales);
    const SafetensorsTensor* order = find_(joined(stem, kWeightFormat));
    if (!order) return;
    expect_tensor(order->dtype == uint8 && order->shape.empty(), *order, "U8 []");
    if (order->data[0] != std::byte{0})
      throw DataError("tensor " + in_quotes(order->name) + ": found " +
                      std::to_string(std::to_integer<int>(order->data[0])) +
                      ", expected 0, by which numbers are stored in rows");
  }

  void read_fp8() {
    const std::string expected = joined(names_.weight, kScaleInv);
    if (const SafetensorsTensor* other = find_(joined(names_.weight, kOtherScale)))
      throw DataError("tensor " + in_quotes(other->name) + ": found " + name(other->dtype) + " " +
                      shape_text(other->shape) + ", expected instead " + in_quotes(expected) +
                      ": scales of squares of 128 x 128");
    set_matrix(QuantizedFormat::fp8, float8_e4m3);
    const SafetensorsTensor& scales = needed(expected);
    const Shape squares{ceil_div(data_.matrix.rows, kFp8Block),
                        ceil_div(data_.matrix.columns, kFp8Block)};
    expect_tensor(
        (scales.dtype == float32 || scales.dtype == bfloat16) && scales.shape == squares, scales,
        "F32 or BF16 " + shape_text(squares) + ", one for each square of 128 x 128" + of_weight());
    set_scales(scales);
  }

  const QuantizedNames& names_;
  const FindTensor& find_;
  const SafetensorsTensor& weight_;
  QuantizedData data_;
};

}  // namespace

std::span<const std::byte> QuantizedData::scales() const {
  return scales_here.empty() ? scales_in_file : std::as_bytes(std::span(scales_here));
}

QuantizedView QuantizedData::view() const {
  return {.codes = reinterpret_cast<const uint8_t*>(codes.data()),
          .scales = scales().data(),
          .nested_scales = nested_scales.data(),
          .nested_codes = nested_codes.data(),
          .nested_mean = &nested_mean};
}

QuantizedData read_quantized_data(const QuantizedNames& names, const FindTensor& find) {
  return Reader(names, find).read();
}

}  // namespace longshore::data
