#include "longshore/trainer/step/gradient_norm.h"

#include <algorithm>

#include "longshore/base/error.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/square_sum/square_sum.h"

namespace longshore::trainer {
namespace {

using models::Dtype;
using models::Program;
using models::Trace;
using models::Var;
using offload::Category;
using offload::MemoryKind;
using offload::Operand;
using offload::PlanBuilder;

Program square_sum_program(int64_t count) {
  Trace t("square_sum");
  t.output(models::square_sum(t.input("gradient", {{count}, Dtype::float32})));
  return t.finish();
}

// Of `count` square sums, which may be none of the one that it reads.
Program sum_program(int64_t count) {
  Trace t("sum");
  Var sums = t.input("square_sums", {{std::max<int64_t>(count, 1)}, Dtype::float64});
  t.output(models::sum_in_order(sums, count));
  return t.finish();
}

Program clip_program(double threshold, int64_t count) {
  Trace t("clip");
  models::Clip clip = models::clip(t.input("square_sums", {{count}, Dtype::float64}), threshold);
  t.output(clip.factor);
  t.output(clip.norm);
  return t.finish();
}

// What of a parameter trains, and is updated here; from the bucket's start.
std::vector<offload::ElementRange> held_parts(const offload::Bucket& bucket, int parameter) {
  const offload::Parameter& p = bucket.parameters[parameter];
  std::vector<offload::ElementRange> parts;
  for (const offload::ElementRange& trained : p.trained_ranges())
    if (const auto held = common(bucket.updated, {p.offset + trained.first, trained.count});
        held.count > 0)
      parts.push_back(held);
  return parts;
}

}  // namespace

GradientNorm::GradientNorm(offload::PassOperands& operands, PlanBuilder& builder)
    : operands_(operands), builder_(builder) {
  add_group(std::nullopt);
  add_group(offload::Axis::data);
  if (index_.empty())
    throw ConfigError(
        "this device would hold no parameter that is trained; expected fewer devices "
        "along fsdp, or more that is trained");
  square_sums_ = builder.temporary(
      "square_sums", models::Type{{static_cast<int64_t>(index_.size())}, Dtype::float64},
      MemoryKind::device, Category::batch);
}

void GradientNorm::add_group(std::optional<offload::Axis> split) {
  const offload::ParameterLayout& layout = operands_.layout();
  Group group{.first = static_cast<int>(index_.size()),
              .over_data = layout.shard_optimizer_over_data || split == offload::Axis::data};
  bool is_there = false;  // on some device
  for (int bucket = 0; bucket < std::ssize(layout.buckets); ++bucket) {
    const offload::Bucket& s = layout.buckets[bucket];
    if (s.trainable == models::Trainable::no || s.split != split) continue;
    is_there = true;
    for (int p = 0; p < std::ssize(s.parameters); ++p)
      for (int part = 0; part < std::ssize(held_parts(s, p)); ++part)
        index_.try_emplace(Part{bucket, p, part}, group.first + group.count++);
  }
  if (is_there) groups_.push_back(group);
}

void GradientNorm::on_parameter_gradient(const offload::ParameterLayout::Location& location,
                                         const offload::Scope& scope) {
  const offload::Bucket& s = operands_.layout().bucket(location);
  for (int part = 0; const auto& [first, count] : held_parts(s, location.parameter))
    add_square_sum(
        operands_.range(location.bucket, offload::Copy::gradient, first, {{count}, Dtype::float32}),
        {location.bucket, location.parameter, part++}, scope);
}

void GradientNorm::on_bucket_gradients(int bucket) {
  const offload::Scope scope{"norm", bucket, offload::Phase::optimizer};
  const offload::Bucket& s = operands_.layout().buckets[bucket];
  const Operand held = operands_.held(bucket, offload::Copy::gradient);
  for (int p = 0; p < std::ssize(s.parameters); ++p) {
    for (int part = 0; const auto& [first, count] : held_parts(s, p))
      add_square_sum({held.buffer,
                      held.offset + (first - s.updated.first) * models::size_bytes(Dtype::float32),
                      {{count}, Dtype::float32}},
                     {bucket, p, part++}, scope);
  }
}

void GradientNorm::add_square_sum(const Operand& gradient, const Part& part,
                                  const offload::Scope& scope) {
  const int index = index_.at(part);
  Operand sum{
      square_sums_.buffer, index * models::size_bytes(Dtype::float64), {{}, Dtype::float64}};
  PlanBuilder::Bindings bindings{gradient, sum};
  builder_.run(square_sum_program(gradient.type.shape.count()), bindings, scope);
}

Operand GradientNorm::over_devices(const offload::Scope& scope) {
  const offload::ParameterLayout& layout = operands_.layout();
  const bool has_others = layout.is_sharded() || std::ranges::any_of(groups_, &Group::over_data);
  if (!has_others) return square_sums_;
  const Operand sums =
      builder_.temporary("square_sum", models::Type{{std::ssize(groups_)}, Dtype::float64},
                         MemoryKind::device, Category::batch);
  const int64_t size = models::size_bytes(Dtype::float64);
  for (int i = 0; i < std::ssize(groups_); ++i) {
    const auto [first, count, over_data] = groups_[i];
    const Operand sum{sums.buffer, sums.offset + i * size, {{1}, Dtype::float64}};
    const Operand group{square_sums_.buffer,
                        square_sums_.offset + (count > 0 ? first : 0) * size,
                        {{std::max(count, 1)}, Dtype::float64}};
    PlanBuilder::Bindings bindings{group, sum};
    builder_.run(sum_program(count), bindings, scope);
    auto add_up = [&](offload::Axis axis) {
      builder_.collective(models::all_reduce_op, along(layout.mesh, axis), sum, sum, scope);
    };
    if (layout.is_sharded()) add_up(offload::Axis::fsdp);
    if (over_data) add_up(offload::Axis::data);
  }
  return sums;
}

void GradientNorm::finish(double threshold, const Operand& factor) {
  offload::Scope scope{"norm", 0, offload::Phase::optimizer};
  Operand norm =
      builder_.argument(kGradientNorm, models::Type{}, MemoryKind::device, Category::batch);
  const Operand sums = over_devices(scope);
  bool on_host = factor && builder_.kind(factor) == MemoryKind::pinned_host;
  PlanBuilder::Bindings bindings{sums, on_host ? Operand{} : factor, norm};
  builder_.run(clip_program(threshold, sums.type.shape.count()), bindings, scope);
  if (on_host) builder_.move(bindings[1], factor, scope);
}

}  // namespace longshore::trainer
