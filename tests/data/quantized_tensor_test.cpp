// Weights in few bits, against bitsandbytes' numbers and against what quantize() has made.
#include "longshore/data/safetensors/quantized_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>

#include "longshore/base/error.h"
#include "longshore/base/quantization/code_books.h"
#include "longshore/data/safetensors/quant_state.h"
#include "tests/data/safetensors_samples.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using enum QuantizedFormat;
using Dtype = SafetensorsDtype;

constexpr const char* kWeight = "x.weight";

// Tensors by name, at odd addresses or at those that a file of the safetensors library gives them.
class Tensors {
 public:
  explicit Tensors(size_t odd = 0) : odd_(odd) {}

  void set(const std::string& name, Dtype dtype, std::vector<int64_t> shape,
           std::span<const std::byte> data) {
    Owned& owned = tensors_[name];
    owned.room = std::make_unique<std::byte[]>(data.size() + odd_);
    std::ranges::copy(data, owned.room.get() + odd_);
    owned.tensor = {{.name = name, .dtype = dtype, .shape = std::move(shape)},
                    {owned.room.get() + odd_, data.size()}};
  }

  void erase(const std::string& name) { tensors_.erase(name); }

  std::span<std::byte> data(const std::string& name) {
    Owned& owned = tensors_.at(name);
    return {owned.room.get() + odd_, owned.tensor.data.size()};
  }

  SafetensorsTensor& at(const std::string& name) { return tensors_.at(name).tensor; }

  const SafetensorsTensor* find(std::string_view name) const {
    const auto at = tensors_.find(name);
    return at == tensors_.end() ? nullptr : &at->second.tensor;
  }

  QuantizedTensor quantized() const {
    const auto found = [this](std::string_view name) { return find(name); };
    return {quantized_names(kWeight, found).value(), found};
  }

 private:
  struct Owned {
    std::unique_ptr<std::byte[]> room;
    SafetensorsTensor tensor;
  };

  size_t odd_;
  std::map<std::string, Owned, std::less<>> tensors_;
};

std::vector<std::byte> made(const QuantizedMatrix& matrix) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(static_cast<size_t>(matrix.count()));
  for (float& number : numbers) number = normal(random);
  std::vector<std::byte> memory(static_cast<size_t>(parts_of(matrix).bytes));
  quantize(
      matrix, matrix.rows,
      [&](int64_t first, std::span<float> to) {
        std::copy_n(numbers.begin() + first, to.size(), to.begin());
      },
      [&](int64_t offset, std::span<const std::byte> from) {
        std::ranges::copy(from, memory.begin() + offset);
      });
  return memory;
}

std::vector<float> numbers_of(const QuantizedMatrix& matrix, const std::vector<std::byte>& memory) {
  std::vector<float> numbers(static_cast<size_t>(matrix.count()));
  dequantize(matrix, view_of(matrix, memory.data()), 0, numbers);
  return numbers;
}

std::string state_of(const QuantizedMatrix& m, float nested_mean) {
  const char* const dtype = m.rounded_to == RoundedTo::bfloat16  ? "bfloat16"
                            : m.rounded_to == RoundedTo::float16 ? "float16"
                                                                 : "float32";
  std::ostringstream text;
  text.precision(17);
  text << "{\"quant_type\": \"" << name(m.format) << "\", \"blocksize\": " << m.block
       << ", \"dtype\": \"" << dtype << "\", \"shape\": [" << m.rows << ", " << m.columns << "]";
  if (m.has_nested_scales)
    text << ", \"nested_blocksize\": 256, \"nested_dtype\": \"float32\", \"nested_offset\": "
         << double{nested_mean};
  return text.str() + "}";
}

std::span<const std::byte> book_of(QuantizedFormat format) {
  return std::as_bytes(std::span(format == nf4 ? kNf4 : kFp4));
}

