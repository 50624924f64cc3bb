#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include "longshore/models/ir/add.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/embedding/embedding.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy_body.h"
#include "longshore/models/ops/swiglu.h"
#include "tests/models/emulated_product.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"
#include "tests/models/plain.h"
#include "tests/models/random_inputs.h"

namespace longshore::models {
namespace {

// Some targets are ignored; with few tokens, the last one.
at::Tensor targets(int64_t b, int64_t t, int64_t vocabulary) {
  at::Tensor result = random_integers({b, t}, vocabulary, 7);
  at::Tensor flat = result.view({-1});
  for (int64_t i = flat.size(0) - 1; i > 0; i -= 5) flat[i] = kIgnoredTarget;
  return result;
}

// With a cap of 0, there is none.
OpCase cross_entropy_case(int64_t b, int64_t t, int64_t c, int64_t vocabulary, double cap = 0) {
  return {
      .name = named(cap > 0 ? "linear_cross_entropy, capped" : "linear_cross_entropy", b, t, c,
                    vocabulary),
      .trace =
          [=](Dtype dtype) {
            Trace trace("linear_cross_entropy");
            Var x = trace.input("x", {{b, t, c}, dtype});
            Var w = trace.weight("w", {{vocabulary, c}, dtype}, kTrained);
            Var loss =
                linear_cross_entropy(x, w, trace.batch("targets", ints({b, t})), {.soft_cap = cap});
            trace.output(loss, OutputRole::loss);
            return trace.finish();
          },
      .integers = {{"targets", targets(b, t, vocabulary)}},
      .plain =
          [=](const Tensors& in) {
            return std::vector{plain::cross_entropy(in.at("x"), in.at("w"), in.at("targets"), cap)};
          },
      // Confident logits, so that losses of all sizes occur.
      .adjust = [](Tensors& in) { in.at("x").mul_(3); }};
}

// Tied embeddings: the weight is read at both ends, and x by another output as well.
OpCase tied_cross_entropy_case(int64_t b, int64_t t, int64_t c, int64_t vocabulary) {
  return {.name = named("linear_cross_entropy, tied", b, t, c, vocabulary),
          .trace =
              [=](Dtype dtype) {
                Trace trace("tied");
                Var w = trace.weight("w", {{vocabulary, c}, dtype}, kTrained);
                Var side = trace.input("side", {{b, t, c}, dtype});
                Var x = add(embedding(trace.batch("ids", ints({b, t})), w), side);
                Var all = trace.batch("targets", ints({b, t}));
                trace.output(linear_cross_entropy(x, w, all), OutputRole::loss);
                trace.output(swiglu(x, side));
                return trace.finish();
              },
          .integers = {{"ids", random_integers({b, t}, vocabulary, 3)},
                       {"targets", targets(b, t, vocabulary)}},
          .plain =
              [](const Tensors& in) {
                at::Tensor x = plain::embedding(in.at("ids"), in.at("w")) + in.at("side");
                return std::vector{plain::cross_entropy(x, in.at("w"), in.at("targets")),
                                   plain::swiglu(x, in.at("side"))};
              },
          .adjust = {}};
}

// A frozen head beside an adapter's part, both of what is read elsewhere too.
OpCase adapted_cross_entropy_case(int64_t b, int64_t t, int64_t c, int64_t rank, int64_t vocabulary,
                                  double cap = 0) {
  return {.name = named("linear_cross_entropy, adapted", b, t, c, rank, vocabulary),
          .trace =
              [=](Dtype dtype) {
                Trace trace("adapted");
                Var x = trace.input("x", {{b, t, rank}, dtype});
                Var z = trace.input("z", {{b, t, c}, dtype});
                Var w = trace.weight("w", {{vocabulary, rank}, dtype}, kTrained);
                Var u = trace.weight("u", {{vocabulary, c}, dtype},
                                     {.trainable = Trainable::no, .never_trains = true});
                Var loss = linear_cross_entropy(x, w, trace.batch("targets", ints({b, t})),
                                                {.soft_cap = cap}, FrozenLogits{z, u});
                trace.output(loss, OutputRole::loss);
                trace.output(swiglu(z, z));
                return trace.finish();
              },
          .integers = {{"targets", targets(b, t, vocabulary)}},
          .plain =
              [=](const Tensors& in) {
                const at::Tensor x = at::cat({in.at("x"), in.at("z")}, -1),
                                 w = at::cat({in.at("w"), in.at("u").detach()}, -1);
                return std::vector{plain::cross_entropy(x, w, in.at("targets"), cap),
                                   plain::swiglu(in.at("z"), in.at("z"))};
              },
          .adjust = {}};
}

// Different ones of each token; some tokens have none, and some fewer.
at::Tensor several_targets(int64_t b, int64_t t, int64_t each, int64_t vocabulary) {
  at::Tensor first = targets(b, t, vocabulary).unsqueeze(-1);
  at::Tensor all = (first + at::arange(each, at::kInt) * (vocabulary / each)).remainder(vocabulary);
  all = at::where(first.eq(kIgnoredTarget), first, all).contiguous();
  if (each > 1) all.view({-1, each})[0][each - 1] = kIgnoredTarget;
  return all;
}

// The losses of each target, weighted by what the gradients begin with.
OpCase each_cross_entropy_case(int64_t b, int64_t t, int64_t c, int64_t each, int64_t vocabulary,
                               double cap = 0) {
  return {
      .name = named(cap > 0 ? "linear_cross_entropy, each, capped" : "linear_cross_entropy, each",
                    b, t, c, each, vocabulary),
      .trace =
          [=](Dtype dtype) {
            Trace trace("linear_cross_entropy");
            Var x = trace.input("x", {{b, t, c}, dtype});
            Var w = trace.weight("w", {{vocabulary, c}, dtype}, kTrained);
            Var all = trace.batch("targets", ints({b, t, each}));
            trace.output(
                linear_cross_entropy(x, w, all, {.soft_cap = cap, .reduction = Reduction::none}));
            return trace.finish();
          },
      .integers = {{"targets", several_targets(b, t, each, vocabulary)}},
      .plain =
          [=](const Tensors& in) {
            std::vector<at::Tensor> losses;
            for (const at::Tensor& one : in.at("targets").unbind(-1))
              losses.push_back(
                  plain::cross_entropies(in.at("x"), in.at("w"), one, cap).view({b, t}));
            return std::vector{at::stack(losses, -1)};
          },
      .adjust = [](Tensors& in) { in.at("x").mul_(3); }};
}

template <Emulated emulated>
void emulate_loss(const KernelCall& call) {
  run_linear_cross_entropy(call, emulate_product,
                           emulate_launch<emulated, CrossEntropyRowsArguments>,
                           emulate_launch<emulated, TotalLossArguments>);
}
template <Emulated emulated>
void emulate_loss_grad(const KernelCall& call) {
  run_linear_cross_entropy_grad(call, emulate_product,
                                emulate_launch<emulated, CrossEntropyRowsArguments>,
                                emulate_launch<emulated, TotalLossArguments>);
}

std::vector<OpCase> small() {
  return {
      cross_entropy_case(1, 1, 3, 5),
      cross_entropy_case(2, 6, 5, 11),
      cross_entropy_case(2, 270, 3, 9001),  // 256 tokens a chunk
      cross_entropy_case(2, 6, 5, 11, 1.5),
      tied_cross_entropy_case(2, 4, 3, 7),
      tied_cross_entropy_case(1, 300, 3, 8200),
      adapted_cross_entropy_case(2, 6, 5, 2, 11, 1.5),
      each_cross_entropy_case(2, 6, 5, 1, 11),
      each_cross_entropy_case(2, 6, 5, 3, 11),
      each_cross_entropy_case(2, 6, 5, 3, 11, 1.5),
  };
}

std::vector<OpCase> large() {
  return {
      cross_entropy_case(1, 1, 16, 7),
      cross_entropy_case(1, 5, 33, 33),
      cross_entropy_case(5, 500, 32, 1000),  // chunks of 2096, 404
      cross_entropy_case(3, 300, 48, 5000),  // chunks of 416, 416, 68
      cross_entropy_case(1, 5, 33, 33, 2),
      cross_entropy_case(2, 410, 24, 2600, 5),  // chunks of 800, 20
      tied_cross_entropy_case(3, 300, 48, 5000),
      adapted_cross_entropy_case(3, 300, 48, 8, 5000),
      each_cross_entropy_case(3, 300, 48, 1, 5000),
      each_cross_entropy_case(2, 410, 24, 16, 2600, 5),
      adapted_cross_entropy_case(2, 410, 24, 3, 2600, 5),
  };
}

std::vector<OpCase> real() {
  constexpr int64_t kTokens = 600, kVocabulary = 128256;
  return {
      cross_entropy_case(1, kTokens, 64, kVocabulary),
      cross_entropy_case(1, 1600, 16, 40000),  // groups of 1536, 64; in chunks of 512
      cross_entropy_case(1, 70, 64, 262144, 30),
  };
}

constexpr OpTraits kOps[] = {
    {.op = &linear_cross_entropy_op,
     .tolerance = {1e-6, 1e-6},
     .workspace = WorkspaceUse::most,
     .emulated = emulated_runs(
         []<Emulated emulated>(const KernelCall& call) { emulate_loss<emulated>(call); })},
    // In bfloat16 it rounds its logits' gradients as well.
    {.op = &linear_cross_entropy_grad_op,
     .tolerance = {5e-5, 2e-2},
     .workspace = WorkspaceUse::most,
     .emulated = emulated_runs(
         []<Emulated emulated>(const KernelCall& call) { emulate_loss_grad<emulated>(call); })},
};

}  // namespace

extern constinit const OpRecord linear_cross_entropy_record{kOps, small, large, real};

}  // namespace longshore::models
