// Two layers, the second of which has padding in other places.
#include "longshore/models/ops/pooled_balance_loss.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include "longshore/models/ir/add.h"
#include "longshore/models/ir/trace.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"

namespace longshore::models {
namespace {

struct RoutedShape {
  int64_t b, t, experts, taken;
};

// The first experts have more tokens than the others.
at::Tensor some_experts(const RoutedShape& s, int64_t first) {
  at::Tensor token = at::arange(s.b * s.t, at::kLong).view({s.b, s.t, 1});
  at::Tensor number = at::arange(s.taken, at::kLong).view({1, 1, s.taken});
  return ((token * token / 3 + number + first) % s.experts).to(at::kInt);
}

// Padding at the end of each row.
at::Tensor some_segments(const RoutedShape& s, int64_t padding) {
  at::Tensor place = at::arange(s.t, at::kInt).expand({s.b, s.t});
  return (place < s.t - padding).to(at::kInt).contiguous();
}

// As transformers has it: the means of all layers' tokens together, padding left out.
at::Tensor plain_loss(const RoutedShape& s, const Tensors& in) {
  at::Tensor p = at::zeros({s.experts}, in.at("logits0").options()), f = p.clone();
  double tokens = 0;
  for (const std::string layer : {"0", "1"}) {
    const at::Tensor& logits = in.at("logits" + layer);
    at::Tensor counted = in.at("segments" + layer).ne(0).to(logits.scalar_type()).unsqueeze(-1);
    at::Tensor chosen = at::one_hot(in.at("experts" + layer).to(at::kLong), s.experts).sum(2);
    p = p + (at::softmax(logits, -1) * counted).sum(at::IntArrayRef{0, 1});
    f = f + (chosen * counted).sum(at::IntArrayRef{0, 1});
    tokens += counted.sum().item<double>();
  }
  const double weight = 0.3 * static_cast<double>(s.experts);
  return tokens == 0 ? 0 * p.sum() : (p * f).sum() * (weight / (tokens * tokens));
}

OpCase pooled_case(const RoutedShape& s, int64_t padding) {
  return {.name = named("pooled_balance_loss", s.b, s.t, s.experts, s.taken) + ", padding " +
                  std::to_string(padding),
          .trace =
              [=](Dtype dtype) {
                Trace trace("pooled_balance_loss");
                auto sums = [&](const std::string& layer) {
                  return router_sums(trace.input("logits" + layer, {{s.b, s.t, s.experts}, dtype}),
                                     trace.batch("experts" + layer, ints({s.b, s.t, s.taken})),
                                     trace.batch("segments" + layer, ints({s.b, s.t})));
                };
                Var first = sums("0");
                trace.output(pooled_balance_loss(add(first, sums("1")), s.taken, 0.3),
                             OutputRole::auxiliary_loss);
                return trace.finish();
              },
          .integers = {{"experts0", some_experts(s, 0)},
                       {"experts1", some_experts(s, 1)},
                       {"segments0", some_segments(s, padding)},
                       {"segments1", some_segments(s, std::min(s.t, 2 * padding))}},
          .plain = [=](const Tensors& in) { return std::vector{plain_loss(s, in)}; },
          .adjust = {}};
}

std::vector<OpCase> small() {
  return {pooled_case({1, 3, 4, 2}, 0), pooled_case({2, 5, 3, 1}, 2), pooled_case({1, 2, 2, 2}, 1),
          pooled_case({1, 2, 3, 1}, 2)};
}

std::vector<OpCase> large() {
  return {pooled_case({3, 300, 61, 4}, 17), pooled_case({1, 513, 128, 8}, 0)};
}

constexpr OpTraits kOps[] = {
    {.op = &router_sums_op, .tolerance = {1e-6, 1e-6}, .workspace = WorkspaceUse::all},
    {.op = &router_sums_grad_op, .tolerance = {2e-6, kRounding}},
    {.op = &pooled_balance_loss_op, .tolerance = {2e-6, 2e-6}},
    {.op = &pooled_balance_loss_grad_op, .tolerance = {2e-6, 2e-6}},
};

}  // namespace

extern constinit const OpRecord pooled_balance_loss_record{kOps, small, large};

}  // namespace longshore::models
