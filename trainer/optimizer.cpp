#include "trainer/optimizer.h"

#include "models/trace.h"

namespace longshore::trainer {
namespace {

using models::Dtype;
using models::Program;
using models::Trace;
using models::Trainable;
using models::Var;
using offload::Copy;
using offload::Operand;
using offload::PlanBuilder;

const models::Type kScalar{};

Program square_sum_program(int64_t count) {
  Trace t("square_sum");
  t.output(models::square_sum(t.input("gradient", {{count}, Dtype::float32})));
  return t.finish();
}

Program clip_program(const models::Type& square_sums, double threshold) {
  Trace t("clip");
  models::Clip clip = models::clip(t.input("square_sums", square_sums), threshold);
  t.output(clip.factor);
  t.output(clip.norm);
  return t.finish();
}

// Values in the order: gradient, master, first and second moment, four scalars, results.
Program update_program(const models::AdamW& adamw, int64_t count, Dtype compute) {
  Trace t("adamw");
  models::Type range{{count}, Dtype::float32};
  Var gradient = t.input("gradient", range);
  models::AdamWState state{.weight = t.input("master", range),
                           .m = t.input("first_moment", range),
                           .v = t.input("second_moment", range)};
  models::AdamWScalars scalars{t.scalar(kLearningRate),
                               t.scalar(kCorrection1),
                               t.scalar(kCorrection2),
                               t.scalar("clip"),
                               {}};
  for (Var result : models::adamw(adamw, compute, gradient, state, scalars)) t.output(result);
  return t.finish();
}

}  // namespace

void append_update(const OptimizerOptions& options, const offload::ParameterLayout& layout,
                   offload::Scan& scan, PlanBuilder& builder) {
  offload::Place place{"optimizer", 0, offload::Phase::optimizer};
  auto each_run = [&](auto f) {
    for (size_t slab = 0; slab < layout.slabs.size(); ++slab)
      if (layout.slabs[slab].trainable == Trainable::yes)
        for (const offload::Run& run : layout.slabs[slab].runs()) {
          place.layer = static_cast<int>(slab);
          f(static_cast<int>(slab), run);
        }
  };
  auto range = [&](int slab, Copy copy, const offload::Run& run) {
    return scan.range(slab, copy, run.offset, {{run.count}, dtype(layout.slabs[slab], copy)});
  };

  int64_t runs = 0;
  each_run([&](int, const offload::Run&) { ++runs; });
  const models::Type sum{{}, Dtype::float64}, all_sums{{runs}, Dtype::float64};
  const Operand sums = builder.temporary("square_sums", all_sums, offload::MemoryKind::device,
                                         offload::Category::batch);
  int64_t summed = 0;
  each_run([&](int slab, const offload::Run& run) {
    PlanBuilder::Bindings bindings{range(slab, Copy::gradient, run),
                                   {sums.buffer, sum.bytes() * summed++, sum}};
    builder.run(square_sum_program(run.count), bindings, place);
  });

  Operand norm{builder.argument(kGradientNorm, kScalar.bytes(), offload::MemoryKind::device,
                                offload::Category::batch),
               0, kScalar};
  PlanBuilder::Bindings clip{sums, {}, norm};
  builder.run(clip_program(all_sums, options.clipping_threshold), clip, place);

  each_run([&](int slab, const offload::Run& run) {
    models::AdamW adamw = options.adamw;
    if (run.decay == models::Decay::no) adamw.weight_decay = 0;
    bool has_master = layout.slabs[slab].has_master();
    Operand compute = range(slab, Copy::compute, run);
    Operand master = has_master ? range(slab, Copy::master, run) : compute;
    Operand m = range(slab, Copy::first_moment, run), v = range(slab, Copy::second_moment, run);
    // In place: each result lies where its input does.
    PlanBuilder::Bindings bindings{range(slab, Copy::gradient, run),
                                   master,
                                   m,
                                   v,
                                   scan.scalar(kLearningRate),
                                   scan.scalar(kCorrection1),
                                   scan.scalar(kCorrection2),
                                   clip[1],
                                   master,
                                   m,
                                   v};
    if (has_master) bindings.push_back(compute);
    builder.run(update_program(adamw, run.count, dtype(layout.slabs[slab], Copy::compute)),
                bindings, place);
  });
}

}  // namespace longshore::trainer
