#include "longshore/models/ops/balance_loss.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/softmax.h>

#include "longshore/models/ir/trace.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"

namespace longshore::models {
namespace {

// Each token's differ; the first experts have more tokens than the others.
at::Tensor some_experts(int64_t b, int64_t t, int64_t experts, int64_t taken) {
  at::Tensor token = at::arange(b * t, at::kLong).view({b, t, 1});
  at::Tensor number = at::arange(taken, at::kLong).view({1, 1, taken});
  return ((token * token / 3 + number) % experts).to(at::kInt);
}

at::Tensor plain_balance(const at::Tensor& logits, const at::Tensor& experts, double weight) {
  const int64_t count = logits.size(-1);
  at::Tensor shares = at::one_hot(experts.to(at::kLong), count).sum(2).to(logits.scalar_type());
  return (shares.mean(1) * at::softmax(logits, -1).mean(1)).mean() * (weight * count * count);
}

OpCase balance_case(int64_t b, int64_t t, int64_t experts, int64_t taken) {
  return {.name = named("balance_loss", b, t, experts, taken),
          .trace =
              [=](Dtype dtype) {
                Trace trace("balance_loss");
                Var logits = trace.input("logits", {{b, t, experts}, dtype});
                Var chosen = trace.batch("experts", ints({b, t, taken}));
                trace.output(balance_loss(logits, chosen, 0.3), OutputRole::auxiliary_loss);
                return trace.finish();
              },
          .integers = {{"experts", some_experts(b, t, experts, taken)}},
          .plain =
              [](const Tensors& in) {
                return std::vector{plain_balance(in.at("logits"), in.at("experts"), 0.3)};
              },
          .adjust = {}};
}

OpCase z_case(int64_t b, int64_t t, int64_t experts) {
  return {.name = named("router_z_loss", b, t, experts),
          .trace =
              [=](Dtype dtype) {
                Trace trace("router_z_loss");
                Var logits = trace.input("logits", {{b, t, experts}, dtype});
                trace.output(router_z_loss(logits, 0.01), OutputRole::auxiliary_loss);
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                return std::vector{at::logsumexp(in.at("logits"), -1).square().mean() * 0.01};
              },
          .adjust = {}};
}

std::vector<OpCase> small() {
  return {balance_case(1, 3, 4, 2), balance_case(2, 5, 3, 1), balance_case(1, 2, 2, 2),
          z_case(1, 3, 4), z_case(2, 2, 1)};
}

std::vector<OpCase> large() {
  return {balance_case(3, 300, 61, 4), balance_case(1, 513, 128, 8), z_case(3, 300, 61)};
}

constexpr OpTraits kOps[] = {
    {.op = &balance_loss_op, .tolerance = {1e-6, 1e-6}, .workspace = WorkspaceUse::all},
    {.op = &balance_loss_grad_op, .tolerance = {2e-6, kRounding}},
    {.op = &router_z_loss_op, .tolerance = {1e-6, 1e-6}, .workspace = WorkspaceUse::all},
    {.op = &router_z_loss_grad_op, .tolerance = {2e-6, kRounding}},
};

}  // namespace

extern constinit const OpRecord balance_loss_record{kOps, small, large};

}  // namespace longshore::models