// As files have the matrix.
Tensors tensors_of(const QuantizedMatrix& m, const std::vector<std::byte>& memory, size_t odd = 0) {
  const QuantizedParts parts = parts_of(m);
  auto part = [&](const QuantizedParts::Part& part) {
    return std::span(memory).subspan(static_cast<size_t>(part.offset),
                                     static_cast<size_t>(part.bytes));
  };
  Tensors tensors(odd);
  const std::string weight = kWeight;
  const BlockRange blocks = blocks_of(m);
  switch (m.format) {
    case int8:
      tensors.set(weight, Dtype::int8, {m.rows, m.columns}, part(parts.codes));
      tensors.set("x.SCB", Dtype::float32, {m.rows}, part(parts.scales));
      tensors.set("x.weight_format", Dtype::uint8, {}, std::vector<std::byte>(1));
      break;
    case fp8:
      tensors.set(weight, Dtype::float8_e4m3, {m.rows, m.columns}, part(parts.codes));
      tensors.set(weight + "_scale_inv", Dtype::float32, {blocks.count(), (m.columns + 127) / 128},
                  part(parts.scales));
      break;
    default: {
      float mean = 0;
      if (m.has_nested_scales) {
        std::memcpy(&mean, part(parts.nested_mean).data(), sizeof mean);
        tensors.set(weight + ".nested_absmax", Dtype::float32, {nested_blocks_of(m).count()},
                    part(parts.nested_scales));
        tensors.set(weight + ".nested_quant_map", Dtype::float32, {256}, part(parts.nested_codes));
      }
      tensors.set(weight, Dtype::uint8, {parts.codes.bytes, 1}, part(parts.codes));
      tensors.set(weight + ".absmax", m.has_nested_scales ? Dtype::uint8 : Dtype::float32,
                  {blocks.count()}, part(parts.scales));
      tensors.set(weight + ".quant_map", Dtype::float32, {16}, book_of(m.format));
      const std::string state = state_of(m, mean);
      tensors.set(weight + ".quant_state.bitsandbytes__" + name(m.format), Dtype::uint8,
                  {std::ssize(state)}, bytes_of(state));
    }
  }
  return tensors;
}

const std::vector<QuantizedMatrix> kMatrices{
    {.format = nf4, .rows = 301, .columns = 50, .rounded_to = RoundedTo::bfloat16},
    {.format = nf4, .rows = 301, .columns = 352, .block = 32, .has_nested_scales = true},
    {.format = fp4, .rows = 301, .columns = 9, .rounded_to = RoundedTo::float16},
    {.format = fp4, .rows = 301, .columns = 351, .block = 128, .has_nested_scales = true},
    {.format = int8, .rows = 301, .columns = 9},
    {.format = int8, .rows = 301, .columns = 352},
    {.format = fp8, .rows = 301, .columns = 50},
    {.format = fp8, .rows = 301, .columns = 352},
};

// Any numbers, with any step, are `expected`, and so are those of any rows that have been copied.
void expect_numbers(const QuantizedTensor& tensor, const std::vector<float>& expected) {
  const QuantizedMatrix& m = tensor.matrix();
  ASSERT_EQ(m.count(), std::ssize(expected));
  EXPECT_THAT(tensor.info().shape, ElementsAre(m.rows, m.columns));
  std::vector<float> values(expected.size());
  EXPECT_EQ(tensor.to_float32(0, values), NonFinite{});
  EXPECT_EQ(values, expected);
  for (const auto& [first, step] : {std::pair<size_t, size_t>{1, 2}, {193, 1}, {700, 191}}) {
    std::vector<float> some((values.size() - first + step - 1) / step);
    tensor.to_float32(static_cast<int64_t>(first), some, static_cast<int64_t>(step));
    for (size_t i = 0; i < some.size(); ++i) ASSERT_EQ(some[i], expected[first + i * step]);
    some.push_back(0);
    EXPECT_THROW(tensor.to_float32(static_cast<int64_t>(first), some, static_cast<int64_t>(step)),
                 InternalError);
  }
  for (int64_t first : {int64_t{0}, int64_t{1}, m.rows / 3, m.rows - 1})
    for (int64_t rows : {int64_t{1}, int64_t{7}, m.rows / 2, m.rows}) {
      if (first + rows > m.rows) continue;
      QuantizedMatrix part = m;
      part.first_row = first, part.rows = rows;
      const QuantizedParts parts = parts_of(part);
      std::vector<std::byte> memory(static_cast<size_t>(parts.bytes));
      std::vector<int> writes(memory.size());
      tensor.copy(part, [&](int64_t offset, std::span<const std::byte> from) {
        ASSERT_LE(offset + std::ssize(from), std::ssize(memory));
        std::ranges::copy(from, memory.begin() + offset);
        for (int64_t i = offset; i < offset + std::ssize(from); ++i) ++writes[i];
      });
      for (const auto& place :
           {parts.codes, parts.scales, parts.nested_scales, parts.nested_codes, parts.nested_mean})
        for (int64_t i = place.offset; i < place.offset + place.bytes; ++i)
          ASSERT_EQ(writes[i], 1) << i;
      const std::vector<float> of_part = numbers_of(part, memory);
      for (size_t i = 0; i < of_part.size(); ++i)
        ASSERT_EQ(of_part[i], expected[static_cast<size_t>(first * m.columns) + i])
            << first << " " << rows << " " << i;
    }
}

