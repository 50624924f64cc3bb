#include "trainer/step/optimizer.h"

#include <algorithm>

#include "base/philox.h"
#include "models/ir/trace.h"
#include "models/ops/kernels/block8.h"

namespace longshore::trainer {
namespace {

static_assert(offload::kScaleBlock == models::kBlock8);

using models::Dtype;
using models::Program;
using models::Trace;
using models::Trainable;
using models::Var;
using offload::Category;
using offload::Copy;
using offload::Lane;
using offload::MemoryKind;
using offload::Operand;
using offload::PlanBuilder;

// Where the values of one update lie; scales and `compute` only where a slab has them.
struct Operands {
  Operand gradient, weight, m, m_scale, v, v_scale, compute;
  Operand learning_rate, correction_1, correction_2, clip, step;
};

// The program, and its operands by value; each result lies where its input does.
Program update_program(const models::AdamW& adamw, const models::Rounding& rounding,
                       const Operands& at, PlanBuilder::Bindings& bindings) {
  Trace t("adamw");
  auto bind = [&](Var var, const Operand& operand) {
    bindings.resize(std::max<size_t>(bindings.size(), var.id.index + 1));
    bindings[var.id.index] = operand;
    return var;
  };
  auto input = [&](const char* name, const Operand& operand) {
    return operand ? bind(t.input(name, operand.type), operand) : Var{};
  };
  auto scalar = [&](const char* name, const Operand& operand) {
    return operand ? bind(t.scalar(name, operand.type.dtype), operand) : Var{};
  };
  Var gradient = input("gradient", at.gradient);
  models::AdamWState state{input("weight", at.weight), input("first_moment", at.m),
                           input("second_moment", at.v), input("first_scale", at.m_scale),
                           input("second_scale", at.v_scale)};
  models::AdamWScalars scalars{
      scalar(kLearningRate, at.learning_rate), scalar(kCorrection1, at.correction_1),
      scalar(kCorrection2, at.correction_2), scalar("clip", at.clip), scalar(kStep, at.step)};
  Dtype compute = at.compute ? at.compute.type.dtype : at.weight.type.dtype;
  std::vector<Var> results = models::adamw(adamw, compute, gradient, state, scalars, rounding);
  size_t i = 0;
  for (const Operand& place : {at.weight, at.m, at.m_scale, at.v, at.v_scale, at.compute})
    if (place) {
      bind(results[i], place);
      t.output(results[i++]);
    }
  return t.finish();
}

// The type of a copy's part that belongs to a range.
models::Type type_of(const offload::Slab& slab, Copy copy, const offload::DecayRange& range) {
  return {{offload::elements(copy, range.count)}, dtype(slab, copy)};
}

// Small enough to be spread over a layer, large enough to be worth a kernel and a copy.
int64_t chunk_of(const offload::Slab& slab, int64_t most) {
  constexpr int64_t kParts = 16, kLeast = int64_t{1} << 20;
  int64_t part = (slab.count / kParts + offload::kScaleBlock) / offload::kScaleBlock;
  return std::min(most, std::max(kLeast, part * offload::kScaleBlock));
}

}  // namespace

MemoryKind OptimizerOptions::kind() const {
  return lane == Lane::host_compute ? MemoryKind::pinned_host : MemoryKind::device;
}

Update::Update(const OptimizerOptions& options, offload::PassOperands& operands,
               PlanBuilder& builder, const Operand& clip)
    : options_(options),
      layout_(operands.layout()),
      operands_(operands),
      builder_(builder),
      clip_(clip) {}

int Update::add(int slab) {
  size_t before = queue_.size();
  const offload::Slab& s = layout_.slabs[slab];
  const std::vector<offload::DecayRange> ranges = s.decay_ranges();
  // A shard that only fills its slab up has states all the same, which nothing updates.
  if (ranges.empty())
    for (Copy copy : offload::kCopies)
      if (copy != Copy::compute && copy != Copy::gradient && s.has(copy))
        builder_.argument(argument_name(s, copy), bytes(s, copy), layout_.homes.of(copy),
                          category(copy));
  int64_t chunk = chunk_of(s, options_.chunk);
  for (const offload::DecayRange& range : ranges)
    for (int64_t begin = 0; begin < range.count; begin += chunk) {
      int64_t count = std::min(chunk, range.count - begin);
      queue_.push_back({slab, {range.offset + begin, count, range.decay}});
    }
  return static_cast<int>(queue_.size() - before);
}

void Update::run(int chunks) {
  for (int i = 0; i < chunks; ++i) {
    Chunk chunk = fetched_ ? *fetched_ : fetch_next();
    fetched_.reset();
    if (!queue_.empty()) fetched_ = fetch_next();
    update(chunk);
  }
}

void Update::gather(int slab) {
  if (layout_.shard_optimizer_over_data)
    operands_.gather_updated(slab, {"weights", slab, offload::Phase::optimizer});
}

bool Update::is_away(Copy copy) const {
  return options_.lane == Lane::host_compute && layout_.homes.of(copy) == MemoryKind::device;
}

// Where the lane works: as it lies there, through a window, or in a copy that the lane can reach.
Operand Update::reach(const Chunk& chunk, Copy copy) {
  const offload::Slab& s = layout_.slabs[chunk.slab];
  if (!s.has(copy)) return {};
  models::Type type = type_of(s, copy, chunk.range);
  int64_t offset = offload::elements(copy, chunk.range.offset);
  if (options_.lane == Lane::compute) return operands_.range(chunk.slab, copy, offset, type);
  if (!is_away(copy)) return operands_.host_range(chunk.slab, copy, offset, type);
  return builder_.temporary(argument_name(s, copy), type, MemoryKind::pinned_host,
                            Category::staging);
}

Update::Chunk Update::fetch_next() {
  auto [slab, range] = queue_.front();
  queue_.pop_front();
  Chunk chunk{slab, range, {"optimizer", chunks_++, offload::Phase::optimizer}, {}, {}};
  const offload::Slab& s = layout_.slabs[slab];
  chunk.gradient = reach(chunk, Copy::gradient);
  chunk.compute = reach(chunk, Copy::compute);
  auto bring = [&](Copy copy, const Operand& here) {
    if (is_away(copy))
      builder_.move(Lane::device_to_host,
                    operands_.range(slab, copy, range.offset, type_of(s, copy, range)), here,
                    chunk.scope);
  };
  bring(Copy::gradient, chunk.gradient);
  if (!s.has(Copy::master)) bring(Copy::compute, chunk.compute);
  return chunk;
}

void Update::update(const Chunk& chunk) {
  const offload::Slab& s = layout_.slabs[chunk.slab];
  const offload::DecayRange& range = chunk.range;
  auto scalar = [&](const char* name, Dtype dtype = Dtype::float32) {
    return options_.lane == Lane::host_compute ? operands_.host_scalar(name, dtype)
                                               : operands_.scalar(name, dtype);
  };
  bool has_master = s.has(Copy::master);
  Operands at{.gradient = chunk.gradient,
              .weight = has_master ? reach(chunk, Copy::master) : chunk.compute,
              .m = reach(chunk, Copy::first_moment),
              .m_scale = reach(chunk, Copy::first_scale),
              .v = reach(chunk, Copy::second_moment),
              .v_scale = reach(chunk, Copy::second_scale),
              .compute = has_master ? chunk.compute : Operand{},
              .learning_rate = scalar(kLearningRate),
              .correction_1 = scalar(kCorrection1),
              .correction_2 = scalar(kCorrection2),
              .clip = clip_,
              .step = {}};
  if (s.weight_dtype != Dtype::float32 || s.moment_dtype != Dtype::float32)
    at.step = scalar(kStep, Dtype::int32);

  models::AdamW adamw = options_.adamw;
  if (range.decay == models::Decay::no) adamw.weight_decay = 0;
  PlanBuilder::Bindings bindings;
  Program program =
      update_program(adamw, {options_.seed, random_sequence(s.name), range.offset}, at, bindings);
  builder_.run(program, bindings, chunk.scope, options_.lane);
  if (!is_away(Copy::compute)) return;
  // What the chunk before sends may be on its way still: this one's takes other memory.
  if (sent_) builder_.hold(sent_);
  builder_.move(
      Lane::host_to_device, chunk.compute,
      operands_.range(chunk.slab, Copy::compute, range.offset, type_of(s, Copy::compute, range)),
      chunk.scope);
  sent_ = chunk.compute;
}

}  // namespace longshore::trainer
