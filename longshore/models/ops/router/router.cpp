#include "longshore/models/ops/router/router.h"

#include <ATen/ops/gather.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>

#include <algorithm>
#include <cmath>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/custom_kernel.h"
#include "longshore/models/ops/kernels/simd.h"
#include "longshore/models/ops/router/router_kernels.h"

namespace longshore::models {
namespace {

const RouterOptions& options_of(const std::any& attrs) {
  return std::any_cast<const RouterOptions&>(attrs);
}

Types infer(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 1, 1, "router");
  const int64_t taken = options_of(attrs).experts_per_token;
  expect(taken > 0 && taken <= in[0].shape.back(), "router",
         "a token goes to no expert, or to more than there are");
  const Shape shape = in[0].shape.with_back(taken);
  return {{shape, reduction_dtype(in[0].dtype)}, {shape, Dtype::int32}};
}

Types infer_grad(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "router_grad");
  expect(infer(attrs, in.subspan(1, 1)) == Types{in[0], in[2]}, "router_grad",
         "dweights, logits and experts do not fit");
  return {in[1]};
}

void vjp(Backward& backward, const Node& node) {
  const ValueId logits = node.in[0];
  backward.contribute(
      logits, backward.emit(router_grad_op, node.attrs,
                            {backward.gradient(node.out[0]), logits, node.out[1]}, logits)[0]);
}

// A pass over the logits for each expert that is taken, and their exponentials.
Cost cost(const std::any& attrs, std::span<const Type> in, std::span<const Type> out) {
  return {
      .flops = static_cast<double>(in[0].shape.count() * (1 + options_of(attrs).experts_per_token)),
      .bytes = operand_bytes(in, out)};
}

std::string print(const std::any& attrs) {
  const RouterOptions& o = options_of(attrs);
  std::string text = "experts_per_token=" + std::to_string(o.experts_per_token);
  if (o.score == RouterScore::sigmoid) return text + ", sigmoid";
  return text + (o.normalized ? "" : ", not normalized");
}

// --- CPU

// Of a row.
class Router {
 public:
  Router(const RouterOptions& options, int64_t experts)
      : options_(options), experts_(experts), taken_(options.experts_per_token) {}

  template <class T>
  void take(const T* logits, int32_t* taken) const {
    for (int64_t j = 0; j < taken_; ++j) {
      int64_t best = -1;
      for (int64_t e = 0; e < experts_; ++e)
        if (std::find(taken, taken + j, static_cast<int32_t>(e)) == taken + j &&
            (best < 0 || load(logits[e]) > load(logits[best])))
          best = e;
      taken[j] = static_cast<int32_t>(best);
    }
  }

  template <class T>
  void weigh(const T* logits, const int32_t* taken, float* weights) const {
    if (options_.score == RouterScore::sigmoid) {
      for (int64_t j = 0; j < taken_; ++j) weights[j] = sigmoid(load(logits[taken[j]]));
      return;
    }
    const float largest = load(logits[taken[0]]);
    float sum = 0;
    for (int64_t j = 0; j < taken_; ++j) {
      weights[j] = std::exp(load(logits[taken[j]]) - largest);
      sum += weights[j];
    }
    if (!options_.normalized) sum = sum_of_all(logits, largest);
    for (int64_t j = 0; j < taken_; ++j) weights[j] /= sum;
  }

  template <class T>
  void grad(const float* dweights, const T* logits, const int32_t* taken, T* dlogits) const {
    if (options_.score == RouterScore::sigmoid || options_.normalized)
      std::fill_n(dlogits, experts_, T{});
    if (options_.score == RouterScore::sigmoid) {
      for (int64_t j = 0; j < taken_; ++j) {
        const float weight = sigmoid(load(logits[taken[j]]));
        store(dlogits[taken[j]], dweights[j] * weight * (1 - weight));
      }
      return;
    }
    const float largest = load(logits[taken[0]]);
    float sum = 0, mean = 0;  // of the taken experts' exponentials; of their gradients
    for (int64_t j = 0; j < taken_; ++j) {
      const float exponential = std::exp(load(logits[taken[j]]) - largest);
      sum += exponential;
      mean += exponential * dweights[j];
    }
    if (!options_.normalized) sum = sum_of_all(logits, largest);
    mean /= sum;
    auto gradient = [&](int64_t e, float dweight) {
      store(dlogits[e], std::exp(load(logits[e]) - largest) / sum * (dweight - mean));
    };
    if (!options_.normalized)
      for (int64_t e = 0; e < experts_; ++e) gradient(e, 0);
    for (int64_t j = 0; j < taken_; ++j) gradient(taken[j], dweights[j]);
  }

 private:
  static float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

  template <class T>
  float sum_of_all(const T* logits, float largest) const {
    float sum = 0;
    for (int64_t e = 0; e < experts_; ++e) sum += std::exp(load(logits[e]) - largest);
    return sum;
  }

  const RouterOptions& options_;
  int64_t experts_, taken_;
};

