#include "longshore/models/ops/top_log_probs.h"

#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/topk.h>

#include "longshore/models/ir/trace.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"

namespace longshore::models {
namespace {

at::Tensor plain_top(const Tensors& in, const TopLogProbsOptions& o) {
  at::Tensor logits = at::matmul(in.at("x"), in.at("w").t());
  if (in.contains("z")) logits = logits + at::matmul(in.at("z"), in.at("u").detach().t());
  if (o.soft_cap > 0) logits = o.soft_cap * (logits / o.soft_cap).tanh();
  return std::get<0>(at::topk(at::log_softmax(logits, -1), o.count, -1));
}

// What the tokens lose is what their log-probabilities say.
OpCase top_case(int64_t b, int64_t t, int64_t c, int64_t vocabulary,
                const TopLogProbsOptions& options, bool has_beside = false) {
  return {.name = named("top_log_probs", b, t, c, vocabulary, options.count, options.soft_cap,
                        has_beside),
          .trace =
              [=](Dtype dtype) {
                Trace trace("top_log_probs");
                Var x = trace.input("x", {{b, t, c}, dtype});
                Var w = trace.weight("w", {{vocabulary, c}, dtype}, kTrained);
                std::optional<FrozenLogits> beside;
                if (has_beside)
                  beside = {trace.input("z", {{b, t, 3}, dtype}),
                            trace.weight("u", {{vocabulary, 3}, dtype},
                                         {.trainable = Trainable::no, .never_trains = true})};
                const TopLogProbs top = top_log_probs(x, w, options, beside);
                trace.output(linear_cross_entropy(
                    x, w, top.tokens, {.soft_cap = options.soft_cap, .reduction = Reduction::none},
                    beside));
                return trace.finish();
              },
          .integers = {},
          .plain = [=](const Tensors& in) { return std::vector{-plain_top(in, options)}; },
          .adjust = [](Tensors& in) { in.at("x").mul_(3); }};
}

std::vector<OpCase> small() {
  return {top_case(2, 5, 8, 33, {.count = 4}), top_case(2, 3, 8, 17, {.count = 3, .soft_cap = 5}),
          top_case(1, 4, 8, 40, {.count = 3}, true)};
}
std::vector<OpCase> large() { return {top_case(2, 300, 48, 1500, {.count = 16})}; }

constexpr OpTraits kOps[] = {
    {.op = &top_log_probs_op, .tolerance = {3e-6, 3e-2}},
};

}  // namespace

extern constinit const OpRecord top_log_probs_record{kOps, small, large};

}  // namespace longshore::models