TEST(QuantizedTensor, HasBitsandbytesNumbers) {
  const std::string folder = "tests/goldens/models/nf4_checkpoint/";
  const SafetensorsFile stored(folder + "model.safetensors"),
      golden(folder + "numbers.safetensors");
  const auto find = [&](std::string_view name) {
    return stored.contains(name) ? &stored.at(name) : nullptr;
  };
  std::set<std::string> weights, names, plain;
  for (const SafetensorsTensor& tensor : stored.tensors()) {
    const auto parts = quantized_names(tensor.name, find);
    if (!parts) continue;
    SCOPED_TRACE(tensor.name);
    weights.insert(tensor.name);
    names.insert(parts->companions.begin(), parts->companions.end());
    const SafetensorsTensor& reference = golden.at("dequant_bf16." + tensor.name);
    const QuantizedTensor quantized(*parts, find);
    EXPECT_EQ(
        quantized.info(),
        (SafetensorsInfo{.name = tensor.name, .dtype = Dtype::bfloat16, .shape = reference.shape}));
    std::vector<float> expected(static_cast<size_t>(reference.element_count()));
    to_float32(reference, expected);
    expect_numbers(quantized, expected);
  }
  EXPECT_EQ(weights.size(), 14u);
  EXPECT_EQ(names.size(), 14u * 5);
  for (const SafetensorsTensor& tensor : stored.tensors())
    if (!weights.contains(tensor.name) && !names.contains(tensor.name)) plain.insert(tensor.name);
  EXPECT_THAT(plain, testing::Each(testing::AnyOf(HasSubstr("norm"), HasSubstr("lm_head"),
                                                  HasSubstr("embed_tokens"))));
}

TEST(QuantizedTensor, HasTheNumbersThatWereQuantized) {
  for (const QuantizedMatrix& matrix : kMatrices)
    for (size_t odd : {0, 1}) {
      SCOPED_TRACE(std::string(name(matrix.format)) + " " + std::to_string(matrix.columns) + " " +
                   std::to_string(odd));
      const std::vector<std::byte> memory = made(matrix);
      const Tensors tensors = tensors_of(matrix, memory, odd);
      const QuantizedTensor tensor = tensors.quantized();
      EXPECT_EQ(tensor.matrix(), matrix);
      EXPECT_EQ(tensor.info().name, kWeight);
      EXPECT_EQ(tensor.info().dtype, matrix.rounded_to == RoundedTo::bfloat16  ? Dtype::bfloat16
                                     : matrix.rounded_to == RoundedTo::float16 ? Dtype::float16
                                                                               : Dtype::float32);
      expect_numbers(tensor, numbers_of(matrix, memory));
    }
}

// The scales of `name`, in another dtype that holds them.
void convert_scales(Tensors& tensors, const std::string& name, Dtype dtype) {
  const SafetensorsTensor before = tensors.at(name);
  std::vector<std::byte> converted(static_cast<size_t>(before.element_count() * size_bytes(dtype)));
  convert_floats(before, dtype, converted);
  tensors.set(name, dtype, before.shape, converted);
}

TEST(QuantizedTensor, TakesScalesOfHalfPrecision) {
  const QuantizedMatrix rows{.format = int8, .rows = 40, .columns = 72};
  std::vector<std::byte> memory = made(rows);
  Tensors tensors = tensors_of(rows, memory);
  convert_scales(tensors, "x.SCB", Dtype::float16);
  tensors.erase("x.weight_format");
  expect_numbers(tensors.quantized(), numbers_of(rows, memory));

  const QuantizedMatrix squares{.format = fp8, .rows = 300, .columns = 200};
  memory = made(squares);
  const QuantizedParts::Part scales = parts_of(squares).scales;
  for (int64_t i = scales.offset; i < scales.offset + scales.bytes; i += 4)
    memory[static_cast<size_t>(i)] = memory[static_cast<size_t>(i) + 1] = std::byte{0};
  tensors = tensors_of(squares, memory);
  convert_scales(tensors, "x.weight_scale_inv", Dtype::bfloat16);
  expect_numbers(tensors.quantized(), numbers_of(squares, memory));
}

