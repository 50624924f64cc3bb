#include "trainer/optimizer.h"

#include <algorithm>

#include "models/trace.h"

namespace longshore::trainer {
namespace {

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

const models::Type kScalar{};

Program square_sum_program(int64_t count) {
  Trace t("square_sum");
  t.output(models::square_sum(t.input("gradient", {{count}, Dtype::float32})));
  return t.finish();
}

Program clip_program(double threshold, int64_t count) {
  Trace t("clip");
  models::Clip clip = models::clip(t.input("square_sums", {{count}, Dtype::float64}), threshold);
  t.output(clip.factor);
  t.output(clip.norm);
  return t.finish();
}

// Values in the order: gradient, master, first and second moment, four scalars, results.
Program update_program(const models::AdamW& adamw, int64_t count, Dtype compute) {
  Trace t("adamw");
  models::Type range{{count}, Dtype::float32};
  Var gradient = t.input("gradient", range);
  models::AdamWState state{t.input("master", range), t.input("first_moment", range),
                           t.input("second_moment", range)};
  models::AdamWScalars scalars{t.scalar(kLearningRate), t.scalar(kCorrection1),
                               t.scalar(kCorrection2), t.scalar("clip")};
  for (Var result : models::adamw(adamw, compute, gradient, state, scalars)) t.output(result);
  return t.finish();
}

}  // namespace

Update::Update(const OptimizerOptions& options, const offload::ParameterLayout& layout,
               offload::Scan& scan, PlanBuilder& builder)
    : options_(options), layout_(layout), scan_(scan), builder_(builder) {
  for (int slab = 0; slab < static_cast<int>(layout.slabs.size()); ++slab) {
    const offload::Slab& s = layout.slabs[slab];
    if (s.trainable == Trainable::no) continue;
    for (int p = 0; p < static_cast<int>(s.parameters.size()); ++p)
      index_.try_emplace({slab, p}, static_cast<int>(index_.size()));
  }
  square_sums_ = builder.temporary(
      "square_sums", models::Type{{static_cast<int64_t>(index_.size())}, Dtype::float64},
      MemoryKind::device, Category::batch);
}

void Update::gradient_made(const offload::ParameterLayout::Location& location,
                           const offload::Place& place) {
  const offload::Parameter& parameter = layout_.parameter(location);
  int64_t count = parameter.type.shape.count();
  int index = index_.at({location.slab, location.parameter});
  Operand sum{
      square_sums_.buffer, index * models::size_bytes(Dtype::float64), {{}, Dtype::float64}};
  PlanBuilder::Bindings bindings{
      scan_.range(location.slab, Copy::gradient, parameter.offset, {{count}, Dtype::float32}), sum};
  builder_.run(square_sum_program(count), bindings, place);
}

void Update::gradients_made(int slab) {
  if (options_.clipping_threshold > 0)
    ready_.push_back(slab);
  else
    update(slab,
           options_.lane == Lane::compute ? scan_.scalar(kNoClip) : scan_.host_scalar(kNoClip));
}

void Update::finish() {
  offload::Place place{"norm", static_cast<int>(index_.size()), offload::Phase::optimizer};
  Operand norm{
      builder_.argument(kGradientNorm, kScalar.bytes(), MemoryKind::device, Category::batch), 0,
      kScalar};
  PlanBuilder::Bindings clip{square_sums_, {}, norm};
  builder_.run(clip_program(options_.clipping_threshold, square_sums_.type.shape.count()), clip,
               place);
  if (ready_.empty()) return;
  Operand factor = clip[1];
  if (options_.lane == Lane::host_compute) {
    factor = builder_.temporary("clip_factor", kScalar, MemoryKind::pinned_host, Category::batch);
    builder_.move(Lane::device_to_host, clip[1], factor, place);
  }
  for (int slab : ready_) update(slab, factor);
}

void Update::update(int slab, const Operand& clip) {
  const offload::Homes& homes = layout_.homes;
  bool in_one = homes.optimizer == MemoryKind::device && homes.parameters == MemoryKind::device &&
                homes.gradients == MemoryKind::device;
  for (const offload::Run& run : layout_.slabs[slab].runs()) {
    int64_t chunk = in_one ? run.count : options_.chunk;
    for (int64_t begin = 0; begin < run.count; begin += chunk)
      update_range(slab, {run.offset + begin, std::min(chunk, run.count - begin), run.decay}, clip);
  }
}

void Update::update_range(int slab, const offload::Run& run, const Operand& clip) {
  const offload::Slab& s = layout_.slabs[slab];
  offload::Place place{"optimizer", chunks_++, offload::Phase::optimizer};
  bool on_host = options_.lane == Lane::host_compute;
  auto type = [&](Copy copy) {
    return models::Type{{offload::elements(copy, run.count)}, dtype(s, copy)};
  };
  // Where the lane works: as it lies there, through a window, or in a copy that the lane can reach.
  auto reach = [&](Copy copy) {
    int64_t offset = offload::elements(copy, run.offset);
    if (!on_host) return scan_.range(slab, copy, offset, type(copy));
    if (layout_.homes.of(copy) != MemoryKind::device)
      return scan_.host_range(slab, copy, offset, type(copy));
    return builder_.temporary(argument_name(s, copy), type(copy), MemoryKind::pinned_host,
                              Category::staging);
  };
  auto scalar = [&](const char* name) {
    return on_host ? scan_.host_scalar(name) : scan_.scalar(name);
  };

  models::AdamW adamw = options_.adamw;
  if (run.decay == models::Decay::no) adamw.weight_decay = 0;
  bool has_master = s.has(Copy::master);
  Operand gradient = reach(Copy::gradient), compute = reach(Copy::compute);
  Operand weight = has_master ? reach(Copy::master) : compute;
  Operand m = reach(Copy::first_moment), v = reach(Copy::second_moment);
  auto bring = [&](Copy copy, const Operand& copied, Lane lane) {
    if (!on_host || layout_.homes.of(copy) != MemoryKind::device) return;
    Operand at_home = scan_.range(slab, copy, run.offset, type(copy));
    bool goes = lane == Lane::device_to_host;
    builder_.move(lane, goes ? at_home : copied, goes ? copied : at_home, place);
  };
  bring(Copy::gradient, gradient, Lane::device_to_host);
  if (!has_master) bring(Copy::compute, compute, Lane::device_to_host);

  // In place: each result lies where its input does.
  PlanBuilder::Bindings bindings{
      gradient, weight, m, v, scalar(kLearningRate), scalar(kCorrection1), scalar(kCorrection2),
      clip,     weight, m, v};
  if (has_master) bindings.push_back(compute);
  builder_.run(update_program(adamw, run.count, dtype(s, Copy::compute)), bindings, place,
               options_.lane);
  bring(Copy::compute, compute, Lane::host_to_device);
}

}  // namespace longshore::trainer
