// What attention's options mean, beyond the op's cases: which keys count, in which tiles, and what
// the options cost. Shapes as in longshore/models/ops/attention/attention.h.
#include "longshore/models/ops/attention/attention.h"

#include <ATen/ops/arange.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/models/ops/attention/attention_kernels.h"
#include "longshore/models/ops/attention/attention_sinks_body.h"
#include "longshore/models/ops/attention/attention_tiles.h"
#include "longshore/models/ops/kernels/simd.h"
#include "tests/models/autograd.h"
#include "tests/models/cpu_dtypes.h"
#include "tests/models/harness.h"
#include "tests/models/ops/attention.h"
#include "tests/models/plain.h"
#include "tests/models/random_inputs.h"
#include "tests/models/serial_group.h"

namespace longshore::models {
namespace {

constexpr uint64_t kInputs = 800, kCotangents = 900;

// Attention's inputs, outputs and gradients by name; the log-sum-exp too.
struct Result {
  Tensors inputs, values, gradients;
};

Result run(const AttentionShape& shape, Dtype dtype, const Tensors& inputs,
           const Tensors& cotangents, Target target = Target::cpu) {
  Program program = attention_case(shape).trace(dtype);
  Step step = run_step(program, differentiate(program), inputs, cotangents, {}, target);
  Result result{inputs, {}, {}};
  for (const char* name : {"attention", "attention.1"}) result.values[name] = step.values.at(name);
  result.gradients = step.gradients;
  EXPECT_EQ(result.gradients.size(), shape.has_sinks ? 4 : 3);
  return result;
}

Tensors inputs_of(const AttentionShape& shape, Dtype dtype) {
  OpCase op_case = attention_case(shape);
  return random_inputs(op_case.trace(dtype), op_case, kInputs);
}

Tensors cotangents_of(const AttentionShape& shape, Dtype dtype) {
  return random_cotangents(attention_case(shape).trace(dtype), kCotangents);
}

Result run(const AttentionShape& shape, Dtype dtype = Dtype::float32) {
  return run(shape, dtype, inputs_of(shape, dtype), cotangents_of(shape, dtype));
}

void expect_equal_bits(const Result& found, const Result& expected) {
  for (const auto& [name, value] : expected.values)
    EXPECT_TRUE(equal_bits(found.values.at(name), value)) << name;
  for (const auto& [name, gradient] : expected.gradients)
    EXPECT_TRUE(equal_bits(found.gradients.at(name), gradient)) << name;
}

double largest_difference(const Result& found, const Result& expected) {
  double largest = 0;
  for (const auto& [name, value] : expected.values)
    largest = std::max(largest, difference(found.values.at(name), value));
  for (const auto& [name, gradient] : expected.gradients)
    largest = std::max(largest, difference(found.gradients.at(name), gradient));
  return largest;
}

// --- options that hide or change nothing

TEST(Attention, AWindowAsLongAsTheRowHidesNothing) {
  for (Dtype dtype : cpu_dtypes()) {
    const AttentionShape all{1, 300, 4, 2, {.head_dim = 16}};
    Result expected = run(all, dtype);
    for (int64_t window : {300, 301, 100000}) {
      AttentionShape windowed = all;
      windowed.options.window = window;
      expect_equal_bits(run(windowed, dtype), expected);
    }
    AttentionShape shorter = all;
    shorter.options.window = 299;
    EXPECT_FALSE(
        equal_bits(run(shorter, dtype).values.at("attention"), expected.values.at("attention")));
  }
}

TEST(Attention, OneSegmentHidesNothing) {
  for (Dtype dtype : cpu_dtypes()) {
    AttentionShape shape{2, 300, 4, 2, {.head_dim = 16}};
    Result expected = run(shape, dtype);
    shape.segments = segments_of(2, 300, {300});
    expect_equal_bits(run(shape, dtype), expected);
  }
}

TEST(Attention, AScaleOfTheDefaultsValueChangesNothing) {
  for (int64_t head_dim : {16, 96}) {
    const AttentionShape shape{1, 40, 2, 1, {.head_dim = head_dim}};
    AttentionShape scaled = shape;
    scaled.options.scale = 1 / std::sqrt(static_cast<double>(head_dim));
    expect_equal_bits(run(scaled), run(shape));
  }
}

TEST(Attention, AHugeSoftCapHardlyChangesAnything) {
  const AttentionShape shape{1, 200, 4, 2, {.head_dim = 16}};
  AttentionShape capped = shape;
  capped.options.soft_cap = 1e4;
  EXPECT_LT(largest_difference(run(capped), run(shape)), 1e-5);
  capped.options.soft_cap = 5;
  EXPECT_GT(largest_difference(run(capped), run(shape)), 1e-2);
}

// --- which keys count

// Queries, keys and values [begin, end) of a row.
Tensors part_of(const Tensors& values, int64_t begin, int64_t end) {
  Tensors part;
  for (const auto& [name, value] : values)
    part[name] = value.narrow(1, begin, end - begin).contiguous();
  return part;
}

TEST(Attention, SegmentsAreAsIfRunApart) {
  const std::vector<int64_t> lengths{1, 130, 40, 256};
  AttentionShape shape{1, 500, 4, 2, {.head_dim = 16, .window = 100}, segments_of(1, 500, lengths)};
  Tensors inputs = inputs_of(shape, Dtype::float32);
  Tensors cotangents = cotangents_of(shape, Dtype::float32);
  Result together = run(shape, Dtype::float32, inputs, cotangents);
  inputs.erase("segments");
  std::vector<int64_t> ends{0};
  for (int64_t length : lengths) ends.push_back(ends.back() + length);
  ends.push_back(500);
  for (size_t i = 1; i < ends.size(); ++i) {
    int64_t begin = ends[i - 1], end = ends[i];
    Result apart = run({1, end - begin, 4, 2, shape.options}, Dtype::float32,
                       part_of(inputs, begin, end), part_of(cotangents, begin, end));
    for (const auto& [name, gradient] : apart.gradients)
      EXPECT_LT(difference(together.gradients.at(name).narrow(1, begin, end - begin), gradient),
                1e-5)
          << name << " of segment " << i;
    EXPECT_LT(difference(together.values.at("attention").narrow(1, begin, end - begin),
                         apart.values.at("attention")),
              2e-6)
        << "segment " << i;
    EXPECT_LT(difference(together.values.at("attention.1").narrow(2, begin, end - begin),
                         apart.values.at("attention.1")),
              2e-6)
        << "segment " << i;
  }
}

AttentionShape everything(int64_t b, int64_t t) {
  return {b,
          t,
          4,
          2,
          {.head_dim = 16, .window = 90, .soft_cap = 4},
          segments_of(b, t, {t / 3 + 1, t / 4})};
}

AttentionShape with_sinks(AttentionShape shape) {
  shape.has_sinks = true;
  return shape;
}

// Changes position `at` of each row of x [B,T,...].
at::Tensor changed(const at::Tensor& x, int64_t at) {
  at::Tensor result = x.clone();
  result.select(1, at).mul_(-100).add_(3);
  return result;
}

// Whether x and y [1,T,...] have the same bits at each position.
std::vector<bool> equal_positions(const at::Tensor& x, const at::Tensor& y) {
  std::vector<bool> equal;
  for (int64_t i = 0; i < x.size(1); ++i)
    equal.push_back(equal_bits(x.select(1, i), y.select(1, i)));
  return equal;
}

// As everything(), with a block that the window would divide, and one of two segments.
AttentionShape everything_and_blocks(int64_t b, int64_t t) {
  AttentionShape shape = everything(b, t);
  shape.options.mask = AttentionMask::blocks;
  shape.blocks = blocks_of(b, t, {{10, t / 3}, {t / 3, t / 2 + 100}});
  return shape;
}

class AttentionKeys : public testing::TestWithParam<AttentionShape> {};

TEST_P(AttentionKeys, CountForTheQueriesThatSeeThemAndNoOthers) {
  const AttentionShape& shape = GetParam();
  at::Tensor visible = plain::visible_keys(400, shape.options, shape.segments, shape.blocks)[0];
  for (Dtype dtype : cpu_dtypes()) {
    Tensors cotangents = cotangents_of(shape, dtype);
    Result before = run(shape, dtype, inputs_of(shape, dtype), cotangents);
    for (int64_t key : {0, 64, 127, 128, 133, 134, 233, 234, 300, 399}) {
      Tensors inputs = before.inputs;
      for (const char* name : {"k", "v"}) inputs[name] = changed(inputs[name], key);
      Result after = run(shape, dtype, inputs, cotangents);
      std::vector<bool> context =
          equal_positions(before.values.at("attention"), after.values.at("attention"));
      std::vector<bool> dq = equal_positions(before.gradients.at("q"), after.gradients.at("q"));
      for (int64_t query = 0; query < 400; ++query) {
        bool sees = visible[query][key].item<bool>();
        EXPECT_EQ(context[query], !sees) << "query " << query << ", key " << key;
        EXPECT_TRUE(sees || dq[query]) << "query " << query << ", key " << key;
      }
    }
  }
}

TEST_P(AttentionKeys, GetGradientsOfTheQueriesThatSeeThemAndNoOthers) {
  const AttentionShape& shape = GetParam();
  at::Tensor visible = plain::visible_keys(400, shape.options, shape.segments, shape.blocks)[0];
  for (Dtype dtype : cpu_dtypes()) {
    Tensors inputs = inputs_of(shape, dtype);
    Result before = run(shape, dtype, inputs, cotangents_of(shape, dtype));
    for (int64_t query : {0, 127, 128, 150, 234, 300, 399}) {
      Tensors cotangents = cotangents_of(shape, dtype);
      cotangents["attention"] = changed(cotangents["attention"], query);
      Result after = run(shape, dtype, inputs, cotangents);
      std::vector<bool> dk = equal_positions(before.gradients.at("k"), after.gradients.at("k"));
      std::vector<bool> dv = equal_positions(before.gradients.at("v"), after.gradients.at("v"));
      bool reaches_all = true, reaches_some = false;
      for (int64_t key = 0; key < 400; ++key) {
        bool sees = visible[query][key].item<bool>();
        EXPECT_TRUE(sees || (dk[key] && dv[key])) << "query " << query << ", key " << key;
        reaches_all = reaches_all && (!sees || !dv[key]);
        reaches_some = reaches_some || (sees && !dv[key]);
      }
      // A small probability may be lost in a sum of bfloat16.
      EXPECT_TRUE(dtype == Dtype::float32 ? reaches_some && reaches_all : reaches_some)
          << "query " << query;
    }
  }
}

std::string name_of(AttentionMask mask) {
  return mask == AttentionMask::causal ? "causal" : mask == AttentionMask::full ? "full" : "blocks";
}

INSTANTIATE_TEST_SUITE_P(Masks, AttentionKeys,
                         testing::Values(everything(1, 400), everything_and_blocks(1, 400),
                                         AttentionShape{
                                             1,
                                             400,
                                             4,
                                             2,
                                             {.head_dim = 16, .mask = AttentionMask::full},
                                             segments_of(1, 400, {134, 100})}),
                         [](const auto& info) { return name_of(info.param.options.mask); });

TEST(Attention, ABlockOfOneAndNoneHideAndShowNothing) {
  for (Dtype dtype : cpu_dtypes()) {
    const AttentionShape causal = everything(2, 300);
    Result expected = run(causal, dtype);
    AttentionShape shape = causal;
    shape.options.mask = AttentionMask::blocks;
    for (const auto& blocks : {blocks_of(2, 300, {}), blocks_of(2, 300, {{7, 8}})}) {
      shape.blocks = blocks;
      expect_equal_bits(run(shape, dtype), expected);
    }
  }
}

TEST(Attention, ABlockOfTheWholeRowIsAFullMask) {
  for (Dtype dtype : cpu_dtypes()) {
    AttentionShape full{1, 300, 4, 2, {.head_dim = 16, .mask = AttentionMask::full}};
    AttentionShape block = full;
    block.options.mask = AttentionMask::blocks;
    block.options.window = 20;
    block.blocks = blocks_of(1, 300, {{0, 300}});
    expect_equal_bits(run(block, dtype), run(full, dtype));
  }
}

TEST(Attention, ResultsDoNotDependOnTheNumberOfThreads) {
  const int threads = omp_get_max_threads();
  const AttentionShape one_head{1, 300, 1, 1, {.head_dim = 16}};
  const AttentionShape one_key_head{1, 300, 2, 1, {.head_dim = 16}};
  for (const AttentionShape& shape : {everything(2, 300), everything_and_blocks(2, 300), one_head,
                                      one_key_head, with_sinks(everything(2, 300))})
    for (Dtype dtype : cpu_dtypes()) {
      omp_set_num_threads(1);
      Result one = run(shape, dtype);
      for (int count : {2, 3}) {
        omp_set_num_threads(count);
        expect_equal_bits(run(shape, dtype), one);
      }
      omp_set_num_threads(threads);
    }
}

// --- sinks

constexpr Target kKernels[]{Target::cpu, Target::reference};

TEST(AttentionSinks, OfNoWeightChangeNothing) {
  const AttentionShape shape = everything(2, 300);
  for (Target target : kKernels)
    for (Dtype dtype : cpu_dtypes()) {
      Tensors inputs = inputs_of(with_sinks(shape), dtype),
              cotangents = cotangents_of(shape, dtype);
      inputs.at("sinks").fill_(-1e5);
      Result found = run(with_sinks(shape), dtype, inputs, cotangents, target);
      EXPECT_EQ(found.gradients.at("sinks").count_nonzero().item<int64_t>(), 0);
      found.gradients.erase("sinks");
      expect_equal_bits(found, run(shape, dtype, inputs, cotangents, target));
    }
}

TEST(AttentionSinks, OfAllWeightLeaveNothing) {
  const AttentionShape shape = with_sinks(everything(2, 300));
  for (Target target : kKernels)
    for (Dtype dtype : cpu_dtypes()) {
      Tensors inputs = inputs_of(shape, dtype);
      inputs.at("sinks").fill_(1e4);
      const Result found = run(shape, dtype, inputs, cotangents_of(shape, dtype), target);
      EXPECT_EQ(found.values.at("attention").count_nonzero().item<int64_t>(), 0);
      for (const auto& [name, gradient] : found.gradients)
        EXPECT_EQ(gradient.count_nonzero().item<int64_t>(), 0) << name;
    }
}

// Kernels that know no sinks, and then what puts them into their results: our own kernel, and ATen.
TEST(AttentionSinks, AreAddedToResultsWithout) {
  for (int64_t head_dim : {16, 6}) {
    const AttentionShape shape{2, 37, 6, 2, {.head_dim = head_dim}};
    for (Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
      const Tensors inputs = inputs_of(with_sinks(shape), dtype);
      auto results = [&](const AttentionShape& of) {
        const Tensors all = run_program(attention_case(of).trace(dtype), inputs, Target::reference);
        return std::vector{all.at("attention"), all.at("attention.1")};
      };
      const std::vector<at::Tensor> expected = results(with_sinks(shape));
      auto expect_added = [&](void (*add)(const KernelCall&)) {
        std::vector<at::Tensor> found = results(shape);
        std::vector<Ref> in(4), out;
        at::Tensor sinks = inputs.at("sinks");
        in[3] = {sinks.data_ptr(), type_of(sinks)};
        for (at::Tensor& result : found) out.push_back({result.data_ptr(), type_of(result)});
        add({.target = Target::reference, .attrs = {}, .in = in, .out = out, .workspace = {}});
        EXPECT_LT(difference(found[0], expected[0]), dtype == Dtype::float32 ? 1e-6 : 1. / 128);
        EXPECT_LT(difference(found[1], expected[1]), 1e-6);
      };
      expect_added(add_sinks_composed);
      expect_added([](const KernelCall& call) {
        launch(attention_sinks_arguments(call), SerialLauncher(32));
      });
    }
  }
}

// Only gradients that are wanted are computed.
TEST(AttentionSinks, HaveAGradientWhereTheyTrain) {
  auto nodes = [](Trainable sinks, bool has_inputs) {
    Program program =
        attention_case(with_sinks({1, 4, 2, 1, {.head_dim = 8}})).trace(Dtype::float32);
    Value& weight = program[program.find("sinks")];
    weight.weight->trainable = sinks;
    weight.needs_gradient = sinks == Trainable::yes;
    set_input_gradients(program,
                        has_inputs ? program.inputs_from(Source::input) : std::vector<ValueId>{});
    std::vector<std::string> names;
    for (const Node& node : differentiate(program).program.nodes) names.push_back(node.op->name);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(nodes(Trainable::yes, true), (Names{"attention_grad", "attention_sinks_grad"}));
  EXPECT_EQ(nodes(Trainable::no, true), Names{"attention_grad"});
  EXPECT_EQ(nodes(Trainable::yes, false), Names{"attention_sinks_grad"});
}

// --- tiles

AttentionSizes sizes_of(const AttentionShape& shape) {
  AttentionAttrs attrs{shape.options, shape.segments.defined()};
  Type q{{shape.b, shape.t, shape.h * shape.options.head_dim}, Dtype::float32};
  Type k{{shape.b, shape.t, shape.g * shape.options.head_dim}, Dtype::float32};
  return AttentionSizes(attrs, q, k);
}

// Each visible pair of query and key lies in one tile, and each tile has such a pair.
void expect_cover(const at::Tensor& visible, const std::vector<Tile>& tiles, int64_t most_columns) {
  at::Tensor times = visible.to(at::kInt).zero_();
  for (const Tile& tile : tiles) {
    auto part = [&](const at::Tensor& x) {
      return x.narrow(0, tile.row, tile.rows).narrow(1, tile.column, tile.columns);
    };
    EXPECT_LE(tile.columns, most_columns);
    EXPECT_TRUE(part(visible).any().item<bool>())
        << "row " << tile.row << ", column " << tile.column;
    part(times).add_(1);
  }
  EXPECT_TRUE((times.masked_select(visible) == 1).all().item<bool>());
  EXPECT_LE(times.max().item<int>(), 1);
}

TEST(AttentionTiles, HoldEachVisiblePairOnce) {
  std::mt19937 random(7);
  auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % limit); };
  for (int round = 0; round < 80; ++round) {
    int64_t t = 1 + below(1500);
    AttentionShape shape{1, t, 1, 1, {.head_dim = 8}};
    if (below(2)) shape.options.window = 1 + below(t);
    if (below(2)) shape.segments = segments_of(1, t, {below(t / 2 + 1), below(t / 3 + 1)});
    if (const int64_t mask = below(3); mask == 1) {
      shape.options.mask = AttentionMask::full;
      shape.options.window = 0;
    } else if (mask == 2) {
      const int64_t begin = below(t + 1), end = begin + below(t - begin + 1);
      shape.options.mask = AttentionMask::blocks;
      shape.blocks = blocks_of(1, t, {{0, begin / 2}, {begin, end}});
    }
    SCOPED_TRACE(attention_case(shape).name);

    AttentionSizes sizes = sizes_of(shape);
    std::vector<int32_t> first(t), end(t);
    KeyRanges ranges;
    if (sizes.is_by_batch) {
      auto ids = [](const at::Tensor& row) {
        return row.defined() ? row.const_data_ptr<int32_t>() : nullptr;
      };
      ranges = {.first = first.data(), .end = end.data()};
      find_ranges(sizes,
                  {.mask = shape.options.mask,
                   .window = shape.options.window,
                   .segments = ids(shape.segments),
                   .blocks = ids(shape.blocks)},
                  ranges);
    }
    VisibleKeys keys(sizes, ranges);
    at::Tensor visible = plain::visible_keys(t, shape.options, shape.segments, shape.blocks)[0];
    at::Tensor counted = at::arange(t).unsqueeze(0);
    for (int64_t query = 0; query < t; ++query) {
      at::Tensor expected = (counted >= keys.first(query)).logical_and(counted < keys.end(query));
      ASSERT_TRUE(equal_bits(visible[query], expected[0])) << "query " << query;
    }

    std::vector<Tile> forward, backward;
    tiles_by_row(sizes, keys, [&](const Tile& tile, bool, bool) { forward.push_back(tile); });
    tiles_by_column(sizes, keys, [&](const Tile& tile) { backward.push_back(tile); });
    expect_cover(visible, forward, kForwardColumns);
    expect_cover(visible, backward, kBackwardColumns);

    // Shapes that memory was made for.
    auto expect_known = [&](const std::vector<Tile>& tiles, int64_t most_columns) {
      for (const Tile& tile : tiles) {
        bool known = false;
        tile_shapes(sizes, most_columns, [&](const Tile& shape) {
          known = known || (shape.rows == tile.rows && shape.columns == tile.columns);
        });
        EXPECT_TRUE(known) << tile.rows << "x" << tile.columns;
      }
    };
    expect_known(forward, kForwardColumns);
    expect_known(backward, kBackwardColumns);
  }
}

TEST(AttentionTiles, AWindowCostsWhatItShows) {
  constexpr int64_t kLength = 1 << 14, kWindow = 512;
  AttentionSizes sizes = sizes_of({1, kLength, 1, 1, {.head_dim = 8, .window = kWindow}});
  VisibleKeys keys(sizes, {});
  int64_t forward = 0, backward = 0;
  tiles_by_row(sizes, keys, [&](const Tile& t, bool, bool) { forward += t.rows * t.columns; });
  tiles_by_column(sizes, keys, [&](const Tile& t) { backward += t.rows * t.columns; });
  EXPECT_LE(forward, kLength * (kWindow + kTileRows));
  EXPECT_LE(backward, kLength * (kWindow + kTileRows));
}

// --- memory

// Counts what is allocated through c10, and the most that is held at once.
class PeakAllocator : public c10::Allocator {
 public:
  PeakAllocator() : before_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, 1); }
  ~PeakAllocator() override { c10::SetCPUAllocator(before_, 1); }

  c10::DataPtr allocate(size_t bytes) override {
    auto* block = new Block{this, static_cast<int64_t>(bytes), before_->allocate(bytes)};
    int64_t now = held_ += block->bytes;
    for (int64_t peak = peak_; now > peak && !peak_.compare_exchange_weak(peak, now);) {
    }
    return {block->memory.get(), block, give_back, block->memory.device()};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    before_->copy_data(to, from, bytes);
  }
  int64_t peak() const { return peak_; }

 private:
  struct Block {
    PeakAllocator* allocator;
    int64_t bytes;
    c10::DataPtr memory;
  };
  static void give_back(void* pointer) {
    auto* block = static_cast<Block*>(pointer);
    block->allocator->held_ -= block->bytes;
    delete block;
  }

  c10::Allocator* before_;
  std::atomic<int64_t> held_ = 0, peak_ = 0;
};

