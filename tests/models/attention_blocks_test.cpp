// Which parts of operands attention by blocks of scores gives its products and kernels, and in how
// much workspace: what can be seen without memory. op_test runs it on numbers.
#include "longshore/models/ops/attention/attention_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace longshore::models {
namespace {

struct Case {
  int64_t b, t, h, g;
  AttentionAttrs attrs;
  Dtype dtype = Dtype::bfloat16;

  int64_t d() const { return attrs.options.head_dim; }
  Type q() const { return {{b, t, h * d()}, dtype}; }
  Type k() const { return {{b, t, g * d()}, dtype}; }
  Type sums() const { return {{b, h, t}, Dtype::float32}; }
  Types with_rows(Types in) const {
    for (bool has : {attrs.segments, attrs.blocks()})
      if (has) in.push_back({{b, t}, Dtype::int32});
    return in;
  }
};

struct Product {
  Matmuls matmuls;
  const void *a, *b;
  void* c;
};

// What they are given, as offsets from where the op's operands begin.
struct Given {
  std::vector<Product> products;
  std::vector<AttentionSoftmaxArguments> softmaxes;
  std::vector<AttentionSoftmaxGradArguments> gradients;
  std::vector<ZeroArguments> zeros;
  std::vector<RoundArguments> rounds;
};
Given given;

// Memory that nobody touches: an operand's begins at its number's multiple of 2^40.
constexpr int64_t kWorkspace = 20;
void* memory(int64_t number) { return reinterpret_cast<void*>(number << 40); }
int64_t number(const void* pointer) { return reinterpret_cast<int64_t>(pointer) >> 40; }
int64_t offset(const void* pointer) {
  return reinterpret_cast<int64_t>(pointer) & ((int64_t{1} << 40) - 1);
}

constexpr AttentionBlockParts kParts{
    .multiply =
        [](const Matmuls& matmuls, const void* a, const void* b, const void* sum, void* c,
           std::span<std::byte> workspace, void*) {
          EXPECT_EQ(sum, c);
          EXPECT_GE(std::ssize(workspace), cublaslt_workspace_bytes(matmuls));
          given.products.push_back({matmuls, a, b, c});
        },
    .softmax = [](const AttentionSoftmaxArguments& a, void*) { given.softmaxes.push_back(a); },
    .softmax_grad = [](const AttentionSoftmaxGradArguments& a,
                       void*) { given.gradients.push_back(a); },
    .zero = [](const ZeroArguments& a, void*) { given.zeros.push_back(a); },
    .round = [](const RoundArguments& a, void*) { given.rounds.push_back(a); }};

void run(const Case& one, bool backward) {
  std::vector<Ref> in, out;
  auto add = [](std::vector<Ref>& refs, int64_t first, const Types& types) {
    for (const Type& type : types) refs.push_back({memory(first + std::ssize(refs)), type});
  };
  add(in, 1,
      one.with_rows(backward ? Types{one.q(), one.q(), one.k(), one.k(), one.q(), one.sums()}
                             : Types{one.q(), one.k(), one.k()}));
  add(out, 11, backward ? Types{one.q(), one.k(), one.k()} : Types{one.q(), one.sums()});
  const std::any attrs = one.attrs;
  const int64_t bytes = backward ? attention_grad_blocks_workspace(one.attrs, one.q(), one.k())
                                 : attention_blocks_workspace(one.attrs, one.q(), one.k());
  const KernelCall call{
      .target = Target::cuda,
      .attrs = attrs,
      .in = in,
      .out = out,
      .workspace = {static_cast<std::byte*>(memory(kWorkspace)), static_cast<size_t>(bytes)}};
  given = {};
  backward ? run_attention_grad_blocks(call, kParts) : run_attention_blocks(call, kParts);
}

std::vector<Case> cases() {
  return {{2, 1000, 6, 2, {{.head_dim = 20}}},
          {1, 512, 4, 4, {{.head_dim = 64, .soft_cap = 30}}},
          {1, 513, 4, 1, {{.head_dim = 64}, true}},
          {1, 5000, 8, 4, {{.head_dim = 64, .window = 700, .soft_cap = 30}}},
          {1, 3000, 2, 2, {{.head_dim = 16, .window = 5}, true}},
          {1, 20000, 16, 8, {{.head_dim = 256, .soft_cap = 50}}},
          {3, 1, 2, 1, {{.head_dim = 7}}},
          {2, 1500, 4, 2, {{.head_dim = 64, .mask = AttentionMask::full}}},
          {1, 1500, 4, 2, {{.head_dim = 64, .window = 70, .mask = AttentionMask::blocks}, true}},
          {2, 1500, 6, 3, {{.head_dim = 128}}, Dtype::float32},
          {1, 9000, 6, 3, {{.head_dim = 128, .window = 1001}}, Dtype::float32}};
}

// Each query of each head is in one block, with all keys that it may see, and no block has keys
// that none of its queries does but for whole vectors.
TEST(AttentionBlocks, HoldEveryQueryOnceWithItsKeys) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(attention_op.print(one.attrs) + ", T=" + std::to_string(one.t));
    run(one, false);
    std::map<int64_t, int64_t> queries;  // that begin at an offset into the log-sum-exps
    for (const AttentionSoftmaxArguments& a : given.softmaxes) {
      const AttentionBlock& block = a.scores.block;
      EXPECT_EQ(number(a.log_sum_exp), 12);
      EXPECT_EQ(block.heads, one.g);
      for (int64_t head = 0; head < block.heads; ++head)
        EXPECT_TRUE(queries.emplace(offset(a.log_sum_exp) / 4 + head * a.head_stride, block.queries)
                        .second);
      const bool is_causal = one.attrs.options.mask == AttentionMask::causal;
      const int64_t window = is_causal ? one.attrs.options.window : 0;
      const int64_t first = window == 0 ? 0 : std::max<int64_t>(block.query - window + 1, 0);
      EXPECT_EQ(block.key + block.keys, is_causal ? block.query + block.queries : one.t);
      EXPECT_LE(block.key, first);
      EXPECT_GT(block.key + 8, first);
      EXPECT_EQ(block.width, (block.keys + 7) / 8 * 8);
    }
    int64_t next = 0;
    for (auto [first, count] : queries) {
      EXPECT_EQ(first, next);
      next = first + count;
    }
    EXPECT_EQ(next, one.b * one.h * one.t);
  }
}

