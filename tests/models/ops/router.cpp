#include "longshore/models/ops/router/router.h"

#include <ATen/ops/gather.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/router/router_kernels.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"

namespace longshore::models {
namespace {

at::Tensor plain_weights(const at::Tensor& logits, const RouterOptions& options) {
  const at::Tensor all =
      options.score == RouterScore::sigmoid ? at::sigmoid(logits) : at::softmax(logits, -1);
  const at::Tensor order = std::get<1>(at::sort(logits, /*stable=*/true, -1, /*descending=*/true));
  const at::Tensor weights = at::gather(all, -1, order.narrow(-1, 0, options.experts_per_token));
  if (options.score == RouterScore::sigmoid || !options.normalized) return weights;
  return weights / weights.sum(-1, /*keepdim=*/true);
}

OpCase router_case(int64_t b, int64_t t, int64_t experts, const RouterOptions& options) {
  return {
      .name = named("router", b, t, experts, options.experts_per_token,
                    static_cast<int>(options.score), options.normalized),
      .trace =
          [=](Dtype dtype) {
            Trace trace("router");
            Var logits = trace.input("logits", {{b, t, experts}, dtype});
            trace.output(router(logits, options).weights);
            return trace.finish();
          },
      .integers = {},
      .plain =
          [=](const Tensors& in) { return std::vector{plain_weights(in.at("logits"), options)}; },
      .adjust = {}};
}

std::vector<OpCase> small() {
  return {
      router_case(1, 3, 4, {.experts_per_token = 2}),
      router_case(2, 2, 5, {.experts_per_token = 3, .normalized = false}),
      router_case(1, 4, 3, {.experts_per_token = 1, .score = RouterScore::sigmoid}),
      router_case(1, 2, 3, {.experts_per_token = 3}),
  };
}

// Many are equal.
OpCase with_whole_logits(OpCase op_case) {
  op_case.name += ", whole logits";
  op_case.adjust = [](Tensors& inputs) { inputs.at("logits").round_(); };
  return op_case;
}

std::vector<OpCase> large() {
  return {
      with_whole_logits(router_case(1, 70, 40, {.experts_per_token = 5})),
      router_case(2, 111, 128, {.experts_per_token = 8}),
      router_case(1, 130, 61, {.experts_per_token = 4, .normalized = false}),
      router_case(3, 41, 16, {.experts_per_token = 1, .score = RouterScore::sigmoid}),
  };
}

std::vector<OpCase> real() { return {router_case(2, 2048, 128, {.experts_per_token = 8})}; }

constexpr OpTraits kOps[] = {
    {.op = &router_op, .tolerance = {2e-6, 2e-6}, .emulated = emulated_launch<router_arguments>()},
    {.op = &router_grad_op,
     .tolerance = {5e-6, kRounding},
     .emulated = emulated_launch<router_grad_arguments>()},
};

}  // namespace

extern constinit const OpRecord router_record{kOps, small, large, real};

}  // namespace longshore::models