// The node's declared workspace, and what its reference kernel really takes.
struct WorkspaceUse {
  int64_t declared, taken;
};

WorkspaceUse reference_workspace(const Program& program, const Node& node,
                                 const Tensors& integers) {
  std::vector<at::Tensor> tensors;
  auto refs = [&](std::span<const ValueId> ids) {
    std::vector<Ref> refs;
    for (ValueId id : ids) {
      const Value& value = program[id];
      bool given = integers.contains(value.name);
      tensors.push_back(given ? integers.at(value.name) : random_normal(value.type, 1));
      refs.push_back({tensors.back().data_ptr(), value.type});
    }
    return refs;
  };
  std::vector<Ref> in = refs(node.in), out = refs(node.out);
  int64_t declared = node.op->reference.workspace_bytes(node.attrs, types_of(in), types_of(out));
  PeakAllocator allocator;
  node.op->reference.run(
      {.target = Target::reference, .attrs = node.attrs, .in = in, .out = out, .workspace = {}});
  return {declared, allocator.peak()};
}

TEST(ComposedAttention, DeclaresWhatItTakes) {
  const std::vector<AttentionShape> shapes{
      {1, 700, 2, 1, {.head_dim = 128}},
      {1, 1100, 2, 1, {.head_dim = 32, .window = 400}},
      {1, 1100, 2, 1, {.head_dim = 32, .soft_cap = 5}},
      {1, 1100, 2, 1, {.head_dim = 200}, segments_of(1, 1100, {400})},
      {1, 1100, 2, 1, {.head_dim = 32}, {}, {}, true},
  };
  for (const AttentionShape& shape : shapes)
    for (Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
      OpCase op_case = attention_case(shape);
      Program program = op_case.trace(dtype);
      BackwardProgram backward = differentiate(program);
      for (const Program* one : {&std::as_const(program), &std::as_const(backward.program)}) {
        const Node& node = one->nodes.front();
        WorkspaceUse use = reference_workspace(*one, node, op_case.integers);
        EXPECT_LE(use.taken, use.declared) << text(*one, node);
        EXPECT_GE(use.taken, (use.declared - (1 << 20)) * 99 / 100)
            << text(*one, node) << " declares " << use.declared;
      }
    }
}

