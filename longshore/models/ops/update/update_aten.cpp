#include "longshore/models/ops/update/update_aten.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "longshore/base/pieces.h"
#include "longshore/base/round_up.h"
#include "longshore/models/ops/kernels/block8.h"
#include "longshore/models/ops/kernels/stochastic_rounding.h"

namespace longshore::models {
namespace {

// 32-bit words are kept in int64, which has room for their sums and wraps their products as uint64.
constexpr int64_t kWord = 0xffffffff;

at::Tensor word_of(const at::Tensor& value) {
  return value.contiguous().view(at::kInt).to(at::kLong).bitwise_and_(kWord);
}

at::Tensor float_of(const at::Tensor& word) { return word.to(at::kInt).view(at::kFloat); }

at::Tensor high_word(const at::Tensor& product) {
  return product.__rshift__(32).bitwise_and_(kWord);
}

// --- random numbers: see stochastic_rounding.h

struct Bits {
  at::Tensor weight, states[2];
};

Bits draw(const Rounding& rounding, const at::Tensor& step, int64_t first, int64_t count) {
  int64_t groups = ceil_div(count, kRoundingGroup);
  auto options = at::TensorOptions(at::kLong).device(step.device());
  at::Tensor c0 = at::arange(first / 2, first / 2 + groups * kRoundingPairs, options);
  at::Tensor c1 = at::full_like(c0, 0).add_(step).bitwise_and_(kWord);
  at::Tensor c2 = at::full_like(c0, static_cast<int64_t>(rounding.sequence));
  at::Tensor c3 = at::full_like(c0, static_cast<int64_t>(RandomUse::rounding));
  auto key0 = static_cast<uint32_t>(rounding.seed);
  auto key1 = static_cast<uint32_t>(rounding.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    c0.mul_(int64_t{0xD2511F53});
    c2.mul_(int64_t{0xCD9E8D57});
    c1.bitwise_xor_(high_word(c2)).bitwise_xor_(int64_t{key0});
    c3.bitwise_xor_(high_word(c0)).bitwise_xor_(int64_t{key1});
    c0.bitwise_and_(kWord);
    c2.bitwise_and_(kWord);
    std::swap(c0, c1);  // c0, c1, c2, c3 = c1, c2, c3, c0
    std::swap(c1, c2);
    std::swap(c2, c3);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  auto halves = [&](const at::Tensor& one, const at::Tensor& other) {
    return at::stack({one.view({groups, kRoundingPairs}), other.view({groups, kRoundingPairs})}, 1)
        .view({-1})
        .narrow(0, 0, count);
  };
  at::Tensor a = halves(c0, c2), b = halves(c1, c3);
  return {a.bitwise_and(0xffff),
          {b.bitwise_and(0xf).__ilshift__(16).bitwise_or_(a.__rshift__(16)), b.__rshift__(12)}};
}

at::Tensor to_bfloat16(const at::Tensor& value, const at::Tensor& random) {
  at::Tensor word = word_of(value);
  at::Tensor rounded = (word + random.bitwise_and(0xffff)).__irshift__(16);
  at::Tensor nan = word.__irshift__(16).bitwise_or_(0x40);
  return at::where(at::isnan(value), nan, rounded).to(at::kShort).view(at::kBFloat16);
}

// --- 8-bit moments: see block8.h

template <class Magnitude>
at::Tensor decode_magnitude(const at::Tensor& code) {
  at::Tensor normal = code.ge(8);
  at::Tensor offset =
      at::where(normal, int64_t{Magnitude::kNormalOffset}, int64_t{Magnitude::kSubnormalOffset});
  at::Tensor value = float_of((code + offset).__ilshift__(kBlock8DroppedBits));
  return at::where(normal, value, value - Magnitude::kLeastNormal);
}

template <class Magnitude>
at::Tensor encode_magnitude(const at::Tensor& magnitude, const at::Tensor& random) {
  at::Tensor normal = magnitude.ge(Magnitude::kLeastNormal);
  at::Tensor word = word_of(at::where(normal, magnitude, magnitude + Magnitude::kLeastNormal));
  at::Tensor offset =
      at::where(normal, int64_t{Magnitude::kNormalOffset}, int64_t{Magnitude::kSubnormalOffset});
  return word.add_(random).__irshift__(kBlock8DroppedBits).sub_(offset);
}

// By the format of its codes: that of a rule's first state, or of its second one.
enum class Moment { first, second };

Moment moment_of(int state) { return state == 0 ? Moment::first : Moment::second; }

at::Tensor in_blocks(const at::Tensor& flat) {
  int64_t count = flat.size(0), blocks = ceil_div(count, kBlock8);
  at::Tensor padded = at::zeros({blocks * kBlock8}, flat.options());
  padded.narrow(0, 0, count).copy_(flat);
  return padded.view({blocks, kBlock8});
}

at::Tensor decode(Moment moment, const at::Tensor& codes, const at::Tensor& scales) {
  at::Tensor code = in_blocks(codes.to(at::kLong)), value;
  if (moment == Moment::first) {
    value = decode_magnitude<FirstMoment8::Magnitude>(code.bitwise_and(0x7f));
    value = at::where(code.ge(0x80), -value, value);
  } else {
    value = decode_magnitude<SecondMoment8::Magnitude>(code);
  }
  return (value * scales.unsqueeze(1)).view({-1}).narrow(0, 0, codes.size(0));
}

at::Tensor scales_of(const at::Tensor& blocks) {
  at::Tensor largest = word_of(blocks.abs()).amax(1);
  at::Tensor word = (largest + (0x7fffff - kBlock8TopMantissa)).bitwise_and_(0x7f800000);
  at::Tensor held = word.clamp_min(int64_t{std::bit_cast<uint32_t>(kBlock8LeastScale)});
  held = at::where(word.ge(0x7f800000), int64_t{0x7fc00000}, held);
  return float_of(at::where(largest.eq(0), int64_t{0}, held));
}

void encode(Moment moment, const at::Tensor& values, const at::Tensor& random,
            const at::Tensor& codes, const at::Tensor& scales) {
  at::Tensor blocks = in_blocks(values), bits = in_blocks(random);
  scales.copy_(scales_of(blocks));
  at::Tensor scale = scales.unsqueeze(1), inverse = scale.reciprocal(), code;
  if (moment == Moment::first) {
    at::Tensor sign = word_of(blocks).__irshift__(31).__ilshift__(7);
    code = encode_magnitude<FirstMoment8::Magnitude>(blocks.abs() * inverse, bits);
    code.bitwise_or_(sign);
  } else {
    code = encode_magnitude<SecondMoment8::Magnitude>(blocks * inverse, bits);
    code = at::where(blocks.gt(0).logical_and_(code.eq(0)), int64_t{1}, code);
  }
  code = at::where(scale.gt(0), code, int64_t{0});
  codes.copy_(code.view({-1}).narrow(0, 0, codes.size(0)));
}

// --- the update

// Elements at a time where something is rounded: random numbers take much room.
constexpr int64_t kPartElements = 1 << 18;
static_assert(kPartElements % kBlock8 == 0);

// Elements [begin, begin + count) of a call's operands.
class Part {
 public:
  Part(const KernelCall& call, int64_t begin, int64_t count)
      : call_(call), begin_(begin), count_(count) {}

  at::Tensor in(int i) const { return tensor(call_, call_.in[i]).narrow(0, begin_, count_); }
  at::Tensor out(int i) const { return tensor(call_, call_.out[i]).narrow(0, begin_, count_); }
  at::Tensor scales(const Ref& ref) const {
    return tensor(call_, ref).narrow(0, begin_ / kBlock8, ceil_div(count_, kBlock8));
  }

  at::Tensor state(const UpdatePlaces& at, int i) const {
    at::Tensor stored = in(at.state(i));
    if (at.has_scales()) return decode(moment_of(i), stored, scales(call_.in[at.scales(i)]));
    return stored.to(compute_type(call_.in[at.state(i)]));
  }

  // `value` where `updates` is true, else what was there.
  void store(const at::Tensor& updates, const at::Tensor& value, int input,
             const at::Tensor& random) const {
    at::Tensor to = out(UpdatePlaces::output(input));
    at::Tensor stored = to.scalar_type() == at::kBFloat16 ? to_bfloat16(value, random) : value;
    to.copy_(at::where(updates, stored, in(input)));
  }
  void store_state(const at::Tensor& updates, const at::Tensor& value, const UpdatePlaces& at,
                   int i, const at::Tensor& random) const {
    const int input = at.state(i), scale = at.scales(i);
    if (scale < 0) return store(updates, value, input, random);
    at::Tensor codes = at::empty_like(in(input)),
               new_scales = at::empty_like(scales(call_.in[scale]));
    encode(moment_of(i), value, random, codes, new_scales);
    out(UpdatePlaces::output(input)).copy_(at::where(updates, codes, in(input)));
    scales(call_.out[UpdatePlaces::output(scale)])
        .copy_(at::where(updates, new_scales, scales(call_.in[scale])));
  }

 private:
  const KernelCall& call_;
  int64_t begin_, count_;
};

void update_part(const KernelCall& call, int64_t begin, int64_t count, ComposeUpdate compose) {
  const auto& [optimizer, compute_dtype, rounding] = update_attrs(call.attrs);
  const UpdatePlaces at = update_places(call);
  const Part part(call, begin, count);
  auto scalar = [&](int input) { return tensor(call, call.in[input]); };
  const at::Tensor clip = scalar(at.clip()), updates = clip.ne(0);
  ComposedUpdate composed{.gradient = part.in(at.kGradient) * clip,
                          .weight = part.in(at.kWeight).to(compute_type(call.in[at.kWeight])),
                          .learning_rate = scalar(at.learning_rate()),
                          .scalars = {},
                          .numbers = optimizer.numbers,
                          .weight_decay = optimizer.weight_decay};
  for (size_t i = 0; i < optimizer.rule->scalars.size(); ++i)
    composed.scalars.push_back(scalar(at.scalar(static_cast<int>(i))));
  std::vector<at::Tensor> states;
  for (int i = 0; i < at.states(); ++i) states.push_back(part.state(at, i));
  const at::Tensor updated = compose(composed, states);
  Bits bits;
  if (at.rounds())
    bits = draw(rounding, tensor(call, call.in[at.step()]), rounding.first + begin, count);
  if (std::ssize(call.out) > at.kept())
    part.out(at.kept()).copy_(at::where(updates, updated, composed.weight));
  part.store(updates, updated, at.kWeight, bits.weight);
  for (int i = 0; i < at.states(); ++i) part.store_state(updates, states[i], at, i, bits.states[i]);
}

int64_t part_of(const UpdatePlaces& at, int64_t count) {
  return at.rounds() ? std::min(count, kPartElements) : count;
}

}  // namespace

void run_update_composed(const KernelCall& call, ComposeUpdate compose) {
  const int64_t count = call.in[0].type.shape.count();
  for_each_piece(count, part_of(update_places(call), count),
                 [&](int64_t begin, int64_t size) { update_part(call, begin, size, compose); });
}

// Temporaries of a part, held in a stack. Whole blocks, and each tensor aligned.
int64_t update_composed_workspace(const std::any& attrs, std::span<const Type> in,
                                  std::span<const Type>) {
  const UpdatePlaces at(*update_attrs(attrs).optimizer.rule, in.size());
  if (!at.rounds()) return 7 * in[at.kGradient].bytes() + 8192;
  int64_t element = at.has_scales() ? 288 : 160;
  return element * round_up(part_of(at, in[0].shape.count()), kBlock8) + (1 << 16);
}

}  // namespace longshore::models
