#include "tests/models/plain.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <numbers>

#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"

namespace longshore::models::plain {

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight) {
  return at::matmul(x, weight.t());
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon,
                    double weight_offset) {
  at::Tensor runs = x.reshape({-1, weight.size(0)});
  at::Tensor normed = runs * at::rsqrt(runs.square().mean(-1, true) + epsilon);
  return (normed * (weight_offset + weight)).view(x.sizes());
}

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double epsilon) {
  at::Tensor centred = x - x.mean(-1, true);
  return centred * at::rsqrt(centred.square().mean(-1, true) + epsilon) * weight + bias;
}

namespace {

// Pair by pair, as the paper's section on NTK-by-parts has it, with transformers' rounding.
at::Tensor scaled(const at::Tensor& frequencies, double base, const YarnRopeScaling& s) {
  at::Tensor result = frequencies.clone();
  const auto pairs = static_cast<double>(frequencies.size(0));
  // base^(-pair/pairs) * length = 2 pi turns
  auto pair_with = [&](double turns) {
    const double wavelength = s.original_max_position_embeddings / turns;
    return pairs * std::log(wavelength / (2 * std::numbers::pi)) / std::log(base);
  };
  double first = pair_with(s.beta_fast), last = pair_with(s.beta_slow);
  if (s.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.);
  last = std::min(last, 2 * pairs - 1);
  for (int64_t pair = 0; pair < frequencies.size(0); ++pair) {
    const auto at = static_cast<double>(pair);
    const double share = at <= first ? 0 : at >= last ? 1 : (at - first) / (last - first);
    const double frequency = frequencies[pair].item<double>();
    result[pair] = (1 - share) * frequency + share * frequency / s.factor;
  }
  return result;
}

// The published rules, case by case.
at::Tensor scaled(const at::Tensor& frequencies, double base, const RopeScaling& scaling) {
  if (auto* yarn = std::get_if<YarnRopeScaling>(&scaling)) return scaled(frequencies, base, *yarn);
  if (auto* linear = std::get_if<LinearRopeScaling>(&scaling)) return frequencies / linear->factor;
  if (auto* proportional = std::get_if<ProportionalRopeScaling>(&scaling)) {
    at::Tensor result = frequencies / proportional->factor;
    const double turned = proportional->turned * static_cast<double>(frequencies.size(0));
    for (int64_t pair = 0; pair < frequencies.size(0); ++pair)
      if (static_cast<double>(pair + 1) > turned) result[pair] = 0;
    return result;
  }
  auto* llama3 = std::get_if<Llama3RopeScaling>(&scaling);
  if (!llama3) return frequencies;
  auto [factor, low, high, length] = *llama3;
  at::Tensor wavelength = 2 * std::numbers::pi / frequencies;
  at::Tensor smooth = (length / wavelength - low) / (high - low);
  at::Tensor between = (1 - smooth) * frequencies / factor + smooth * frequencies;
  at::Tensor scaled = at::where(wavelength > length / low, frequencies / factor, frequencies);
  return at::where((wavelength >= length / high).logical_and(wavelength <= length / low), between,
                   scaled);
}

}  // namespace

RopeTable rope_table(const at::Tensor& positions, int64_t rotary_dim, double base,
                     at::ScalarType dtype, const RopeScaling& scaling,
                     const std::optional<RopeTemperature>& temperature) {
  at::Tensor exponents =
      at::arange(0, rotary_dim, 2, at::kDouble) / static_cast<double>(rotary_dim);
  at::Tensor frequencies = scaled((exponents * -std::log(base)).exp(), base, scaling);
  at::Tensor places = positions.to(at::kDouble).unsqueeze(-1), angles = places * frequencies;
  at::Tensor by = at::ones_like(places);
  if (temperature)
    by = 1 + temperature->beta *
                 (((places + temperature->first) / temperature->length).floor() + 1).log();
  if (auto* yarn = std::get_if<YarnRopeScaling>(&scaling)) by = by * yarn->attention_factor;
  auto rounded = [&](const at::Tensor& table) { return (table * by).to(at::kFloat).to(dtype); };
  return {rounded(angles.cos()), rounded(angles.sin())};
}

