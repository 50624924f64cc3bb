// What the op cases do not show of our custom kernels for GPUs, emulated on the CPU: odd addresses,
// the order of sums, numbers at the edge of what there is, and memory.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/attention/attention_mask_body.h"
#include "longshore/models/ops/embedding/embedding.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/onednn_matmul.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy_body.h"
#include "longshore/models/ops/update/adamw.h"
#include "tests/models/fiber_group.h"
#include "tests/models/harness.h"
#include "tests/models/op_cases.h"
#include "tests/models/random_inputs.h"
#include "tests/models/serial_group.h"

namespace longshore::models {
namespace {

constexpr Emulated kEmulated[]{Emulated::by_32, Emulated::by_256, Emulated::ahead,
                               Emulated::behind};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// --- sums

TEST(SerialGroup, AddsEachThreadsShareAndThenTheTree) {
  // Numbers whose sum depends on the order.
  auto value = [](int64_t i) { return i % 3 == 0 ? 1e8f : i % 3 == 1 ? -1e8f : 1.f; };
  constexpr int64_t kCount = 1000;
  for (PlayOrder order : {PlayOrder::ascending, PlayOrder::descending})
    for (int threads : {16, 32, 256}) {
      std::vector<float> shares(threads, 0.f);
      for (int64_t i = 0; i < kCount; ++i) shares[i % threads] += value(i);
      float expected = 0;
      for (int warp = 0; warp < threads; warp += 32) {
        const int lanes = std::min(threads, 32);
        for (int distance = lanes / 2; distance > 0; distance /= 2)
          for (int lane = 0; lane < distance; ++lane)
            shares[warp + lane] += shares[warp + lane + distance];
        expected = warp == 0 ? shares[0] : expected + shares[warp];
      }
      SerialGroup group(threads, order);
      EXPECT_EQ(sum(group, kCount, value), expected) << threads;
      EXPECT_EQ(max(group, kCount, 0.f, value), 1e8f) << threads;
      EXPECT_EQ(sum(group, 0, value), 0.f) << threads;
    }
}

// What a body without the sync() that it needs does: each item reads what the next one's thread
// wrote.
struct ForgetfulBody {
  static constexpr int kThreads = kBlockThreads;
  bool syncs;
  int* result;

  template <class Block>
  LONGSHORE_BODY void operator()(Block& block, int64_t) const {
    int* numbers = block.template scratch<int>();
    block.for_each(block.threads(), [&](int64_t i) { numbers[i] = static_cast<int>(i); });
    if (syncs) block.sync();
    const int threads = block.threads();
    block.for_each(threads, [&](int64_t i) { result[i] = numbers[(i + 1) % threads]; });
  }
};

// One thread comes to another sync() than the others.
struct DivergentBody {
  static constexpr int kThreads = kBlockThreads;

