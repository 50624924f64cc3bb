#include "trainer/step/gradient_norm.h"

#include "models/ops/adamw.h"
#include "models/trace.h"

namespace longshore::trainer {
namespace {

using models::Dtype;
using models::Program;
using models::Trace;
using offload::Category;
using offload::MemoryKind;
using offload::Operand;
using offload::PlanBuilder;

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

}  // namespace

GradientNorm::GradientNorm(offload::PassOperands& operands, PlanBuilder& builder)
    : operands_(operands), builder_(builder) {
  const std::vector<offload::Slab>& slabs = operands.layout().slabs;
  for (int slab = 0; slab < std::ssize(slabs); ++slab) {
    if (slabs[slab].trainable == models::Trainable::no) continue;
    for (int p = 0; p < std::ssize(slabs[slab].parameters); ++p)
      index_.try_emplace({slab, p}, static_cast<int>(index_.size()));
  }
  square_sums_ = builder.temporary(
      "square_sums", models::Type{{static_cast<int64_t>(index_.size())}, Dtype::float64},
      MemoryKind::device, Category::batch);
}

void GradientNorm::gradient_made(const offload::ParameterLayout::Location& location,
                                 const offload::Place& place) {
  const offload::Parameter& parameter = operands_.layout().parameter(location);
  int64_t count = parameter.type.shape.count();
  int index = index_.at({location.slab, location.parameter});
  Operand sum{
      square_sums_.buffer, index * models::size_bytes(Dtype::float64), {{}, Dtype::float64}};
  PlanBuilder::Bindings bindings{operands_.range(location.slab, offload::Copy::gradient,
                                                 parameter.offset, {{count}, Dtype::float32}),
                                 sum};
  builder_.run(square_sum_program(count), bindings, place);
}

void GradientNorm::finish(double threshold, const Operand& factor) {
  offload::Place place{"norm", 0, offload::Phase::optimizer};
  const models::Type scalar{};
  Operand norm{
      builder_.argument(kGradientNorm, scalar.bytes(), MemoryKind::device, Category::batch), 0,
      scalar};
  bool on_host = factor && builder_.kind(factor) == MemoryKind::pinned_host;
  PlanBuilder::Bindings bindings{square_sums_, on_host ? Operand{} : factor, norm};
  builder_.run(clip_program(threshold, square_sums_.type.shape.count()), bindings, place);
  if (on_host) builder_.move(bindings[1], factor, place);
}

}  // namespace longshore::trainer