at::Tensor rope(const at::Tensor& x, const RopeTable& table, const RopeOptions& options) {
  int64_t b = x.size(0), t = x.size(1), half = table.cos.size(-1);
  at::Tensor whole = x.view({b, t, -1, options.head_dim.value_or(2 * half)});
  at::Tensor heads = whole.slice(-1, 0, 2 * half), rest = whole.slice(-1, 2 * half);
  if (options.pairs == RopePairs::adjacent) {
    at::Tensor pairs = at::view_as_complex(heads.unflatten(-1, {half, 2}).contiguous());
    at::Tensor turns = at::complex(table.cos, table.sin).unsqueeze(2);
    return at::cat({at::view_as_real(pairs * turns).flatten(-2), rest}, -1).view(x.sizes());
  }
  at::Tensor turned = at::cat({-heads.slice(-1, half), heads.slice(-1, 0, half)}, -1);
  auto both = [](const at::Tensor& half_table) {
    return at::cat({half_table, half_table}, -1).unsqueeze(2);
  };
  return at::cat({heads * both(table.cos) + turned * both(table.sin), rest}, -1).view(x.sizes());
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     int64_t head_dim) {
  return attention(q, k, v, {.head_dim = head_dim}, visible_keys(q.size(1), {}, {}));
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const AttentionOptions& options, const at::Tensor& visible,
                     const at::Tensor& sinks) {
  int64_t b = q.size(0), t = q.size(1), d = options.head_dim, group = q.size(2) / k.size(2);
  auto heads = [&](const at::Tensor& x) {
    return x.view({b, t, -1, d}).transpose(1, 2);  // [B,heads,T,D]
  };
  auto repeated = [&](const at::Tensor& x) { return heads(x).repeat_interleave(group, 1); };
  double divisor = options.scale == 0 ? std::sqrt(static_cast<double>(d)) : 1 / options.scale;
  at::Tensor scores = at::matmul(heads(q), repeated(k).transpose(2, 3)) / divisor;
  if (options.soft_cap != 0) scores = options.soft_cap * (scores / options.soft_cap).tanh();
  scores = scores.masked_fill(visible.logical_not().unsqueeze(1), -INFINITY);
  // A sink is one more score, whose probability is dropped.
  if (sinks.defined())
    scores = at::cat({scores, sinks.view({1, -1, 1, 1}).expand({b, -1, t, 1})}, -1);
  const at::Tensor probabilities = at::softmax(scores, -1).narrow(-1, 0, t);
  return at::matmul(probabilities, repeated(v)).transpose(1, 2).reshape(q.sizes());
}

at::Tensor visible_keys(int64_t t, const AttentionOptions& options, const at::Tensor& segments,
                        const at::Tensor& blocks) {
  at::Tensor i = at::arange(t).view({1, t, 1}), j = at::arange(t).view({1, 1, t});
  at::Tensor visible = j <= i;
  if (options.window > 0) visible = visible & (i - j < options.window);
  if (options.mask == AttentionMask::full) visible = at::ones_like(visible);
  if (blocks.defined())
    visible = visible | ((blocks.unsqueeze(2) == blocks.unsqueeze(1)) & (blocks != 0).unsqueeze(1));
  if (segments.defined()) visible = visible & (segments.unsqueeze(2) == segments.unsqueeze(1));
  return visible;
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  return gate * at::sigmoid(gate) * up;
}

at::Tensor gelu(const at::Tensor& x) {
  return 0.5 * x * (1 + (std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x.pow(3))).tanh());
}

at::Tensor geglu(const at::Tensor& gate, const at::Tensor& up) { return plain::gelu(gate) * up; }

at::Tensor soft_cap(const at::Tensor& x, double cap) { return cap * (x / cap).tanh(); }

at::Tensor embedding(const at::Tensor& ids, const at::Tensor& weight, int64_t padding) {
  at::Tensor rows = at::index_select(weight, 0, ids.flatten()).view({ids.size(0), ids.size(1), -1});
  return padding < 0 ? rows : at::where(ids.eq(padding).unsqueeze(-1), rows.detach(), rows);
}

at::Tensor cross_entropy(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                         double cap) {
  return cross_entropies(x, weight, targets, cap).sum();
}

at::Tensor cross_entropies(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                           double cap) {
  at::Tensor logits = plain::linear(x, weight).flatten(0, -2);
  if (cap > 0) logits = plain::soft_cap(logits, cap);
  return at::cross_entropy_loss(logits, targets.flatten().to(at::kLong), {}, at::Reduction::None,
                                kIgnoredTarget);
}

at::Tensor mean_square_error(const at::Tensor& x, const at::Tensor& target) {
  return (x - target).square().mean();
}

at::Tensor l2_penalty(const at::Tensor& weight, double factor) {
  return factor * weight.square().sum();
}

}  // namespace longshore::models::plain
