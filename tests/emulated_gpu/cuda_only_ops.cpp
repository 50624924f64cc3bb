// Ops that ATen has on GPUs alone, for the emulated one: flash attention, and products in a type of
// their own.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

namespace longshore::emulated {
namespace {

// In float32: queries [B,H,T,D] and, for as many heads, keys and values.
struct Heads {
  at::Tensor q, k, v;
  int64_t group;  // heads that share a key

  Heads(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value)
      : q(of(query)), group(query.size(2) / key.size(2)) {
    k = of(key).repeat_interleave(group, 1);
    v = of(value).repeat_interleave(group, 1);
  }
  static at::Tensor of(const at::Tensor& rows) { return rows.to(at::kFloat).transpose(1, 2); }

  at::Tensor scores(double scale, bool is_causal, std::optional<int64_t> left) const {
    const int64_t length = q.size(2);
    const at::Tensor ahead = at::arange(length).unsqueeze(0) - at::arange(length).unsqueeze(1);
    at::Tensor is_hidden = is_causal ? ahead > 0 : at::zeros_like(ahead, at::kBool);
    if (left && *left >= 0) is_hidden = is_hidden.logical_or(ahead < -*left);
    return at::matmul(q, k.transpose(2, 3))
        .mul_(scale)
        .masked_fill_(is_hidden, -std::numeric_limits<float>::infinity());
  }
};

double scale_of(const std::optional<double>& scale, const at::Tensor& query) {
  return scale.value_or(1 / std::sqrt(static_cast<double>(query.size(3))));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> forward(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const std::optional<at::Tensor>&, const std::optional<at::Tensor>&, c10::SymInt, c10::SymInt,
    double, bool is_causal, bool, std::optional<double> scale, std::optional<c10::SymInt> left,
    std::optional<c10::SymInt>, const std::optional<at::Tensor>&,
    const std::optional<at::Tensor>&) {
  const Heads heads(query, key, value);
  const at::Tensor scores = heads.scores(scale_of(scale, query), is_causal,
                                         left ? std::optional(left->expect_int()) : std::nullopt);
  const at::Tensor log_sum_exp = scores.logsumexp(3);
  const at::Tensor out = at::matmul((scores - log_sum_exp.unsqueeze(3)).exp(), heads.v);
  return {out.transpose(1, 2).to(query.scalar_type()), log_sum_exp, at::zeros({2}, at::kLong),
          at::zeros({0}, at::kLong), at::zeros({0}, query.options())};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(
    const at::Tensor& out_gradient, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& out, const at::Tensor& log_sum_exp,
    const at::Tensor&, const at::Tensor&, c10::SymInt, c10::SymInt, double, bool is_causal,
    const at::Tensor&, const at::Tensor&, std::optional<double> scale,
    std::optional<c10::SymInt> left, std::optional<c10::SymInt>) {
  const Heads heads(query, key, value);
  const double factor = scale_of(scale, query);
  const at::Tensor weights =
      (heads.scores(factor, is_causal, left ? std::optional(left->expect_int()) : std::nullopt) -
       log_sum_exp.unsqueeze(3))
          .exp();
  const at::Tensor dout = Heads::of(out_gradient);
  const at::Tensor delta = (dout * Heads::of(out)).sum(3, true);
  const at::Tensor dscores = weights * (at::matmul(dout, heads.v.transpose(2, 3)) - delta) * factor;
  auto of_keys = [&](const at::Tensor& gradient) {
    auto sizes = gradient.sizes().vec();
    sizes[1] /= heads.group;
    sizes.insert(sizes.begin() + 2, heads.group);
    return gradient.reshape(sizes).sum(2).transpose(1, 2).to(key.scalar_type());
  };
  return {at::matmul(dscores, heads.k).transpose(1, 2).to(query.scalar_type()),
          of_keys(at::matmul(dscores.transpose(2, 3), heads.q)),
          of_keys(at::matmul(weights.transpose(2, 3), dout))};
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b, at::ScalarType type) {
  return at::mm(a.to(at::kFloat), b.to(at::kFloat)).to(type);
}
at::Tensor sum(const at::Tensor& added, const at::Tensor& a, const at::Tensor& b,
               at::ScalarType type, const at::Scalar& beta, const at::Scalar& alpha) {
  return at::addmm(added.to(at::kFloat), a.to(at::kFloat), b.to(at::kFloat), beta, alpha).to(type);
}
at::Tensor& sum_into(const at::Tensor& added, const at::Tensor& a, const at::Tensor& b,
                     at::ScalarType type, const at::Scalar& beta, const at::Scalar& alpha,
                     at::Tensor& out) {
  return out.copy_(sum(added, a, b, type, beta, alpha));
}
at::Tensor& product_into(const at::Tensor& a, const at::Tensor& b, at::ScalarType type,
                         at::Tensor& out) {
  return out.copy_(product(a, b, type));
}

TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("_flash_attention_forward", forward);
  library.impl("_flash_attention_backward", backward);
  library.impl("mm.dtype", product);
  library.impl("mm.dtype_out", product_into);
  library.impl("addmm.dtype", sum);
  library.impl("addmm.dtype_out", sum_into);
}

}  // namespace
}  // namespace longshore::emulated
