#include "tests/models/emulated_cudnn.h"

#include <ATen/ops/exp.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>

#include <cmath>

#include "longshore/models/ops/kernels/aten.h"

namespace longshore::models {
namespace {

class Emulated {
 public:
  Emulated(const CudnnAttention& part, const CudnnOperands& operands) : a_(part), of_(operands) {}

  void forward() {
    const auto [scores, slopes] = make_scores();
    const at::Tensor sums = at::logsumexp(scores, {-1});
    queries(out).copy_(at::matmul(at::exp(scores - sums.unsqueeze(-1)), repeated(v)));
    log_sum_exps().copy_(sums);
  }

  void backward() {
    const auto [scores, slopes] = make_scores();
    const at::Tensor p = at::exp(scores - log_sum_exps().unsqueeze(-1));
    const at::Tensor d_out = queries(dout).to(at::kFloat);
    const at::Tensor delta = (d_out * queries(out)).sum(-1, true);
    const at::Tensor d_scores =
        p * (at::matmul(d_out, repeated(v).transpose(-2, -1)) - delta) * slopes * a_.scale;
    queries(dq).copy_(at::matmul(d_scores, repeated(k)));
    keys(dk).copy_(of_key_heads(at::matmul(d_scores.transpose(-2, -1), queries(q).to(at::kFloat))));
    keys(dv).copy_(of_key_heads(at::matmul(p.transpose(-2, -1), d_out)));
  }

 private:
  // [rows,heads,T,D]
  at::Tensor heads(CudnnOperand operand, int64_t count, int64_t count_of_row) const {
    const int64_t row = count_of_row * a_.head_dim;
    return at::from_blob(of_.at(operand), {a_.rows, count, a_.length, a_.head_dim},
                         {a_.length * row, a_.head_dim, row, 1}, at::kBFloat16);
  }
  at::Tensor queries(CudnnOperand operand) const {
    return heads(operand, a_.heads, a_.heads_of_row);
  }
  at::Tensor keys(CudnnOperand operand) const {
    return heads(operand, a_.key_heads, a_.key_heads_of_row);
  }
  at::Tensor repeated(CudnnOperand operand) const {
    return keys(operand).to(at::kFloat).repeat_interleave(a_.heads / a_.key_heads, 1);
  }
  at::Tensor of_key_heads(const at::Tensor& of_heads) const {
    return of_heads.unflatten(1, {a_.key_heads, -1}).sum(2);
  }
  at::Tensor log_sum_exps() const {
    return at::from_blob(of_.at(log_sum_exp), {a_.rows, a_.heads, a_.length}, at::kFloat);
  }

  struct Scores {
    at::Tensor values, slopes;  // [rows,heads,T,T]; by what they were before they were capped
  };

  Scores make_scores() const {
    at::Tensor scores =
        at::matmul(queries(q).to(at::kFloat), repeated(k).transpose(-2, -1)) * a_.scale;
    at::Tensor slopes = at::ones_like(scores);
    if (a_.soft_cap != 0) {
      const at::Tensor tanh = at::tanh(scores / a_.soft_cap);
      scores = tanh * a_.soft_cap;
      slopes = 1 - tanh.square();
    }
    if (a_.is_masked) {
      const int64_t width = attention_mask_width(a_.length);
      scores =
          scores + at::from_blob(of_.at(mask), {a_.rows, 1, a_.length, a_.length},
                                 {a_.length * width, a_.length * width, width, 1}, at::kBFloat16);
    }
    at::Tensor seen = at::ones({a_.length, a_.length}, at::kBool);
    if (a_.is_causal) seen = seen.tril();
    if (a_.window != 0) seen = seen.triu(1 - a_.window);
    return {scores.masked_fill(seen.logical_not(), -INFINITY), slopes};
  }

  const CudnnAttention& a_;
  const CudnnOperands& of_;
};

}  // namespace

void emulate_cudnn_graph(const CudnnAttention& part, CudnnPass pass, CudnnOperands& operands,
                         std::span<std::byte> workspace, void*) {
  EXPECT_GE(std::ssize(workspace), cudnn_graph_workspace(part, pass));
  Emulated emulated(part, operands);
  if (pass == CudnnPass::forward)
    emulated.forward();
  else
    emulated.backward();
}

}  // namespace longshore::models