TEST(QuantizedTensor, TakesCodesStoredAsOtherNumbers) {
  const QuantizedMatrix matrix{.format = nf4, .rows = 40, .columns = 72};
  const std::vector<std::byte> memory = made(matrix);
  Tensors tensors = tensors_of(matrix, memory);
  for (Dtype dtype : {Dtype::bfloat16, Dtype::float16, Dtype::float32}) {
    tensors.at(kWeight).dtype = dtype;
    tensors.at(kWeight).shape = {40 * 72 / 2 / size_bytes(dtype), 1};
    expect_numbers(tensors.quantized(), numbers_of(matrix, memory));
  }
}

TEST(QuantizedTensor, CountsWhatIsNotFiniteAndDoesNotCopyIt) {
  const float nan = std::nanf(""), huge = std::numeric_limits<float>::max();
  auto expect = [&](const QuantizedMatrix& matrix, const std::string& of, auto value,
                    const NonFinite& expected, const std::string& refusal) {
    SCOPED_TRACE(of);
    const std::vector<std::byte> memory = made(matrix);
    Tensors tensors = tensors_of(matrix, memory, 1);
    std::memcpy(tensors.data(of).data(), &value, sizeof value);
    const QuantizedTensor tensor = tensors.quantized();
    std::vector<float> numbers(static_cast<size_t>(matrix.count()));
    EXPECT_EQ(tensor.to_float32(0, numbers), expected);
    const auto drop = [](int64_t, std::span<const std::byte>) {};
    EXPECT_THAT(message_of<DataError>([&] { tensor.copy(matrix, drop); }), HasSubstr(refusal));
    if (of != kWeight) {
      EXPECT_THAT(message_of<DataError>([&] { tensor.require_finite_scales(); }),
                  HasSubstr(refusal));
    }
    QuantizedMatrix others = matrix;  // rows that are as they should be
    others.first_row = 128, others.rows = matrix.rows - 128;
    EXPECT_NO_THROW(tensor.copy(others, drop));
  };
  const QuantizedMatrix four{.format = nf4, .rows = 130, .columns = 64};
  const std::string finite = ", expected it finite, and numbers by it";
  expect(four, "x.weight.absmax", nan, {.nan_count = 64, .infinity_count = 0},
         "tensor \"x.weight.absmax\": found the scale nan" + finite);
  expect({.format = int8, .rows = 130, .columns = 64}, "x.SCB", nan,
         {.nan_count = 64, .infinity_count = 0}, "tensor \"x.SCB\": found the scale nan" + finite);
  expect({.format = fp8, .rows = 130, .columns = 64}, "x.weight_scale_inv", nan,
         {.nan_count = 128 * 64, .infinity_count = 0},
         "tensor \"x.weight_scale_inv\": found the scale nan" + finite);
  expect({.format = fp8, .rows = 130, .columns = 64}, "x.weight", uint8_t{0xff},
         {.nan_count = 1, .infinity_count = 0},
         "tensor \"x.weight\": found NaN, expected finite numbers");
  // Finite until it is rounded to half precision.
  QuantizedMatrix narrow = four;
  narrow.rounded_to = RoundedTo::float16;
  const Tensors tensors = [&] {
    Tensors tensors = tensors_of(narrow, made(narrow));
    std::memcpy(tensors.data("x.weight.absmax").data(), &huge, sizeof huge);
    return tensors;
  }();
  const auto drop = [](int64_t, std::span<const std::byte>) {};
  EXPECT_THROW(tensors.quantized().copy(narrow, drop), DataError);
  EXPECT_NO_THROW(tensors.quantized().copy(four, drop));
  EXPECT_THROW(tensors.quantized().require_finite_scales(), DataError);
  // Of nested scales one alone.
  QuantizedMatrix nested = four;
  nested.has_nested_scales = true;
  Tensors of_nested = tensors_of(nested, made(nested));
  EXPECT_NO_THROW(of_nested.quantized().require_finite_scales());
  std::memcpy(of_nested.data("x.weight.nested_absmax").data(), &huge, sizeof huge);
  const float twice = 2;
  std::memcpy(of_nested.data("x.weight.nested_quant_map").subspan(4 * 255).data(), &twice,
              sizeof twice);
  of_nested.data("x.weight.absmax")[7] = std::byte{255};
  EXPECT_THAT(message_of<DataError>([&] { of_nested.quantized().require_finite_scales(); }),
              HasSubstr("tensor \"x.weight.absmax\": found the scale inf" + finite));
}