int64_t workspace(const Op& op, Target target, int64_t t) {
  AttentionShape shape = everything(1, t);
  shape.options.window = 0;
  Program program = attention_case(shape).trace(Dtype::float32);
  BackwardProgram backward = differentiate(program);
  const Program& of = &op == &attention_op ? program : backward.program;
  const Node& node = of.nodes.front();
  EXPECT_EQ(node.op, &op);
  return op.kernel(target).workspace_bytes(node.attrs, of.types(node.in), of.types(node.out));
}

TEST(Attention, MemoryGrowsWithTheLengthAndNotWithItsSquare) {
  for (const Op* op : {&attention_op, &attention_grad_op})
    for (Target target : {Target::cpu, Target::cuda, Target::reference}) {
      int64_t once = workspace(*op, target, 1 << 13), twice = workspace(*op, target, 1 << 14);
      EXPECT_LE(twice, 2 * once) << op->name;
      EXPECT_GT(twice, once) << op->name;
    }
}

// --- the composition in blocks

TEST(ComposedAttention, InBlocksAgreesWithAutograd) {
  const AttentionShape shape{
      1,  1030, 2, 1, {.head_dim = 6, .window = 530, .soft_cap = 3}, segments_of(1, 1030, {1000}),
      {}, true};
  for (bool has_rows : {true, false}) {
    AttentionShape some = shape;
    some.has_sinks = has_rows;
    if (!has_rows) some.segments.reset();
    OpCase op_case = attention_case(some);
    SCOPED_TRACE(op_case.name);
    Tensors inputs = inputs_of(some, Dtype::float64);
    Tensors cotangents = cotangents_of(some, Dtype::float64);
    Result found = run(some, Dtype::float64, inputs, cotangents, Target::reference);
    Tensors leaves = as_leaves(inputs);
    std::vector<at::Tensor> outputs = op_case.plain(leaves);
    EXPECT_LT(difference(found.values.at("attention"), outputs[0].detach()), 1e-12);
    for (const auto& [name, gradient] : autograd(outputs, {cotangents.at("attention")}, leaves))
      EXPECT_LT(difference(found.gradients.at(name), gradient), 1e-12) << name;
  }
}

