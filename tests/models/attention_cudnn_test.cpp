// Which cases cuDNN's attention takes on a GPU and in how much workspace: what plans say without
// one. B rows, T length, H query heads, G key/value heads, D head_dim.
#include "models/ops/attention_cudnn.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

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
  int64_t forward_workspace() const {
    const Types in{q(), k(), k()};
    return attention_op.cuda.workspace_bytes(attrs, in, attention_op.infer(attrs, in));
  }
  int64_t backward_workspace() const {
    const Type sums{{b, h, t}, Dtype::float32};
    const Types in{q(), q(), k(), k(), q(), sums};
    return attention_grad_op.cuda.workspace_bytes(attrs, in, attention_grad_op.infer(attrs, in));
  }
};

constexpr const char* kCudnn = "fused attention (cuDNN)";
constexpr const char* kFlash = "flash attention (ATen)";
constexpr const char* kTiles = "tiles of ATen's matrix products";

TEST(AttentionByCudnn, TakesWhatItIsSaidToTake) {
  struct Row {
    Case tried;
    const char* path;
    const char* composed_path;
  };
  const Row rows[]{
      {{1, 4096, 32, 8, {{.head_dim = 128}}}, kCudnn, kFlash},
      {{1, 4096, 32, 8, {{.head_dim = 64, .scale = 0.3}}}, kCudnn, kFlash},
      {{3, 77, 6, 6, {{.head_dim = 8}}}, kCudnn, kFlash},
      {{1, 4096, 32, 8, {{.head_dim = 128, .window = 1024}}}, kCudnn, kTiles},
      {{1, 4096, 32, 8, {{.head_dim = 256}}}, kFlash, kFlash},
      {{1, 4096, 32, 8, {{.head_dim = 132}}}, kTiles, kTiles},
      {{1, 4096, 32, 8, {{.head_dim = 60}}}, kTiles, kTiles},
      {{1, 1, 32, 8, {{.head_dim = 128}}}, kFlash, kFlash},
      {{1, 4096, 32, 8, {{.head_dim = 128, .soft_cap = 50}}}, kTiles, kTiles},
      {{1, 4096, 32, 8, {{.head_dim = 128}, true}}, kTiles, kTiles},
      {{1, 4096, 32, 8, {{.head_dim = 128}, false, true}}, kTiles, kTiles},
      {{1, 4096, 32, 8, {{.head_dim = 128}}, Dtype::float32}, kTiles, kTiles},
      // Of four query heads, all scores at once.
      {{1, 8192, 32, 8, {{.head_dim = 128}}}, kCudnn, kFlash},
      {{1, 16384, 32, 8, {{.head_dim = 128}}}, kFlash, kFlash},
      {{1, 16384, 32, 16, {{.head_dim = 128}}}, kCudnn, kFlash},
  };
  for (const Row& row : rows) {
    const std::string what = attention_op.print(row.tried.attrs) +
                             ", T=" + std::to_string(row.tried.t) +
                             ", G=" + std::to_string(row.tried.g);
    EXPECT_EQ(row.tried.path(Target::cuda), row.path) << what;
    EXPECT_EQ(row.tried.path(Target::cuda_composed), row.composed_path) << what;
  }
}

// Every row and head is in one part, and no part takes more than one head must or all may.
TEST(AttentionByCudnn, DividesTheBackwardPassEvenly) {
  constexpr int64_t kPart = int64_t{256} << 20;
  for (int64_t b : {1, 2, 5, 12})
    for (int64_t t : {2, 500, 2048, 4096, 8192})
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
        const int64_t scores = part.rows * part.heads * t * t * 2;
        EXPECT_TRUE(part.rows * part.key_heads == 1 || scores <= kPart) << scores;
      }
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
  EXPECT_EQ(backward(1, 4096, 32, 8), backward(16, 4096, 32, 8));
  EXPECT_LT(backward(16, 4096, 32, 8), int64_t{300} << 20);
  const Case large{4, 4096, 32, 8, {{.head_dim = 128}}};
  EXPECT_LE(large.forward_workspace(), 4096);
}

TEST(AttentionByCudnn, TakesAWindowAsLongAsTheRowForNone) {
  for (auto [window, expected] : {std::pair{99, 99}, {100, 0}, {5000, 0}}) {
    const Case one{1, 100, 2, 2, {{.head_dim = 64, .window = window}}};
    EXPECT_EQ(cudnn_forward(one.attrs, one.q(), one.k()).window, expected);
    EXPECT_EQ(cudnn_forward(one.attrs, one.q(), one.k()).scale, 0.125);
  }
}

}  // namespace
}  // namespace longshore::models