// Of every product, where its first and its last matrix begin in their operands.
TEST(AttentionBlocks, GiveProductsTheirPartOfEachOperand) {
  for (const Case& one : cases())
    for (bool backward : {false, true}) {
      SCOPED_TRACE(attention_op.print(one.attrs) + ", T=" + std::to_string(one.t));
      run(one, backward);
      const int64_t size = size_bytes(one.dtype), d = one.d();
      size_t product = 0, softmax = 0;
      const int64_t of_one = backward ? 5 : 2;
      const std::vector<AttentionScores> scores = [&] {
        std::vector<AttentionScores> all;
        for (const auto& a : given.softmaxes) all.push_back(a.scores);
        for (const auto& a : given.gradients) all.push_back(a.scores);
        return all;
      }();
      ASSERT_EQ(given.products.size(), of_one * scores.size());
      std::set<int64_t> queries_written;
      for (const AttentionScores& a : scores) {
        const AttentionBlock& block = a.block;
        const float* sums =
            backward ? given.gradients[softmax].log_sum_exp : given.softmaxes[softmax].log_sum_exp;
        const int64_t head_of_row = offset(sums) / 4 / one.t;  // B*H
        const int64_t row = head_of_row / one.h, member = head_of_row % one.h;
        EXPECT_LT(member, one.h / one.g);
        EXPECT_EQ(offset(sums) / 4 % one.t, block.query);
        const int64_t queries = ((row * one.t + block.query) * one.h + member) * d;
        const int64_t keys = (row * one.t + block.key) * one.g * d;
        for (int64_t i = 0; i < of_one; ++i, ++product) {
          const auto& [matmuls, first, second, result] = given.products[product];
          EXPECT_EQ(matmuls.count, one.g);
          auto expect_place = [&](const void* pointer, const Stride& stride) {
            if (number(pointer) == kWorkspace) return;
            const bool of_queries = stride.row == one.h * d && stride.next == one.h / one.g * d;
            const bool of_keys = stride.row == one.g * d && stride.next == d;
            EXPECT_TRUE(of_queries || of_keys);
            const int64_t at = offset(pointer) / size;
            EXPECT_TRUE((of_queries && at == queries) || (of_keys && at == keys)) << at;
          };
          expect_place(first, matmuls.a);
          expect_place(second, matmuls.b);
          expect_place(result, matmuls.c);
          if (number(result) == 11) {
            EXPECT_TRUE(queries_written.insert(offset(result)).second);
          }
        }
        ++softmax;
      }
      EXPECT_EQ(queries_written.size(), scores.size());
    }
}