void run_cpu(const KernelCall& call) {
  const int64_t experts = call.in[0].type.shape.back(), taken = call.out[0].type.shape.back();
  const Router router(options_of(call.attrs), experts);
  with_float_type(call.in[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.in[0].type.shape.rows(), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* logits = call.in[0].as<T>() + row * experts;
        int32_t* to = call.out[1].as<int32_t>() + row * taken;
        router.take(logits, to);
        router.weigh(logits, to, call.out[0].as<float>() + row * taken);
      }
    });
  });
}

void run_grad_cpu(const KernelCall& call) {
  const int64_t experts = call.in[1].type.shape.back(), taken = call.in[0].type.shape.back();
  const Router router(options_of(call.attrs), experts);
  with_float_type(call.in[1].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.in[1].type.shape.rows(), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        router.grad(call.in[0].as<float>() + row * taken, call.in[1].as<T>() + row * experts,
                    call.in[2].as<int32_t>() + row * taken, call.out[0].as<T>() + row * experts);
    });
  });
}

// --- composition

void run_composed(const KernelCall& call) {
  const RouterOptions& o = options_of(call.attrs);
  at::Tensor logits = tensor(call, call.in[0]).to(compute_type(call.in[0]));
  auto [sorted, order] = at::sort(logits, /*stable=*/true, -1, /*descending=*/true);
  order = order.narrow(-1, 0, o.experts_per_token);
  at::Tensor taken = sorted.narrow(-1, 0, o.experts_per_token);
  at::Tensor weights = o.score == RouterScore::sigmoid ? at::sigmoid(taken)
                       : o.normalized                  ? at::softmax(taken, -1)
                                      : at::gather(at::softmax(logits, -1), -1, order);
  tensor(call, call.out[0]).copy_(weights);
  tensor(call, call.out[1]).copy_(order);
}

void run_grad_composed(const KernelCall& call) {
  const RouterOptions& o = options_of(call.attrs);
  at::Tensor logits = tensor(call, call.in[1]).to(compute_type(call.in[1]));
  at::Tensor dweights = tensor(call, call.in[0]), taken = tensor(call, call.in[2]).to(at::kLong);
  at::Tensor of_taken = at::gather(logits, -1, taken), gradient;
  at::Tensor out = tensor(call, call.out[0]);
  if (o.score == RouterScore::sigmoid) {
    at::Tensor weights = at::sigmoid(of_taken);
    gradient = dweights * weights * (1 - weights);
  } else if (o.normalized) {
    at::Tensor weights = at::softmax(of_taken, -1);
    gradient = weights * (dweights - (weights * dweights).sum(-1, /*keepdim=*/true));
  } else {
    at::Tensor weights = at::softmax(logits, -1);
    at::Tensor mean = (at::gather(weights, -1, taken) * dweights).sum(-1, /*keepdim=*/true);
    at::Tensor all = (-mean).expand_as(weights).clone();
    out.copy_(weights * all.scatter_add_(-1, taken, dweights));
    return;
  }
  out.zero_().scatter_(-1, taken, gradient.to(out.scalar_type()));
}

// What sorting takes, with its numbers of 8 bytes, and a few wide values like the logits.
int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  const int64_t count = in.size() == 1 ? in[0].shape.count() : in[1].shape.count();
  return 64 * count + (1 << 20);
}

}  // namespace

RouterArguments router_arguments(const KernelCall& call) {
  const RouterOptions& o = options_of(call.attrs);
  const Ref& logits = call.in[0];
  return {.dtype = logits.type.dtype,
          .score = o.score,
          .normalized = o.normalized,
          .tokens = logits.type.shape.rows(),
          .experts = logits.type.shape.back(),
          .taken = o.experts_per_token,
          .logits = logits.data,
          .weights = call.out[0].as<float>(),
          .chosen = call.out[1].as<int32_t>()};
}

RouterGradArguments router_grad_arguments(const KernelCall& call) {
  const RouterOptions& o = options_of(call.attrs);
  const Ref& logits = call.in[1];
  return {.dtype = logits.type.dtype,
          .score = o.score,
          .normalized = o.normalized,
          .tokens = logits.type.shape.rows(),
          .experts = logits.type.shape.back(),
          .taken = o.experts_per_token,
          .dweights = call.in[0].as<float>(),
          .logits = logits.data,
          .chosen = call.in[2].as<int32_t>(),
          .dlogits = call.out[0].data};
}

const Op router_op{.name = "router",
                   .infer = infer,
                   .vjp = vjp,
                   .cost = cost,
                   .print = print,
                   .cpu = {run_cpu},
                   .cuda = {custom_kernel<launch_router, router_arguments>()},
                   .cuda_composed = {run_composed, workspace_composed},
                   .reference = {run_composed}};

const Op router_grad_op{.name = "router_grad",
                        .infer = infer_grad,
                        .cost = cost,
                        .print = print,
                        .cpu = {run_grad_cpu},
                        .cuda = {custom_kernel<launch_router_grad, router_grad_arguments>()},
                        .cuda_composed = {run_grad_composed, workspace_composed},
                        .reference = {run_grad_composed}};

Routing router(Var logits, const RouterOptions& options) {
  const std::vector<Var> out = logits.trace->emit(router_op, options, {logits});
  return {out[0], out[1]};
}

}  // namespace longshore::models
