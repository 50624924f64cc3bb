// Which cases cuDNN's attention takes on a GPU and in how much workspace: what plans say without
// one. B rows, T length, H query heads, G key/value heads, D head_dim.
#include "longshore/models/ops/attention/attention_cudnn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "longshore/models/ops/attention/attention_blocks.h"

namespace longshore::models {
namespace {

struct Case {
  int64_t b, t, h, g;
  AttentionAttrs attrs;
  Dtype dtype = Dtype::bfloat16;

  Type q() const { return {{b, t, h * attrs.options.head_dim}, dtype}; }
  Type k() const { return {{b, t, g * attrs.options.head_dim}, dtype}; }
  std::string path(Target target) const {
    return attention_op.kernel(target).path(attrs, std::vector{q(), k(), k()});
  }
  Types with_rows(Types in) const {
    for (bool has : {attrs.segments, attrs.blocks()})
      if (has) in.push_back({{b, t}, Dtype::int32});
    return in;
  }
  int64_t forward_workspace(Target target = Target::cuda) const {
    const Types in = with_rows({q(), k(), k()});
    return attention_op.kernel(target).workspace_bytes(attrs, in, attention_op.infer(attrs, in));
  }
  int64_t backward_workspace() const {
    const Type sums{{b, h, t}, Dtype::float32};
    const Types in = with_rows({q(), q(), k(), k(), q(), sums});
    return attention_grad_op.cuda.workspace_bytes(attrs, in, attention_grad_op.infer(attrs, in));
  }
};

const std::string kCudnn = "fused attention (cuDNN)";
const std::string kFlash = "flash attention (ATen)";
const std::string kTiles = "tiles of ATen's matrix products";
const std::string kBlocks = "blocks of cuBLASLt's matrix products";

TEST(AttentionByCudnn, TakesWhatItIsSaidToTake) {
  struct Row {
    Case tried;
    std::string path, composed_path;
  };
  const std::string hopper_else_flash = kCudnn + " on Hopper, elsewhere " + kFlash,
                    hopper_else_blocks = kCudnn + " on Hopper, elsewhere " + kBlocks,
                    all_but_10 = kCudnn + ", on compute capability 10 " + kBlocks;
  const Row rows[]{
      {{1, 4096, 32, 8, {{.head_dim = 128}}}, kCudnn, kFlash},
      {{1, 4096, 32, 8, {{.head_dim = 64, .scale = 0.3}}}, kCudnn, kFlash},
      {{3, 77, 6, 6, {{.head_dim = 8}}}, kCudnn, kFlash},
      {{1, 4096, 32, 8, {{.head_dim = 128, .window = 1024}}}, kCudnn, kFlash},
      {{1, 4096, 32, 8, {{.head_dim = 256}}}, hopper_else_flash, kFlash},
      // Flash attention's gradient takes less of the time, the less a window leaves.
      {{1, 4096, 32, 8, {{.head_dim = 128, .window = 500}}},
       kCudnn + ", its gradient " + kFlash,
       kFlash},
      {{1, 4096, 32, 8, {{.head_dim = 256, .window = 9}}},
       kCudnn + ", its gradient " + kFlash + " on Hopper, elsewhere " + kFlash,
       kFlash},
      {{1, 4096, 32, 8, {{.head_dim = 128, .window = 500}, true}}, all_but_10, kTiles},
      {{1, 4096, 16, 16, {{.head_dim = 72, .mask = AttentionMask::full}}}, kCudnn, kFlash},
      {{1, 4096, 16, 16, {{.head_dim = 72, .mask = AttentionMask::full}, true}},
       all_but_10,
       kTiles},
      {{1, 4096, 8, 4, {{.head_dim = 128, .window = 500, .mask = AttentionMask::blocks}}},
       all_but_10,
       kTiles},
      {{1, 4096, 32, 8, {{.head_dim = 264}}}, kBlocks, kTiles},
      {{1, 4096, 32, 8, {{.head_dim = 132}}}, kBlocks, kTiles},
      {{1, 4096, 32, 8, {{.head_dim = 60}}}, kBlocks, kTiles},
      {{1, 1, 32, 8, {{.head_dim = 128}}}, kFlash, kFlash},
      {{1, 4096, 32, 8, {{.head_dim = 128, .soft_cap = 50}}}, hopper_else_blocks, kTiles},
      {{1, 4096, 32, 8, {{.head_dim = 128}, true}}, all_but_10, kTiles},
      {{1, 4096, 32, 8, {{.head_dim = 256}, true}}, hopper_else_blocks, kTiles},
      {{1, 4096, 32, 8, {{.head_dim = 128, .deterministic = false}, true}}, kCudnn, kTiles},
      {{1, 4096, 32, 8, {{.head_dim = 128}}, Dtype::float32}, kBlocks, kTiles},
      // The scores of one head, by the strides of a mask that is wider.
      {{2, 60, 1, 1, {{.head_dim = 64}, true}}, kBlocks, kTiles},
      {{2, 60, 1, 1, {{.head_dim = 64}}}, kCudnn, kFlash},
      {{2, 60, 2, 1, {{.head_dim = 64}, true}}, all_but_10, kTiles},
      {{2, 64, 1, 1, {{.head_dim = 64}, true}}, all_but_10, kTiles},
      // The mask of a row would take more than 512 MiB.
      {{1, 16384, 32, 32, {{.head_dim = 128}, true}}, all_but_10, kTiles},
      {{1, 16385, 32, 32, {{.head_dim = 128}, true}}, kBlocks, kTiles},
      {{1, 16383, 32, 32, {{.head_dim = 128}, true}}, all_but_10, kTiles},
      // Of four query heads, all scores at once.
      {{1, 16384, 32, 8, {{.head_dim = 128}}}, kCudnn, kFlash},
      {{1, 16385, 32, 8, {{.head_dim = 128}}}, kCudnn + ", its gradient " + kFlash, kFlash},
      {{1, 20001, 32, 8, {{.head_dim = 128}, true}}, kBlocks, kTiles},
      {{1, 20001, 32, 16, {{.head_dim = 128}}}, kCudnn, kFlash},
      {{1, 131072, 32, 8, {{.head_dim = 128, .deterministic = false}}}, kCudnn, kFlash},
  };
  for (const Row& row : rows) {
    const std::string what = attention_op.print(row.tried.attrs) +
                             ", T=" + std::to_string(row.tried.t) +
                             ", G=" + std::to_string(row.tried.g);
    EXPECT_EQ(row.tried.path(Target::cuda), row.path) << what;
    EXPECT_EQ(row.tried.path(Target::cuda_composed), row.composed_path) << what;
  }
}

TEST(AttentionByCudnn, ServesWhichGpusItIsSaidTo) {
  auto serves = [](const AttentionAttrs& attrs) {
    const Case one{1, 100, 4, 2, attrs};
    std::string gpus;
    for (int capability : {75, 80, 86, 89, 90, 100, 120})
      if (const bool forward =
              cudnn_serves(attrs, one.q(), one.k(), CudnnPass::forward, capability);
          forward != cudnn_serves(attrs, one.q(), one.k(), CudnnPass::backward, capability))
        gpus += "one way on ";
      else if (forward)
        gpus += std::to_string(capability) + " ";
    return gpus;
  };
  EXPECT_EQ(serves({{.head_dim = 64, .window = 50}}), "80 86 89 90 100 120 ");
  EXPECT_EQ(serves({{.head_dim = 64}, true}), "80 86 89 90 120 ");
  EXPECT_EQ(serves({{.head_dim = 64, .soft_cap = 30}}), "90 ");
  EXPECT_EQ(serves({{.head_dim = 192}}), "90 ");
  EXPECT_EQ(serves({{.head_dim = 7}}), "");
}

// Every row and head is in one part, and no part takes more than it must to keep a GPU busy.
TEST(AttentionByCudnn, DividesTheBackwardPassEvenly) {
  constexpr int64_t kPart = int64_t{512} << 20, kMaxPart = int64_t{2} << 30;
  for (int64_t b : {1, 2, 5, 12})
    for (int64_t t : {2, 500, 2048, 4096, 8192, 16384})
      for (auto [h, g] :
           std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {8, 1}, {12, 6}, {32, 8}}) {
        const Case one{b, t, h, g, {{.head_dim = 64}}};
        const CudnnAttention part = cudnn_backward(one.attrs, one.q(), one.k());
        SCOPED_TRACE(testing::Message() << b << "x" << t << ", " << h << " on " << g << " heads");
        EXPECT_EQ(b % part.rows, 0);
        EXPECT_EQ(g % part.key_heads, 0);
        EXPECT_EQ(part.heads * g, part.key_heads * h);
        EXPECT_EQ(part.heads_of_row, h);
        EXPECT_EQ(part.key_heads_of_row, g);
        EXPECT_TRUE(part.rows == 1 || part.key_heads == g) << "rows of a part have all their heads";
        const int64_t q = b * t * h * 64 * 2;
        const int64_t scores = part.rows * part.heads * t * t * 2;
        const int64_t blocks_of_one_less = (part.heads - h / g) * ((t + 127) / 128);
        EXPECT_TRUE(part.rows * part.key_heads == 1 || scores <= std::max(kPart, 8 * q) ||
                    blocks_of_one_less < 1024)
            << scores;
        EXPECT_TRUE(part.rows * part.key_heads == 1 || scores <= kMaxPart) << scores;
      }
  auto key_heads = [](int64_t t, int64_t h, int64_t g) {
    const Case one{3, t, h, g, {{.head_dim = 128}}};
    return cudnn_backward(one.attrs, one.q(), one.k()).key_heads;
  };
  EXPECT_EQ(key_heads(4096, 40, 40), 40) << "20 would have too few blocks";
  EXPECT_EQ(key_heads(8192, 40, 40), 10);
  EXPECT_EQ(key_heads(16384, 40, 40), 4);
  EXPECT_EQ(key_heads(8192, 32, 8), 4);
}

TEST(AttentionByCudnn, TakesWorkspaceForOnePart) {
  auto backward = [](int64_t b, int64_t t, int64_t h, int64_t g) {
    return Case{b, t, h, g, {{.head_dim = 128}}}.backward_workspace();
  };
  // 64 rows of queries and 128 of keys are the least.
  EXPECT_EQ(backward(1, 2, 1, 1), 64 * 128 * 2 + 2 * 4 + 1024);
  // dq in float32 where it is more than the scores; and dk, dv of each query head where grouped.
  EXPECT_EQ(backward(1, 128, 1, 1), 128 * 128 * 4 + 128 * 4 + 1024);
  EXPECT_EQ(backward(1, 1024, 8, 8), 8 * (1024 * 1024 * 2 + 1024 * 4) + 1024);
  EXPECT_EQ(backward(1, 1024, 8, 2), 8 * (1024 * 1024 * 2 + 1024 * 4 + 2 * 1024 * 128 * 2) + 1024);
  EXPECT_LT(backward(1, 1024, 8, 2), backward(2, 1024, 8, 2));
  EXPECT_LT(backward(1, 1024, 8, 2), backward(1, 1025, 8, 2));
  // What does not fit at once comes in parts.
  EXPECT_LT(backward(1, 4096, 32, 8), backward(8, 4096, 32, 8));
  EXPECT_EQ(backward(8, 4096, 32, 8), backward(16, 4096, 32, 8));
  EXPECT_LT(backward(16, 4096, 32, 8), int64_t{2200} << 20);
  // In any order: dq twice, dk and dv, and sums.
  const Case any_order{2, 4096, 32, 8, {{.head_dim = 128, .deterministic = false}}};
  EXPECT_EQ(any_order.backward_workspace(), 2 * 32 * 4096 * (128 * (2 * 4 + 2 * 2) + 4) + 1024);
  const Case large{4, 4096, 32, 8, {{.head_dim = 128}}}, long_rows{1, 65536, 32, 8, large.attrs};
  EXPECT_LE(large.forward_workspace(), 4096);
  EXPECT_LE(long_rows.forward_workspace(), 4096);
}

TEST(AttentionByCudnn, TakesAWindowAsLongAsTheRowForNone) {
  for (auto [window, expected] : {std::pair{99, 99}, {100, 0}, {5000, 0}}) {
    const Case one{1, 100, 2, 2, {{.head_dim = 64, .window = window}}};
    EXPECT_EQ(cudnn_forward(one.attrs, one.q(), one.k()).window, expected);
    EXPECT_EQ(cudnn_forward(one.attrs, one.q(), one.k()).scale, 0.125);
  }
}

// A mask comes before what the graphs take, and blocks of scores have room on GPUs without them.
TEST(AttentionByCudnn, TakesWorkspaceForMasks) {
  const Case plain{2, 100, 4, 4, {{.head_dim = 64}}},
      packed{2, 100, 4, 4, {{.head_dim = 64}, true}};
  const int64_t mask = (2 * 100 * 104 * 2 + 511) / 512 * 512;
  EXPECT_EQ(cudnn_mask_bytes(cudnn_forward(plain.attrs, plain.q(), plain.k())), 0);
  EXPECT_EQ(cudnn_mask_bytes(cudnn_forward(packed.attrs, packed.q(), packed.k())), mask);
  EXPECT_EQ(
      packed.forward_workspace(),
      std::max(mask + 1024, attention_blocks_workspace(packed.attrs, packed.q(), packed.k())));
  // Only so many rows' masks are there at once.
  const Case large{16, 4096, 4, 4, {{.head_dim = 64}, true}};
  EXPECT_EQ(cudnn_forward(large.attrs, large.q(), large.k()).rows, 8);
  EXPECT_EQ(cudnn_forward({{.head_dim = 64}}, large.q(), large.k()).rows, 16);
  EXPECT_EQ(large.forward_workspace(), (int64_t{256} << 20) + 1024);
}

// --- parts

// What graphs and masks are given, as offsets from where the op's operands begin.
struct Given {
  std::vector<std::pair<CudnnAttention, CudnnOperands>> graphs;
  std::vector<AttentionMaskArguments> masks;
};
Given given;

// Memory that nobody touches: an operand's begins at its number's multiple of 2^40.
Ref untouched(int64_t number, const Type& type) {
  return {reinterpret_cast<void*>(number << 40), type};
}
int64_t offset(const void* pointer) {
  return reinterpret_cast<int64_t>(pointer) & ((int64_t{1} << 40) - 1);
}

const auto kWorkspace = reinterpret_cast<std::byte*>(int64_t{12} << 40);

// What they are given of the backward pass.
void run_backward(const Case& one) {
  const Type sums{{one.b, one.h, one.t}, Dtype::float32};
  std::vector<Ref> in, out;
  for (const Type& type : one.with_rows({one.q(), one.q(), one.k(), one.k(), one.q(), sums}))
    in.push_back(untouched(std::ssize(in) + 1, type));
  for (const Type& type : {one.q(), one.k(), one.k()})
    out.push_back(untouched(std::ssize(out) + 9, type));
  const std::any attrs = one.attrs;
  given = {};
  run_attention_grad_graphs(
      {.target = Target::cuda,
       .attrs = attrs,
       .in = in,
       .out = out,
       .workspace = {kWorkspace, static_cast<size_t>(one.backward_workspace())}},
      [](const CudnnAttention& part, CudnnPass pass, CudnnOperands& operands,
         std::span<std::byte> workspace, void*) {
        EXPECT_EQ(pass, CudnnPass::backward);
        EXPECT_GE(std::ssize(workspace), cudnn_graph_workspace(part, pass));
        EXPECT_EQ(offset(workspace.data()), cudnn_mask_bytes(part));
        given.graphs.emplace_back(part, operands);
      },
      [](const AttentionMaskArguments& arguments, void*) { given.masks.push_back(arguments); });
}

TEST(AttentionByCudnn, GivesEveryGraphItsPartOfEachOperand) {
  run_backward({6, 8192, 16, 8, {{.head_dim = 128}, true}});
  // Sixteen heads' scores of a row are as much as a part may take.
  ASSERT_EQ(given.graphs.size(), 6);
  ASSERT_EQ(given.masks.size(), 6);
  for (int64_t row = 0; row < 6; ++row) {
    const auto& [part, operands] = given.graphs[row];
    EXPECT_EQ(part.rows, 1);
    EXPECT_EQ(part.key_heads, 8);
    for (CudnnOperand operand : {dout, q, CudnnOperand::out, dq})
      EXPECT_EQ(offset(operands.at(operand)), row * 8192 * 16 * 128 * 2);
    for (CudnnOperand operand : {k, v, dk, dv})
      EXPECT_EQ(offset(operands.at(operand)), row * 8192 * 8 * 128 * 2);
    EXPECT_EQ(offset(operands.at(log_sum_exp)), row * 16 * 8192 * 4);
    EXPECT_EQ(operands.at(mask), kWorkspace);
    // What comes later is hidden by the graph.
    EXPECT_TRUE(part.is_causal);
    EXPECT_EQ(given.masks[row].rule.mask, AttentionMask::full);
    EXPECT_EQ(offset(given.masks[row].rule.segments), row * 8192 * 4);
  }
}

TEST(AttentionByCudnn, LeavesBlocksToTheMask) {
  run_backward(
      {2, 100, 4, 2, {{.head_dim = 64, .window = 9, .mask = AttentionMask::blocks}, true}});
  ASSERT_EQ(given.graphs.size(), 1);
  const CudnnAttention& part = given.graphs[0].first;
  EXPECT_TRUE(part.is_masked);
  EXPECT_FALSE(part.is_causal);
  EXPECT_EQ(part.window, 0);
  const KeyRule& rule = given.masks.at(0).rule;
  EXPECT_EQ(rule.mask, AttentionMask::blocks);
  EXPECT_EQ(rule.window, 9);
  EXPECT_EQ(reinterpret_cast<int64_t>(rule.segments) >> 40, 7);
  EXPECT_EQ(reinterpret_cast<int64_t>(rule.blocks) >> 40, 8);
}

TEST(AttentionByCudnn, GivesGraphsSomeHeadsOfARow) {
  run_backward({1, 16384, 8, 4, {{.head_dim = 64}}});
  EXPECT_TRUE(given.masks.empty());
  ASSERT_EQ(given.graphs.size(), 2);
  for (int64_t key_head : {0, 2}) {
    const auto& [part, operands] = given.graphs[key_head / 2];
    EXPECT_EQ(part.heads, 4);
    EXPECT_EQ(part.key_heads, 2);
    EXPECT_EQ(offset(operands.at(dq)), key_head * 2 * 64 * 2);
    EXPECT_EQ(offset(operands.at(dk)), key_head * 64 * 2);
    EXPECT_EQ(offset(operands.at(log_sum_exp)), key_head * 2 * 16384 * 4);
  }
}

}  // namespace
}  // namespace longshore::models