TEST(ComposedAttention, NamesWhatNothingServes) {
  AttentionAttrs attrs{{.head_dim = 8, .window = 3}};
  Type q{{1, 4, 8}, Dtype::int32};
  Types in{q, q, q};
  for (auto* bytes : {attention_op.cuda.workspace_bytes, attention_op.reference.workspace_bytes}) {
    try {
      bytes(attrs, in, in);
      FAIL() << "integers are served";
    } catch (const InternalError& error) {
      EXPECT_STREQ(error.what(), "attention: nothing serves i32 with causal, head_dim=8, window=3");
    }
  }
}

// --- the record

std::string printed(const AttentionShape& shape) {
  return attention_op.print(attention_case(shape).trace(Dtype::float32).nodes[0].attrs);
}

TEST(AttentionOp, PrintsWhatIsSet) {
  EXPECT_EQ(printed({1, 4, 1, 1, {.head_dim = 64}}), "causal, head_dim=64");
  EXPECT_EQ(printed({1, 4, 1, 1, {.head_dim = 64, .window = 4096, .soft_cap = 50}}),
            "causal, head_dim=64, window=4096, soft_cap=50");
  EXPECT_EQ(printed({1, 4, 1, 1, {.head_dim = 8, .scale = 0.0625}, segments_of(1, 4, {2})}),
            "causal, head_dim=8, scale=0.0625, segments");
  EXPECT_EQ(printed({1, 4, 1, 1, {.head_dim = 8}, {}, {}, true}), "causal, head_dim=8, sinks");
}

