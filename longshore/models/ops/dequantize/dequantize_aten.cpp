#include "longshore/models/ops/dequantize/dequantize_aten.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <bit>

#include "longshore/models/ops/dequantize/dequantize_kernels.h"
#include "longshore/models/ops/kernels/aten.h"

namespace longshore::models {
namespace {

using enum QuantizedFormat;

constexpr int64_t kNumbers = 1 << 18;  // at a time

// One of the matrices.
class Composition {
 public:
  Composition(const KernelCall& call, const DequantizeArguments& a, int64_t number)
      : a_(a),
        m_(a.matrix),
        parts_(parts_of(a.matrix)),
        view_(view_of(a, number)),
        device_(is_cuda(call.target) ? at::kCUDA : at::kCPU) {}

  // In float32, of the places i64 [n].
  at::Tensor numbers(const at::Tensor& places) const {
    at::Tensor values = unrounded(places);
    if (m_.rounded_to == RoundedTo::float32) return values;
    return values.to(m_.rounded_to == RoundedTo::bfloat16 ? at::kBFloat16 : at::kHalf)
        .to(at::kFloat);
  }

  at::Tensor places(int64_t first, int64_t end) const {
    return at::arange(first, end, at::TensorOptions(at::kLong).device(device_));
  }

 private:
  at::Tensor part(const void* memory, const QuantizedParts::Part& part, at::ScalarType type) const {
    const int64_t count = part.bytes / static_cast<int64_t>(c10::elementSize(type));
    return at::from_blob(const_cast<void*>(memory), {count},
                         at::TensorOptions(type).device(device_));
  }

  at::Tensor codes(at::ScalarType type) const { return part(view_.codes, parts_.codes, type); }

  at::Tensor unrounded(const at::Tensor& places) const {
    switch (m_.format) {
      case float32:
        return codes(at::kFloat).index_select(0, places);
      case bfloat16:
        return codes(at::kBFloat16).index_select(0, places).to(at::kFloat);
      case fp8:
        return codes(at::kByte)
            .index_select(0, places)
            .view(at::kFloat8_e4m3fn)
            .to(at::kFloat)
            .mul_(scales(places));
      case int8:
        return codes(at::kChar)
            .index_select(0, places)
            .to(at::kFloat)
            .mul_(scales(places))
            .mul_(1.f / 127);
      default:
        return of_book(places).mul_(scales(places));
    }
  }

  at::Tensor of_book(const at::Tensor& places) const {
    const at::Tensor at_nibble = places + m_.first() % 2,
                     bytes = codes(at::kByte).index_select(0, at_nibble.bitwise_right_shift(1)),
                     is_even = at_nibble.bitwise_and(1).eq(0);
    const at::Tensor upper = bytes.bitwise_right_shift(4), lower = bytes.bitwise_and(15);
    const at::Tensor code =
        m_.format == mxfp4 ? at::where(is_even, lower, upper) : at::where(is_even, upper, lower);
    at::Tensor values = at::zeros_like(code, at::kFloat);
    for (int64_t k = 0; k < 16; ++k) values.masked_fill_(code.eq(k), a_.book[k]);
    return values;
  }

  // The number of each place's scale.
  at::Tensor blocks(const at::Tensor& places) const {
    auto over = [](const at::Tensor& x, int64_t y) { return x.div(y, "floor"); };
    at::Tensor row = over(places, m_.columns), column = places.remainder(m_.columns);
    switch (m_.format) {
      case int8:
        return row;
      case fp8:
        return over(row + m_.first_row % kFp8Block, kFp8Block) * ceil_div(m_.columns, kFp8Block) +
               over(column, kFp8Block);
      case mxfp4:
        return row * ceil_div(m_.columns, kMxfp4Block) + over(column, kMxfp4Block);
      default:
        return over(places + m_.first() % m_.block, m_.block);
    }
  }

  at::Tensor scales(const at::Tensor& places) const {
    const at::Tensor block = blocks(places);
    if (m_.format == mxfp4) {
      const at::Tensor exponent =
          part(view_.scales, parts_.scales, at::kByte).index_select(0, block).to(at::kInt);
      at::Tensor bits = exponent.bitwise_left_shift(23);
      bits.masked_fill_(exponent.eq(0), 0x00400000).masked_fill_(exponent.eq(255), 0x7fc00000);
      return bits.view(at::kFloat);
    }
    if (!m_.has_nested_scales)
      return part(view_.scales, parts_.scales, at::kFloat).index_select(0, block);
    const at::Tensor code =
        part(view_.scales, parts_.scales, at::kByte).index_select(0, block).to(at::kLong);
    const at::Tensor group =
        (block + m_.first() / m_.block % kNestedBlock).div(kNestedBlock, "floor");
    return part(view_.nested_codes, parts_.nested_codes, at::kFloat)
        .index_select(0, code)
        .mul_(part(view_.nested_scales, parts_.nested_scales, at::kFloat).index_select(0, group))
        .add_(part(view_.nested_mean, parts_.nested_mean, at::kFloat));
  }

  const DequantizeArguments& a_;
  const QuantizedMatrix& m_;
  QuantizedParts parts_;
  QuantizedView view_;
  at::Device device_;
};

}  // namespace

void run_dequantize_composed(const KernelCall& call) {
  const DequantizeArguments a = dequantize_arguments(call);
  const int64_t count = a.matrix.count();
  const at::Tensor out = tensor(call, call.out[0]).view({a.matrices, count});
  for (int64_t i = 0; i < a.matrices; ++i) {
    const Composition matrix(call, a, i);
    for (int64_t first = 0; first < count; first += kNumbers) {
      const at::Tensor places = matrix.places(first, std::min(first + kNumbers, count)),
                       numbers = matrix.numbers(places).to(out.scalar_type());
      const at::Tensor to = a.is_transposed ? places.remainder(a.matrix.columns) * a.matrix.rows +
                                                  places.div(a.matrix.columns, "floor")
                                            : places;
      out.select(0, i).index_copy_(0, to, numbers);
    }
  }
}

// Some places and what goes with each, at most so many bytes of them.
int64_t dequantize_composed_workspace(const std::any&, std::span<const Type>,
                                      std::span<const Type> out) {
  constexpr int64_t kBytesOfOne = 160;
  return std::min(out[0].shape.count(), kNumbers) * kBytesOfOne + (1 << 16);
}

}  // namespace longshore::models