// In bfloat16 sums of dk and dv are made apart and rounded; in float32 where they belong.
TEST(AttentionBlocks, AddUpKeysGradientsInFloat32) {
  for (const Case& one : cases()) {
    run(one, true);
    const int64_t count = one.t * one.g * one.d();
    ASSERT_EQ(std::ssize(given.zeros), 2 * one.b);
    const bool is_rounded = one.dtype == Dtype::bfloat16;
    ASSERT_EQ(std::ssize(given.rounds), is_rounded ? 2 * one.b : 0);
    std::set<const float*> sums;
    for (int64_t i = 0; i < 2 * one.b; ++i) {
      EXPECT_EQ(given.zeros[i].count, count);
      sums.insert(given.zeros[i].numbers);
      if (!is_rounded) {
        EXPECT_EQ(number(given.zeros[i].numbers), 12 + i % 2);
        EXPECT_EQ(offset(given.zeros[i].numbers), i / 2 * count * 4);
        continue;
      }
      EXPECT_EQ(number(given.zeros[i].numbers), kWorkspace);
      EXPECT_EQ(given.rounds[i].from, given.zeros[i].numbers);
      EXPECT_EQ(given.rounds[i].count, count);
      EXPECT_EQ(number(given.rounds[i].to), 12 + i % 2);
      EXPECT_EQ(offset(given.rounds[i].to), i / 2 * count * 2);
    }
    for (const Product& product : given.products)
      if (product.matmuls.matmul.into == Into::add) {
        const auto* begin = static_cast<const float*>(product.c);
        EXPECT_TRUE(std::ranges::any_of(
            sums, [&](const float* sum) { return begin >= sum && begin < sum + count; }));
      }
  }
}

TEST(AttentionBlocks, TakeAboutAsMuchForLongRowsAsForShortOnes) {
  auto bytes = [](int64_t t, int64_t window, Dtype dtype) {
    const Case one{1, t, 16, 8, {{.head_dim = 128, .window = window, .soft_cap = 50}}, dtype};
    return attention_grad_blocks_workspace(one.attrs, one.q(), one.k());
  };
  constexpr int64_t kScores = int64_t{256} << 20, kProducts = int64_t{32} << 20;
  for (int64_t t : {2048, 8192, 32768}) {
    const int64_t sums = 2 * t * 8 * 128 * 4;
    EXPECT_LE(bytes(t, 0, Dtype::bfloat16), kScores + kProducts + sums) << t;
    EXPECT_GE(bytes(t, 0, Dtype::bfloat16), kScores / 3 + sums) << t;
    EXPECT_LE(bytes(t, 0, Dtype::float32), kScores + kProducts) << t;
  }
  EXPECT_EQ(bytes(8192, 1024, Dtype::float32), bytes(65536, 1024, Dtype::float32));
  EXPECT_EQ(bytes(300, 0, Dtype::float32), bytes(300, 300, Dtype::float32));
}

}  // namespace
}  // namespace longshore::models