double flops(const Op& op, int64_t window) {
  Type q{{2, 100, 4 * 8}, Dtype::bfloat16}, k{{2, 100, 2 * 8}, Dtype::bfloat16};
  return op.cost(AttentionAttrs{{.head_dim = 8, .window = window}}, Types{q, k, k}, Types{q}).flops;
}

TEST(AttentionOp, CountsWhatAWindowShows) {
  EXPECT_EQ(flops(attention_op, 0), 4 * 2 * 4 * 8 * (100. * 100 / 2));
  EXPECT_EQ(flops(attention_op, 100), flops(attention_op, 0));
  EXPECT_EQ(flops(attention_op, 1000), flops(attention_op, 0));
  EXPECT_EQ(flops(attention_op, 10), 4 * 2 * 4 * 8 * (10. * 100 - 10. * 10 / 2));
  EXPECT_EQ(flops(attention_grad_op, 10), 2.5 * flops(attention_op, 10));
}

TEST(AttentionOp, RefusesWhatDoesNotFit) {
  auto error = [](const AttentionOptions& options, Type segments) -> std::string {
    Trace t("refused");
    Type type{{2, 4, 16}, Dtype::float32};
    Var x = t.input("x", type);
    try {
      attention(x, x, x, options, {.segments = t.batch("segments", segments)});
    } catch (const InternalError& error) {
      return error.what();
    }
    return "";
  };
  const Type segments{{2, 4}, Dtype::int32};
  EXPECT_EQ(error({.head_dim = 8}, segments), "");
  EXPECT_EQ(error({.head_dim = 8}, {{2, 5}, Dtype::int32}),
            "attention: segments is i32[2,5], not i32[2,4]");
  EXPECT_EQ(error({.head_dim = 8}, {{2, 4}, Dtype::float32}),
            "attention: segments is f32[2,4], not i32[2,4]");
  EXPECT_EQ(error({.head_dim = 0}, segments), "attention: head_dim is 0, not positive");
  EXPECT_EQ(error({.head_dim = 8, .window = -1}, segments), "attention: window is -1, below 0");
  EXPECT_NE(error({.head_dim = 8, .soft_cap = -1}, segments), "");
  EXPECT_NE(error({.head_dim = 8, .scale = -1}, segments), "");
  EXPECT_EQ(error({.head_dim = 8, .window = 2, .mask = AttentionMask::full}, segments),
            "attention: a full mask has no window");
  EXPECT_NE(error({.head_dim = 8, .mask = AttentionMask::blocks}, segments), "");
}

TEST(AttentionOp, RefusesSinksThatAreNotItsHeads) {
  auto error = [](Type sinks) -> std::string {
    Trace t("refused");
    Var x = t.input("x", {{2, 4, 16}, Dtype::bfloat16});
    try {
      attention(x, x, x, {.head_dim = 8}, {.sinks = t.weight("sinks", sinks, {})});
    } catch (const InternalError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error({{2}, Dtype::bfloat16}), "");
  EXPECT_EQ(error({{3}, Dtype::bfloat16}), "attention: sinks is bf16[3], not bf16[2]");
  EXPECT_EQ(error({{2}, Dtype::float32}), "attention: sinks is f32[2], not bf16[2]");
}

}  // namespace
}  // namespace longshore::models