TEST(QuantizedTensor, CopiesNoRowsOfAnotherMatrix) {
  const QuantizedMatrix matrix{.format = nf4, .rows = 40, .columns = 72};
  const Tensors tensors = tensors_of(matrix, made(matrix));
  const QuantizedTensor tensor = tensors.quantized();
  auto expect_refusal = [&](auto change) {
    QuantizedMatrix part = matrix;
    change(part);
    EXPECT_THROW(tensor.copy(part, [](int64_t, std::span<const std::byte>) {}), InternalError);
  };
  expect_refusal([](QuantizedMatrix& part) { part.columns = 71; });
  expect_refusal([](QuantizedMatrix& part) { part.format = fp4; });
  expect_refusal([](QuantizedMatrix& part) { part.block = 32; });
  expect_refusal([](QuantizedMatrix& part) { part.has_nested_scales = true; });
  expect_refusal([](QuantizedMatrix& part) { part.rows = 41; });
  expect_refusal([](QuantizedMatrix& part) { part.rows = 0; });
  expect_refusal([](QuantizedMatrix& part) { part.first_row = 1; });
  expect_refusal([](QuantizedMatrix& part) { part.first_row = -1; });
}

// What is wrong with the tensors that `change` leaves of a matrix.
std::string refusal(const QuantizedMatrix& matrix, const std::function<void(Tensors&)>& change) {
  Tensors tensors = tensors_of(matrix, made(matrix));
  change(tensors);
  return message_of<DataError>([&] { tensors.quantized(); });
}

void set_state(Tensors& tensors, const std::string& text) {
  tensors.set("x.weight.quant_state.bitsandbytes__nf4", Dtype::uint8, {std::ssize(text)},
              bytes_of(text));
}

