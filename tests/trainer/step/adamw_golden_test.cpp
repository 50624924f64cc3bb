// Five training steps against torch.optim.AdamW on transformers' models: losses, norms, parameters
// and moments, wherever the optimizer's state lives.
#include <gtest/gtest.h>

#include "models/ops/update/adamw.h"
#include "offload/execution/arenas.h"
#include "offload/execution/arguments.h"
#include "offload/policy/policy.h"
#include "tests/trainer/golden.h"
#include "tests/trainer/target_here.h"
#include "trainer/step/step.h"
#include "trainer/weights/hf_folder.h"
#include "trainer/weights/load_parameters.h"
#include "trainer/weights/read_floats.h"

namespace longshore::trainer {
namespace {

using offload::Copy;
using offload::MemoryKind;

// torch clips by threshold / (norm + 1e-6), which with norms of 5 and more differs from ours by
// less than a float32's rounding; it divides the second moment's root, not the moment, by its
// correction, which is the same in exact arithmetic.
constexpr OptimizerOptions kOptimizer{
    .optimizers = {models::adamw({.b1 = 0.9, .b2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1})},
    .clipping_threshold = 1};
constexpr double kLearningRate = 1e-3;

struct Way {
  const char* policy;
  MemoryKind optimizer_home = MemoryKind::device;
  offload::Lane lane = offload::Lane::compute;
};

// Step s trains on batches[s]; labels are the ids themselves.
data::Batch batch_of(const Golden& golden, int64_t step) {
  const data::SafetensorsTensor& batches = golden.tensors.at("batches");
  std::vector<int64_t> ids = integers(batches);
  data::Batch batch{.shape = {batches.shape[1], batches.shape[2]}};
  int64_t count = batch.shape.rows * batch.shape.length;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t* id = ids.data() + step * count + i;
    int64_t position = i % batch.shape.length;
    bool has_next = position + 1 < batch.shape.length;
    batch.tokens.push_back(static_cast<int32_t>(*id));
    batch.targets.push_back(has_next ? static_cast<int32_t>(id[1]) : data::kIgnoredTarget);
    batch.positions.push_back(static_cast<int32_t>(position));
    batch.total_weights += has_next;
  }
  return batch;
}

void expect_steps(const Golden& golden, const Way& way) {
  models::DecoderConfig config = read_hf_config(golden.folder).decoder;
  data::BatchShape shape = batch_of(golden, 0).shape;
  config.batch = shape.rows;
  config.length = shape.length;
  models::Model model = models::decoder(config);
  offload::ParameterLayout layout =
      offload::lay_out(model, {.homes = {.optimizer = way.optimizer_home}});
  OptimizerOptions optimizer = kOptimizer;
  optimizer.lane = way.lane;
  StepPlans plans =
      plan_step(model, layout,
                {.policy = offload::make_policy(way.policy, {}, model.stages[1].programs[0]),
                 .optimizer = optimizer},
                target_here());

  auto backend = make_backend(target_here());
  offload::Ledger ledger;
  offload::Arguments arguments(*backend, ledger);
  offload::Arenas arenas(*backend, plans.all());
  load_weights({.folder = golden.folder}, config, layout, arguments);
  TrainStep step(plans, *backend, arguments, arenas);
  std::vector<float> losses, norms;
  for (int i = 0; i < 5; ++i) {
    StepResult result =
        step.run({batch_of(golden, i)}, {.learning_rate = kLearningRate, .number = i + 1}, ledger);
    losses.push_back(static_cast<float>(result.loss));
    norms.push_back(static_cast<float>(result.gradient_norm));
  }
  step.flush(ledger);
  golden.expect("step_loss", losses, golden.tolerance("step_loss"));
  golden.expect("step_grad_norm", norms, golden.tolerance("step_grad_norm"));
  // Beside the batches, these are all there are.
  EXPECT_EQ(golden.tensors.tensors().size(), 3 + 3 * layout.by_name.size());
  for (const auto& [name, location] : layout.by_name)
    for (auto [group, copy] :
         {std::pair{"final.", Copy::compute}, std::pair{"exp_avg.", Copy::first_moment},
          std::pair{"exp_avg_sq.", Copy::second_moment}}) {
      const offload::Slab& slab = layout.slab(location);
      const offload::Parameter& parameter = layout.parameter(location);
      golden.expect(group + name,
                    read_floats(arguments, argument_name(slab, copy), {parameter.type.shape},
                                parameter.offset * static_cast<int64_t>(sizeof(float))),
                    golden.tolerance(group));
    }
}

class AdamWGoldens : public testing::TestWithParam<const char*> {};

TEST_P(AdamWGoldens, FiveStepsAreTorchs) {
  Golden golden(GetParam());
  for (const Way& way :
       {Way{"none"}, Way{"full"}, Way{"qkv_proj_offloaded"}, Way{"none", MemoryKind::pinned_host},
        Way{"full", MemoryKind::pinned_host, offload::Lane::host_compute},
        Way{"qkv_proj_offloaded", MemoryKind::pinned_host}}) {
    SCOPED_TRACE(std::string(way.policy) + ", optimizer state in " + name(way.optimizer_home));
    expect_steps(golden, way);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, AdamWGoldens, testing::Values("adamw_llama", "adamw_gemma2"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace longshore::trainer
