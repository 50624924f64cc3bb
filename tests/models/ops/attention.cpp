#include "tests/models/ops/attention.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/attention/attention_blocks_body.h"
#include "longshore/models/ops/attention/attention_cudnn.h"
#include "longshore/models/ops/attention/attention_mask_body.h"
#include "longshore/models/ops/attention/attention_sinks_body.h"
#include "tests/models/emulated_cudnn.h"
#include "tests/models/emulated_product.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"
#include "tests/models/plain.h"

namespace longshore::models {
namespace {

std::string name_of(const AttentionShape& shape) {
  const AttentionOptions& o = shape.options;
  std::ostringstream name;
  name << named("attention", shape.b, shape.t, shape.h, shape.g, o.head_dim);
  if (o.scale != 0) name << ", scale " << o.scale;
  if (o.window != 0) name << ", window " << o.window;
  if (o.soft_cap != 0) name << ", soft_cap " << o.soft_cap;
  if (shape.segments.defined()) name << ", segments";
  if (o.mask == AttentionMask::full) name << ", full";
  if (o.mask == AttentionMask::blocks) name << ", blocks";
  if (shape.has_sinks) name << ", sinks";
  return name.str();
}

// Queries, keys and values are one value.
OpCase shared_attention_case(int64_t b, int64_t t, int64_t h, int64_t d) {
  return {.name = named("attention, shared", b, t, h, d),
          .trace =
              [=](Dtype dtype) {
                Trace trace("shared_attention");
                Var x = trace.input("x", {{b, t, h * d}, dtype});
                trace.output(attention(x, x, x, {.head_dim = d}));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [=](const Tensors& in) {
                at::Tensor x = in.at("x");
                return std::vector{plain::attention(x, x, x, d)};
              },
          .adjust = {}};
}

// Window, segments and soft cap, each there or not, under every mask, and none and all of them with
// sinks; with heads of whole vectors, which cuDNN takes, and without.
std::vector<OpCase> combinations() {
  std::vector<OpCase> cases;
  for (AttentionMask mask : {AttentionMask::causal, AttentionMask::full, AttentionMask::blocks})
    for (int choice = 0; choice < 8; ++choice)
      for (int64_t head_dim : {6, 8}) {
        if (mask == AttentionMask::full && (choice & 1)) continue;
        const bool has_all = choice == (mask == AttentionMask::full ? 6 : 7);
        const int64_t b = has_all ? 2 : 1;
        AttentionShape shape{b, 7, 2, 1, {.head_dim = head_dim, .mask = mask}};
        if (choice & 1) shape.options.window = 3;
        if (choice & 2) shape.options.soft_cap = 1.5;
        if (choice & 4) shape.segments = segments_of(b, 7, {1, 4});
        // The second is one of two segments, where there are some, and longer than the window.
        if (mask == AttentionMask::blocks) shape.blocks = blocks_of(b, 7, {{0, 2}, {2, 6}});
        cases.push_back(attention_case(shape));
        shape.has_sinks = true;
        if (choice == 0 || has_all) cases.push_back(attention_case(shape));
      }
  return cases;
}

template <Emulated emulated>
constexpr AttentionBlockParts kBlockParts{
    .multiply = emulate_product,
    .softmax = emulate_launch<emulated, AttentionSoftmaxArguments>,
    .softmax_grad = emulate_launch<emulated, AttentionSoftmaxGradArguments>,
    .zero = emulate_launch<emulated, ZeroArguments>,
    .round = emulate_launch<emulated, RoundArguments>};

// Half of them emulate a GPU on which cuDNN's graphs serve most, the others one on which they serve
// nothing.
template <Emulated emulated>
constexpr int kComputeCapability =
    emulated == Emulated::by_32 || emulated == Emulated::ahead ? 90 : 0;

// As flash attention, which knows no sinks.
void emulate_flash(const KernelCall& call) {
  auto attrs = std::any_cast<AttentionAttrs>(call.attrs);
  std::vector<Ref> in(call.in.begin(), call.in.end());
  if (attrs.sinks) in.erase(in.begin() + 3);
  attrs.sinks = false;
  attention_composed({.target = call.target,
                      .attrs = attrs,
                      .in = in,
                      .out = call.out,
                      .workspace = call.workspace});
}

template <Emulated emulated>
void emulate_attention(const KernelCall& call) {
  const auto& attrs = std::any_cast<const AttentionAttrs&>(call.attrs);
  const Type &q = call.in[0].type, &k = call.in[1].type;
  if (cudnn_serves(attrs, q, k, CudnnPass::forward, kComputeCapability<emulated>))
    run_attention_graphs(call, emulate_cudnn_graph,
                         emulate_launch<emulated, AttentionMaskArguments>);
  else if (flash_serves(attrs, q.dtype))
    emulate_flash(call);
  else
    run_attention_blocks(call, kBlockParts<emulated>);
  if (attrs.sinks) emulate_launch<emulated>(attention_sinks_arguments(call), call.stream);
}
template <Emulated emulated>
void emulate_attention_grad(const KernelCall& call) {
  const auto& attrs = std::any_cast<const AttentionAttrs&>(call.attrs);
  const Type &q = call.in[1].type, &k = call.in[2].type;
  if (cudnn_serves(attrs, q, k, CudnnPass::backward, kComputeCapability<emulated>))
    run_attention_grad_graphs(call, emulate_cudnn_graph,
                              emulate_launch<emulated, AttentionMaskArguments>);
  else if (flash_serves(attrs, q.dtype))
    attention_grad_composed(call);
  else
    run_attention_grad_blocks(call, kBlockParts<emulated>);
}

std::vector<OpCase> small() {
  std::vector<OpCase> cases{
      attention_case({1, 1, 1, 1, {.head_dim = 2}}),
      attention_case({2, 1, 4, 2, {.head_dim = 2}}),
      attention_case({2, 5, 4, 2, {.head_dim = 3}}),
      attention_case({1, 7, 3, 1, {.head_dim = 4}}),
      shared_attention_case(1, 6, 2, 3),
  };
  for (OpCase& combined : combinations()) cases.push_back(std::move(combined));
  return cases;
}

std::vector<OpCase> large() {
  return {
      attention_case({1, 1, 2, 1, {.head_dim = 64}}),
      attention_case({1, 17, 1, 1, {.head_dim = 16}}),
      attention_case({2, 128, 2, 2, {.head_dim = 32}}),
      attention_case({1, 129, 3, 1, {.head_dim = 40}}),
      attention_case({1, 513, 2, 1, {.head_dim = 20}}),
      attention_case({2, 700, 4, 2, {.head_dim = 64}}),
      attention_case({1, 700, 2, 1, {.head_dim = 80}}),
      attention_case({1, 700, 6, 2, {.head_dim = 128}}),
      shared_attention_case(1, 650, 2, 24),
      // Tiles are 128 queries by 512 (backward 256) keys, the reference's blocks 512 queries.
      attention_case({1, 700, 4, 2, {.head_dim = 64, .window = 50}}),
      attention_case({1, 900, 3, 1, {.head_dim = 20, .window = 300}}),
      attention_case({1, 1400, 2, 1, {.head_dim = 16, .window = 601}}),
      attention_case({1, 513, 2, 2, {.head_dim = 32, .soft_cap = 2}}),
      attention_case({2, 700, 2, 1, {.head_dim = 40}, segments_of(2, 700, {1, 126, 200, 260})}),
      attention_case({3,
                      650,
                      3,
                      1,
                      {.head_dim = 24, .scale = 0.3, .window = 150, .soft_cap = 5},
                      segments_of(3, 650, {100, 180, 129})}),
      attention_case({1, 120, 1, 1, {.head_dim = 256}, segments_of(1, 120, {60})}),
      attention_case({1, 60, 1, 1, {.head_dim = 8}, segments_of(1, 60, {7})}),
      attention_case({1, 700, 4, 2, {.head_dim = 64, .mask = AttentionMask::full}}),
      attention_case({2,
                      650,
                      2,
                      1,
                      {.head_dim = 24, .soft_cap = 5, .mask = AttentionMask::full},
                      segments_of(2, 650, {100, 390})}),
      attention_case({2,
                      700,
                      4,
                      2,
                      {.head_dim = 64, .mask = AttentionMask::blocks},
                      {},
                      blocks_of(2, 700, {{0, 130}, {200, 456}, {690, 700}})}),
      attention_case({2,
                      900,
                      3,
                      1,
                      {.head_dim = 20, .window = 150, .mask = AttentionMask::blocks},
                      segments_of(2, 900, {300, 390}),
                      blocks_of(2, 900, {{0, 40}, {290, 600}, {690, 890}})}),
      attention_case({1, 2, 2, 1, {.head_dim = 64}, {}, {}, true}),
      attention_case({3, 700, 4, 2, {.head_dim = 64}, {}, {}, true}),
      attention_case({1, 130, 40, 8, {.head_dim = 16, .window = 40}, {}, {}, true}),
      attention_case({1, 700, 3, 3, {.head_dim = 20, .window = 150, .soft_cap = 5}, {}, {}, true}),
      attention_case({2,
                      650,
                      4,
                      1,
                      {.head_dim = 24, .scale = 0.3, .window = 150, .mask = AttentionMask::blocks},
                      segments_of(2, 650, {100, 390}),
                      blocks_of(2, 650, {{0, 40}, {120, 480}}),
                      true}),
  };
}

// A layer of gpt-oss with a window.
std::vector<OpCase> real() {
  return {attention_case({1, 600, 64, 8, {.head_dim = 64, .window = 128}, {}, {}, true})};
}

constexpr OpTraits kOps[] = {
    // In bfloat16 it rounds its probabilities and their gradients as well.
    {.op = &attention_op,
     .tolerance = {3e-5, 1.6e-2},
     .workspace = WorkspaceUse::most,
     .emulated = emulated_runs(
         []<Emulated emulated>(const KernelCall& call) { emulate_attention<emulated>(call); })},
    {.op = &attention_grad_op,
     .tolerance = {5e-5, 4e-2},
     .workspace = WorkspaceUse::most,
     .emulated = emulated_runs([]<Emulated emulated>(const KernelCall& call) {
       emulate_attention_grad<emulated>(call);
     })},
    {.op = &attention_sinks_grad_op,
     .tolerance = {1e-5, 1e-5},
     .workspace = WorkspaceUse::all,
     .emulated = emulated_launch<attention_sinks_grad_arguments>()},
};

}  // namespace

OpCase attention_case(const AttentionShape& shape) {
  const auto& [b, t, h, g, options, segments, blocks, has_sinks] = shape;
  OpCase op_case{
      .name = name_of(shape),
      .trace =
          [=](Dtype dtype) {
            int64_t d = options.head_dim;
            Trace trace("attention");
            Var q = trace.input("q", {{b, t, h * d}, dtype});
            Var k = trace.input("k", {{b, t, g * d}, dtype});
            Var v = trace.input("v", {{b, t, g * d}, dtype});
            AttentionOptionalInputs optional;
            if (segments.defined()) optional.segments = trace.batch("segments", ints({b, t}));
            if (blocks.defined()) optional.blocks = trace.batch("blocks", ints({b, t}));
            if (has_sinks) optional.sinks = trace.weight("sinks", {{h}, dtype}, kTrained);
            trace.output(attention(q, k, v, options, optional));
            return trace.finish();
          },
      .integers = {},
      .plain =
          [=](const Tensors& in) {
            return std::vector{plain::attention(in.at("q"), in.at("k"), in.at("v"), options,
                                                plain::visible_keys(t, options, segments, blocks),
                                                has_sinks ? in.at("sinks") : at::Tensor())};
          },
      // Scores that differ much, so that the largest so far changes from tile to tile, and sinks
      // above and below them.
      .adjust =
          [=](Tensors& in) {
            in.at("q").mul_(3);
            if (has_sinks) in.at("sinks").sub_(1).mul_(16);
          }};
  if (segments.defined()) op_case.integers["segments"] = segments;
  if (blocks.defined()) op_case.integers["blocks"] = blocks;
  return op_case;
}

at::Tensor segments_of(int64_t b, int64_t t, const std::vector<int64_t>& lengths) {
  at::Tensor ids = at::full({b, t}, 5, at::kInt);
  int64_t begin = 0, id = 1000000;
  for (int64_t length : lengths) {
    ids.narrow(1, begin, length).fill_(id);
    begin += length;
    id = id == 1000000 ? 0 : id + 7;
  }
  return ids;
}

at::Tensor blocks_of(int64_t b, int64_t t, const std::vector<std::pair<int64_t, int64_t>>& blocks) {
  at::Tensor ids = at::zeros({b, t}, at::kInt);
  for (int64_t row = 0; row < b; ++row)
    for (size_t i = 0; i < blocks.size(); ++i) {
      const int64_t begin = std::min(t, blocks[i].first + row),
                    end = std::min(t, blocks[i].second + row);
      ids[row].narrow(0, begin, end - begin).fill_(static_cast<int64_t>(5 * i % 7 + 1));
    }
  return ids;
}

extern constinit const OpRecord attention_record{kOps, small, large, real};

}  // namespace longshore::models