TEST(QuantizedTensor, RefusesWhatDoesNotFit) {
  const QuantizedMatrix plain{.format = nf4, .rows = 6, .columns = 300},
      nested{.format = nf4, .rows = 6, .columns = 300, .has_nested_scales = true},
      rows{.format = int8, .rows = 6, .columns = 300},
      squares{.format = fp8, .rows = 6, .columns = 300};
  const std::string state = ".quant_state.bitsandbytes__nf4";
  struct Case {
    const QuantizedMatrix& matrix;
    std::function<void(Tensors&)> change;
    std::string message;
  };
  auto without = [](std::string name) { return [=](Tensors& t) { t.erase(name); }; };
  auto dtype = [](std::string name, Dtype dtype) {
    return [=](Tensors& t) { t.at(name).dtype = dtype; };
  };
  auto shape = [](std::string name, std::vector<int64_t> shape) {
    return [=](Tensors& t) { t.at(name).shape = shape; };
  };
  auto number = [](std::string name, auto value) {
    return [=](Tensors& t) { std::memcpy(t.data(name).data(), &value, sizeof value); };
  };
  auto other = [](std::string name, Dtype dtype, std::vector<int64_t> shape) {
    return [=](Tensors& t) {
      const SafetensorsInfo info{.name = name, .dtype = dtype, .shape = shape};
      t.set(name, dtype, shape, std::vector<std::byte>(static_cast<size_t>(info.bytes())));
    };
  };
  auto said = [&](const std::string& text) { return [=](Tensors& t) { set_state(t, text); }; };
  const std::string weight = kWeight;
  const Case cases[] = {
      {plain, without("x.weight.absmax"),
       "tensor \"x.weight.absmax\": found none, expected one beside \"x.weight.quant_map\""},
      {plain, without("x.weight.quant_map"), "tensor \"x.weight.quant_map\": found none"},
      {plain, without(weight + state), "tensor \"x.weight" + state + "\": found none"},
      {plain, without(weight), "tensor \"x.weight\": found none"},
      {plain, other("x.weight.quant_state.bitsandbytes__fp4", Dtype::uint8, {2}),
       "__fp4\": found beside \"x.weight.quant_state.bitsandbytes__nf4\", expected one of the two"},
      {plain, dtype(weight + state, Dtype::int8), "expected U8 [bytes], JSON"},
      {plain, said("{}"), state + "\": found no quant_type, expected one"},
      {plain, said(state_of({.format = fp4, .rows = 6, .columns = 300}, 0)),
       "quant_type: found \"fp4\", expected \"nf4\" as in the name"},
      {plain, said(state_of({.format = nf4, .rows = 6, .columns = 301}, 0)),
       "tensor \"x.weight\": found U8 [900,1], expected U8 [903,1], or BF16, F16 or F32 of as "
       "many bytes, for [6,301]"},
      {plain, said(state_of({.format = nf4, .rows = int64_t{1} << 62, .columns = 4}, 0)),
       "tensor \"x.weight\": shape [4611686018427387904,4] has more than 2^63 - 1 elements"},
      {plain,
       said(
           state_of({.format = nf4, .rows = 1, .columns = std::numeric_limits<int64_t>::max()}, 0)),
       "expected U8 [4611686018427387904,1]"},
      {plain, dtype(weight, Dtype::int8), "found I8 [900,1]"},
      {plain, shape(weight, {1, 900}), "found U8 [1,900]"},
      {plain, shape(weight, {900}), "found U8 [900]"},
      {plain, shape("x.weight.absmax", {29, 1}),
       "tensor \"x.weight.absmax\": found F32 [29,1], expected F32 [29], one for each block of 64 "
       "of \"x.weight\""},
      {plain, other("x.weight.absmax", Dtype::float32, {28}), "found F32 [28]"},
      {plain, other("x.weight.absmax", Dtype::uint8, {29}), "found U8 [29]"},
      {plain, other("x.weight.quant_map", Dtype::float32, {15}),
       "tensor \"x.weight.quant_map\": found F32 [15], expected F32 [16]"},
      {plain, other("x.weight.quant_map", Dtype::float32, {16}),
       "tensor \"x.weight.quant_map\": found 0.000000 for code 0, expected -1.000000 as nf4 has "
       "it"},
      {plain, number("x.weight.quant_map", std::nanf("")), "found nan for code 0"},
      {plain, other("x.weight.nested_absmax", Dtype::float32, {1}),
       "tensor \"x.weight.nested_absmax\": found one, expected none where quant_state has no "
       "nested_offset"},
      {nested, without("x.weight.nested_absmax"), "\"x.weight.nested_absmax\": found none"},
      {nested, without("x.weight.nested_quant_map"), "\"x.weight.nested_quant_map\": found none"},
      {nested, other("x.weight.absmax", Dtype::float32, {29}),
       "found F32 [29], expected U8 [29], one for each block"},
      {nested, other("x.weight.nested_absmax", Dtype::float32, {2}),
       "found F32 [2], expected F32 [1], one for each 256 blocks of \"x.weight\""},
      {nested, other("x.weight.nested_quant_map", Dtype::float32, {255}), "expected F32 [256]"},
      {nested, number("x.weight.nested_absmax", std::nanf("")), "infinite or NaN"},
      {nested, number("x.weight.nested_quant_map", INFINITY), "infinite or NaN"},
      {nested, other("x.weight.nested_quant_map", Dtype::float32, {256}),
       "tensor \"x.weight.nested_quant_map\": found 0.000000 after 0.000000, expected numbers that "
       "ascend"},
      {plain, said("{\"quant_type\": \"nf4\", \"shape\": [1800]}"),
       state + "\": shape: expected a list of two sizes from 1 to 2^63 - 1, found [1800]"},
      {nested, said(state_of(plain, 0)), "found U8 [29], expected F32 [29]"},
      {rows, without("x.weight"), "tensor \"x.weight\": found none"},
      {rows, dtype(weight, Dtype::uint8),
       "tensor \"x.weight\": found U8 [6,300], expected I8 [rows,columns], which has scales"},
      {rows, shape(weight, {1800}), "found I8 [1800]"},
      {rows, other(weight, Dtype::int8, {0, 300}), "found I8 [0,300]"},
      {rows, other("x.SCB", Dtype::float32, {7}),
       "tensor \"x.SCB\": found F32 [7], expected F32 or F16 [6], one for each row of "
       "\"x.weight\""},
      {rows, other("x.SCB", Dtype::int8, {6}), "found I8 [6]"},
      {rows, number("x.weight_format", uint8_t{2}),
       "tensor \"x.weight_format\": found 2, expected 0, by which numbers are stored in rows"},
      {rows, shape("x.weight_format", {1}), "found U8 [1], expected U8 []"},
      {squares, dtype(weight, Dtype::float8_e5m2),
       "found F8_E5M2 [6,300], expected F8_E4M3 [rows,columns], which has scales"},
      {squares, other(weight, Dtype::float8_e4m3, {6, 0}), "found F8_E4M3 [6,0]"},
      {squares, other("x.weight_scale_inv", Dtype::float32, {}),
       "tensor \"x.weight_scale_inv\": found F32 [], expected F32 or BF16 [1,3], one for each "
       "square of 128 x 128 of \"x.weight\""},
      {squares, other("x.weight_scale_inv", Dtype::float8_e8m0, {1, 3}), "found F8_E8M0 [1,3]"},
      {squares, other("x.weight_scale", Dtype::float32, {6, 1}),
       "tensor \"x.weight_scale\": found F32 [6,1], expected instead \"x.weight_scale_inv\": "
       "scales of squares of 128 x 128"},
  };
  for (const auto& [matrix, change, message] : cases)
    EXPECT_THAT(refusal(matrix, change), HasSubstr(message));
}