  template <class Block>
  LONGSHORE_BODY void operator()(Block& block, int64_t) const {
    bool is_first = false;
    block.once([&] { is_first = true; });
    if (!is_first) block.sync();
  }
};

TEST(FiberGroup, ShowsWhatWasNotSynchronised) {
  for (PlayOrder order : {PlayOrder::ascending, PlayOrder::descending}) {
    const FiberLauncher launcher(64, order);
    for (bool syncs : {true, false}) {
      std::vector<int> found(64), expected(64);
      launcher(ForgetfulBody{syncs, found.data()}, 1, 64 * sizeof(int));
      for (int i = 0; i < 64; ++i) expected[i] = (i + 1) % 64;
      EXPECT_EQ(found == expected, syncs);
    }
    EXPECT_THROW(launcher(DivergentBody{}, 1), std::logic_error);
  }
}

// --- memory

// The workspaces of all nodes of the program. What products take, ATen's take from memory that it
// keeps for itself and no plan knows of; and cuDNN's attention is fast for what it takes.
void expect_no_more_workspace(const Program& program) {
  for (const Node& node : program.nodes) {
    if (!emulated_kernel(*node.op, Emulated::by_32).run) continue;
    if (node.op->op_class != OpClass::memory) continue;
    auto bytes = [&](const Kernel& kernel) {
      return kernel.workspace_bytes ? kernel.workspace_bytes(node.attrs, program.types(node.in),
                                                             program.types(node.out))
                                    : 0;
    };
    EXPECT_LE(bytes(node.op->cuda), bytes(node.op->cuda_composed)) << text(program, node);
  }
}

TEST(CustomKernels, TakeNoMoreWorkspaceThanTheirCompositions) {
  std::vector<OpCase> cases = small_cases();
  for (OpCase& op_case : large_cases()) cases.push_back(std::move(op_case));
  for (const OpCase& op_case : cases)
    for (Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
      Program program = op_case.trace(dtype);
      expect_no_more_workspace(program);
      if (!op_case.plain) continue;
      expect_no_more_workspace(differentiate(program).program);
      expect_no_more_workspace(differentiate(program, program.inputs_from(Source::weight)).program);
    }
}

// --- the loss

struct Rows {
  std::vector<float> losses;
  at::Tensor dlogits;  // undefined without gradients
};

Rows rows_of(at::Tensor logits, const std::vector<int32_t>& targets, const SerialLauncher& launcher,
             Dtype dtype = Dtype::float32, float cap = 0, const float* dloss = nullptr) {
  logits = logits.clone();
  Rows result{.losses = std::vector<float>(targets.size(), -1), .dlogits = {}};
  if (dloss)  // float32 in the logits' place
    result.dlogits = dtype == Dtype::float32
                         ? logits
                         : at::empty(logits.sizes(), logits.options().dtype(scalar_type(dtype)));
  launch(CrossEntropyRowsArguments{.rows = logits.size(0),
                                   .vocabulary = logits.size(1),
                                   .logits = logits.mutable_data_ptr<float>(),
                                   .targets = targets.data(),
                                   .cap = cap,
                                   .losses = result.losses.data(),
                                   .dtype = dtype,
                                   .dlogits = dloss ? result.dlogits.mutable_data_ptr() : nullptr,
                                   .dloss = dloss},
         launcher);
  return result;
}

TEST(CrossEntropyRows, GiveTheSameLossWithAndWithoutGradients) {
  const float dloss = 0.7f;
  for (int64_t vocabulary : {1, 7, 64, 1001, 4096})
    for (Dtype dtype : {Dtype::float32, Dtype::bfloat16})
      for (float cap : {0.f, 3.f}) {
        at::Tensor logits = random_normal({{4, vocabulary}}, 1) * 5;
        const std::vector<int32_t> targets{0, kIgnoredTarget, static_cast<int32_t>(vocabulary - 1),
                                           static_cast<int32_t>(vocabulary / 2)};
        for (int threads : {32, 256}) {
          const SerialLauncher launcher(threads);
          Rows without = rows_of(logits, targets, launcher, dtype, cap);
          Rows with = rows_of(logits, targets, launcher, dtype, cap, &dloss);
          EXPECT_EQ(with.losses, without.losses) << vocabulary << ", " << cap;
          EXPECT_EQ(with.losses[1], 0);
          EXPECT_EQ(with.dlogits[1].count_nonzero().item<int64_t>(), 0);
        }
      }
}

// Exponentials of these overflow, or vanish, unless the largest is taken off first.
TEST(CrossEntropyRows, TakeLogitsOfAnySize) {
  for (int threads : {32, 256})
    for (float shift : {0.f, 1e4f, -1e4f}) {
      at::Tensor logits = at::full({1, 600}, shift, at::kFloat);
      logits[0][599] = shift + 10;
      const double expected = std::log(std::exp(10.) + 599) - 10;
      Rows found = rows_of(logits, {599}, SerialLauncher(threads));
      EXPECT_NEAR(found.losses[0], expected, 2e-3) << shift;
    }
}

TEST(CrossEntropyRows, LeaveOutWhatCannotBeAndShowFaults) {
  const float dloss = 1;
  for (int threads : {32, 256}) {
    const SerialLauncher launcher(threads);
    // Whole vectors, and whole threads' shares, of nothing.
    at::Tensor logits = at::full({1, 2048}, -kInfinity, at::kFloat);
    logits[0][3] = 1.f;
    logits[0][2000] = 1.f;
    Rows found = rows_of(logits, {3}, launcher, Dtype::float32, 0, &dloss);
    EXPECT_FLOAT_EQ(found.losses[0], std::log(2.f));
    EXPECT_FLOAT_EQ(found.dlogits[0][3].item<float>(), -0.5f);
    EXPECT_FLOAT_EQ(found.dlogits[0][2000].item<float>(), 0.5f);
    EXPECT_EQ(found.dlogits.count_nonzero().item<int64_t>(), 2);

    for (float fault : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
      at::Tensor bad = random_normal({{1, 2048}}, 2);
      bad[0][1025] = fault;
      EXPECT_TRUE(std::isnan(rows_of(bad, {3}, launcher).losses[0])) << fault;
    }
    at::Tensor nothing = at::full({1, 2048}, -kInfinity, at::kFloat);
    EXPECT_TRUE(std::isnan(rows_of(nothing, {3}, launcher).losses[0]));
  }
}

// --- embeddings

// Rows are added to a weight's row in the tokens' order, as on the CPU: the same bits.
TEST(EmbeddingGrad, IsTheCpusToTheBit) {
  constexpr int64_t kTokens = 333, kWidth = 24;
  for (int64_t vocabulary : {1, 2, 50, 5000})
    for (Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
      Trace t("embedding");
      t.output(embedding(t.batch("ids", {{1, kTokens}, Dtype::int32}),
                         t.weight("w", {{vocabulary, kWidth}, dtype}, {})));
      Program program = t.finish();
      at::Tensor ids = at::randint(0, vocabulary, {1, kTokens}, at::kInt);
      Tensors inputs{{"ids", ids}, {"w", random_normal({{vocabulary, kWidth}, dtype}, 1)}};
      Tensors cotangents = random_cotangents(program, 2);
      Tensors sums{{"w", random_normal({{vocabulary, kWidth}}, 3)}};
      for (const std::vector<ValueId>& accumulate :
           {std::vector<ValueId>{}, program.inputs_from(Source::weight)}) {
        BackwardProgram backward = differentiate(program, accumulate);
        auto gradient = [&](const KernelChoice& kernels) {
          return run_step(program, backward, inputs, cotangents, sums, kernels, Checks::all)
              .gradients.at("w");
        };
        at::Tensor expected = gradient(Target::cpu);
        for (Emulated emulated : kEmulated) EXPECT_TRUE(equal_bits(gradient(emulated), expected));
      }
    }
}

// --- addresses

// Kernels read whole vectors only where they lie as vectors do. The same numbers, an element
// further on, must give the same results; sanitizers see what is read where.
TEST(CustomKernels, TakeOperandsThatAreNotAligned) {
  std::vector<OpCase> cases;
  for (OpCase& op_case : large_cases())
    if (op_case.plain) cases.push_back(std::move(op_case));
  int moved = 0;
  for (const OpCase& op_case : cases) {
    if (op_case.name.starts_with("attention") || op_case.name.starts_with("linear")) continue;
    for (Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
      if (dtype == Dtype::bfloat16 && !multiplies_bfloat16()) continue;
      Program program = op_case.trace(dtype);
      Tensors values = run_program(program, random_inputs(program, op_case, 1), Target::cpu);
      for (const Node& node : program.nodes) {
        const Kernel kernel = emulated_kernel(*node.op, Emulated::by_32);
        if (!kernel.run || kernel.workspace_bytes) continue;
        auto run = [&](int64_t offset) {
          std::vector<at::Tensor> memory;
          std::vector<Ref> in, out;
          auto place = [&](ValueId id, bool is_input) {
            const Value& value = program[id];
            const int64_t count = value.type.shape.count();
            at::Tensor room = at::full({count + offset}, 0, scalar_type(value.type.dtype));
            if (is_input) room.narrow(0, offset, count).copy_(values.at(value.name).view({-1}));
            memory.push_back(room.narrow(0, offset, count));
            return Ref{memory.back().mutable_data_ptr(), value.type};
          };
          for (ValueId id : node.in) in.push_back(place(id, true));
          for (ValueId id : node.out) out.push_back(place(id, false));
          kernel.run({.target = Target::reference,
                      .attrs = node.attrs,
                      .in = in,
                      .out = out,
                      .workspace = {}});
          return std::vector<at::Tensor>(memory.begin() + std::ssize(in), memory.end());
        };
        const std::vector<at::Tensor> expected = run(0), found = run(1);
        for (size_t i = 0; i < expected.size(); ++i)
          EXPECT_LT(difference(found[i], expected[i]), dtype == Dtype::float32 ? 1e-6 : 1. / 128)
              << text(program, node);
        ++moved;
      }
    }
  }
  EXPECT_GT(moved, multiplies_bfloat16() ? 50 : 25);
}

// --- attention's mask

TEST(AttentionMask, HidesWhatTheRuleDoesAndWhatIsNoKey) {
  constexpr int64_t kRows = 2;
  for (int threads : {32, 256})
    for (int64_t length : {1, 7, 8, 21}) {
      const int64_t width = attention_mask_width(length);
      std::vector<int32_t> segments, blocks;
      for (int64_t i = 0; i < kRows * length; ++i) {
        segments.push_back(static_cast<int32_t>((i + i / length) / 3));
        blocks.push_back(static_cast<int32_t>((i % length + i / length) / 5));
      }
      for (const KeyRule& rule :
           {KeyRule{AttentionMask::full, 0, segments.data(), nullptr},
            KeyRule{AttentionMask::blocks, 2, nullptr, blocks.data()},
            KeyRule{AttentionMask::blocks, 2, segments.data(), blocks.data()}}) {
        std::vector<bfloat16> mask(static_cast<size_t>(kRows * length * width));
        launch(
            AttentionMaskArguments{
                .rows = kRows, .length = length, .rule = rule, .mask = mask.data()},
            SerialLauncher(threads));
        for (int64_t row = 0; row < kRows; ++row)
          for (int64_t query = 0; query < length; ++query)
            for (int64_t key = 0; key < width; ++key) {
              auto same = [&](const std::vector<int32_t>& ids) {
                return ids[row * length + query] == ids[row * length + key];
              };
              bool is_seen = key < length;
              if (is_seen && rule.blocks)
                is_seen = (key <= query && query - key < 2) ||
                          (same(blocks) && blocks[row * length + query] != 0);
              if (is_seen && rule.segments) is_seen = same(segments);
              EXPECT_EQ(mask[(row * length + query) * width + key].bits,
                        to_bfloat16(is_seen ? 0.f : kHiddenScore).bits)
                  << length << ": " << query << ", " << key;
            }
      }
    }
}

}  // namespace
}  // namespace longshore::models