TEST(QuantState, IsReadInAnyOrder) {
  const QuantState state = parse_quant_state(
      R"( {"nested_offset": 1, "shape": [40, 72], "dtype": "float16", "nested_dtype": "float32",
           "blocksize": 4096, "nested_blocksize": 256, "quant_type": "fp4"} )");
  EXPECT_EQ(state.format, fp4);
  EXPECT_EQ(state.block, 4096);
  EXPECT_EQ(state.rounded_to, RoundedTo::float16);
  EXPECT_EQ(state.rows, 40);
  EXPECT_EQ(state.columns, 72);
  EXPECT_EQ(state.nested_mean, 1.f);
}

TEST(QuantState, RefusesWhatIsNone) {
  // Of a good one, the values of some keys.
  auto text = [](const std::map<std::string, std::string>& values) {
    std::map<std::string, std::string> all{
        {"quant_type", "\"nf4\""}, {"blocksize", "64"},         {"dtype", "\"float32\""},
        {"shape", "[2,3]"},        {"nested_blocksize", "256"}, {"nested_dtype", "\"float32\""},
        {"nested_offset", "0.5"}};
    for (const auto& [key, value] : values) all[key] = value;
    std::string text;
    for (const auto& [key, value] : all)
      if (!value.empty()) text += (text.empty() ? "{\"" : ",\"") + key + "\":" + value;
    return text + "}";
  };
  EXPECT_EQ(parse_quant_state(text({})).nested_mean, 0.5f);
  EXPECT_EQ(parse_quant_state(text({{"nested_offset", "-2"}})).nested_mean, -2.f);
  const std::string block = "blocksize: expected a power of two from 32 to 4096, found ",
                    shape = "shape: expected a list of two sizes from 1 to 2^63 - 1, found ",
                    offset = "nested_offset: expected a number of float32, found ";
  const std::pair<std::string, std::string> cases[] = {
      {"", "no valid JSON"},
      {"7", "expected an object, found 7"},
      {"[]", "expected an object, found a list"},
      {"[[", "expected an object, found a list"},
      {"{\"quant_type\"", "no valid JSON"},
      {text({}) + "}", "no valid JSON"},
      {text({}) + " {}", "no valid JSON"},
      {text({}) + std::string(1, '\0'), "found a zero"},
      {text({{"nested_offset", "NaN"}}), "no valid JSON"},
      {std::string(4097, ' '), "found 4097 bytes, expected at most 4096"},
      {std::string(4000, '['), "found a list"},
      {text({{"quant_type", ""}}), "found no quant_type, expected one"},
      {text({{"blocksize", ""}}), "found no blocksize"},
      {text({{"dtype", ""}}), "found no dtype"},
      {text({{"shape", ""}}), "found no shape"},
      {text({{"nested_blocksize", ""}}), "found no nested_blocksize"},
      {text({{"nested_dtype", ""}}), "found no nested_dtype"},
      {text({{"nested_offset", ""}}), "found no nested_offset"},
      {text({{"shape", "[2,3],\"shape\":[2,3]"}}), "once each, found shape twice"},
      {text({{"offset", "1"}}), "once each, found \"offset\""},
      {text({{"quant_type", "\"int8\""}}),
       "quant_type: expected \"nf4\" or \"fp4\", found \"int8\""},
      {text({{"quant_type", "4"}}), "quant_type: expected \"nf4\" or \"fp4\", found 4"},
      {text({{"dtype", "\"float64\""}}), "or \"float32\", found \"float64\""},
      {text({{"dtype", "null"}}), "found null"},
      {text({{"nested_dtype", "\"bfloat16\""}}), "expected \"float32\", found \"bfloat16\""},
      {text({{"blocksize", "0"}}), block + "0"},
      {text({{"blocksize", "16"}}), block + "16"},
      {text({{"blocksize", "8192"}}), block + "8192"},
      {text({{"blocksize", "96"}}), block + "96"},
      {text({{"blocksize", "-64"}}), block + "-64"},
      {text({{"blocksize", "64.0"}}), block + "64.0"},
      {text({{"blocksize", "\"64\""}}), block + "\"64\""},
      {text({{"blocksize", "true"}}), block + "a boolean"},
      {text({{"blocksize", "{}"}}), block + "an object"},
      {text({{"blocksize", "[64]"}}), block + "a list"},
      {text({{"nested_blocksize", "128"}}), "nested_blocksize: expected 256, found 128"},
      {text({{"shape", "6"}}), shape + "6"},
      {text({{"shape", "[]"}}), shape + "[]"},
      {text({{"shape", "[6]"}}), shape + "[6]"},
      {text({{"shape", "[1,2,3]"}}), shape + "a third, 3"},
      {text({{"shape", "[0,3]"}}), shape + "0"},
      {text({{"shape", "[2,-3]"}}), shape + "-3"},
      {text({{"shape", "[2,3.0]"}}), shape + "3.0"},
      {text({{"shape", "[2,\"3\"]"}}), shape + "\"3\""},
      {text({{"shape", "[[2,3]]"}}), shape + "a list"},
      {text({{"shape", "[2,{}]"}}), shape + "an object"},
      {text({{"shape", "[2,9223372036854775808]"}}), shape + "9223372036854775808"},
      {text({{"shape", "[2,99999999999999999999]"}}), shape + "99999999999999999999"},
      {text({{"nested_offset", "1e39"}}), offset + "1e39"},
      {text({{"nested_offset", "1e999"}}), offset + "1e999"},
      {text({{"nested_offset", "[0.5]"}}), offset + "a list"},
      {text({{"nested_offset", "null"}}), offset + "null"},
  };
  for (const auto& [state, message] : cases)
    EXPECT_THAT(message_of<DataError>([&] { parse_quant_state(state); }), HasSubstr(message))
        << state;
}

TEST(QuantizedNames, AreThoseThatAreThere) {
  auto found = [](const std::string& weight, const std::set<std::string>& all) {
    const auto names = quantized_names(
        weight, [&](std::string_view name) { return all.contains(std::string(name)); });
    return names ? std::pair(static_cast<int>(names->kind), names->companions)
                 : std::pair(-1, std::vector<std::string>());
  };
  using Found = std::pair<int, std::vector<std::string>>;
  const Found none{-1, {}};
  EXPECT_EQ(found("x.weight", {"x.weight", "x.bias"}), none);
  EXPECT_EQ(
      found("x", {"x.absmax", "x.quant_map", "y"}),
      (Found{static_cast<int>(QuantizedKind::bitsandbytes_4_bits), {"x.absmax", "x.quant_map"}}));
  EXPECT_EQ(
      found("x.weight", {"x.SCB", "x.weight_format"}),
      (Found{static_cast<int>(QuantizedKind::bitsandbytes_int8), {"x.SCB", "x.weight_format"}}));
  EXPECT_EQ(found("x.weight", {"x.weight_format"}), none);
  EXPECT_EQ(found("x.bias", {"x.SCB"}), none);
  EXPECT_EQ(found("weight", {"SCB", "weight_scale_inv"}), none);
  EXPECT_EQ(found("x.weight", {"x.weight_scale_inv"}),
            (Found{static_cast<int>(QuantizedKind::fp8), {"x.weight_scale_inv"}}));
  EXPECT_EQ(found("x.weight", {"x.weight_scale"}),
            (Found{static_cast<int>(QuantizedKind::fp8), {"x.weight_scale"}}));
}

}  // namespace
}  // namespace longshore::data
