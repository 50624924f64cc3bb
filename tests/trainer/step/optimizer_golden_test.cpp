// Five training steps on transformers' models against torch.optim.AdamW, torch.optim.SGD and the
// algorithm that Lion's paper has: losses, norms, parameters and states, wherever these live.
#include <gtest/gtest.h>

#include "longshore/models/ops/update/adamw.h"
#include "longshore/models/ops/update/lion.h"
#include "longshore/models/ops/update/sgd.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/policy/policy.h"
#include "longshore/trainer/step/step.h"
#include "longshore/trainer/weights/hf_folder.h"
#include "longshore/trainer/weights/load_parameters.h"
#include "longshore/trainer/weights/read_floats.h"
#include "tests/trainer/golden.h"
#include "tests/trainer/target_here.h"

namespace longshore::trainer {
namespace {

using offload::Copy;
using offload::MemoryKind;

struct Case {
  const char* golden;
  models::Optimizer optimizer;
  double learning_rate;
  std::vector<const char*> states;  // the rule's, as the golden calls them
};

constexpr models::AdamW kAdamW{.b1 = 0.9, .b2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};

std::vector<Case> cases() {
  return {{"adamw_llama", models::adamw(kAdamW), 1e-3, {"exp_avg.", "exp_avg_sq."}},
          {"adamw_gemma2", models::adamw(kAdamW), 1e-3, {"exp_avg.", "exp_avg_sq."}},
          {"optimizers/lion",
           models::lion({.b1 = 0.9, .b2 = 0.99, .weight_decay = 0.1}),
           1e-3,
           {"exp_avg."}},
          {"optimizers/sgd_momentum",
           models::sgd({.momentum = 0.9, .weight_decay = 0.01}),
           0.05,
           {"momentum_buffer."}},
          {"optimizers/sgd_nesterov",
           models::sgd({.momentum = 0.9, .weight_decay = 0.01, .nesterov = true}),
           0.05,
           {"momentum_buffer."}}};
}

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
    batch["tokens"].push_back(static_cast<int32_t>(*id));
    batch["targets"].push_back(has_next ? static_cast<int32_t>(id[1]) : data::kIgnoredTarget);
    batch["positions"].push_back(static_cast<int32_t>(position));
    batch.total_weights += has_next;
  }
  return batch;
}

void expect_steps(const Case& c, const Golden& golden, const Way& way) {
  const std::filesystem::path folder = golden.folder / golden.description.value("model", ".");
  models::DecoderConfig config = read_hf_config(folder).decoder;
  data::BatchShape shape = batch_of(golden, 0).shape;
  config.batch = shape.rows;
  config.length = shape.length;
  models::Model model = models::decoder(config);
  offload::ParameterLayout layout = offload::lay_out(
      model, {.homes = {.optimizer = way.optimizer_home},
              .optimizers = {{.states = states_of(c.optimizer, models::StateFormat::float32)}}});
  // torch clips by threshold / (norm + 1e-6), which with norms of 5 and more differs from ours by
  // less than a float32's rounding; AdamW there divides the second moment's root, not the moment,
  // by its correction, which is the same in exact arithmetic.
  const OptimizerOptions optimizer{
      .optimizers = {c.optimizer}, .clipping_threshold = 1, .lane = way.lane};
  StepPlans plans =
      plan_step(model, layout,
                {.policy = offload::make_policy(way.policy, {}, model.stages[1].programs[0]),
                 .optimizer = optimizer},
                target_here());

  auto backend = make_backend(target_here());
  offload::Ledger ledger;
  offload::Arguments arguments(*backend, ledger);
  offload::Arenas arenas(*backend, plans.all());
  load_weights({.folder = folder}, config, layout, arguments);
  TrainStep step(plans, *backend, arguments, arenas);
  std::vector<float> losses, norms;
  for (int i = 0; i < 5; ++i) {
    StepResult result = step.run({batch_of(golden, i)},
                                 {.learning_rate = c.learning_rate, .number = i + 1}, ledger);
    losses.push_back(static_cast<float>(result.loss));
    norms.push_back(static_cast<float>(result.gradient_norm));
  }
  step.flush(ledger);
  golden.expect("step_loss", losses, golden.tolerance("step_loss"));
  golden.expect("step_grad_norm", norms, golden.tolerance("step_grad_norm"));
  // Beside the batches, these are all there are.
  EXPECT_EQ(golden.tensors.tensors().size(), 3 + (1 + c.states.size()) * layout.by_name.size());
  std::vector<std::pair<std::string, Copy>> groups{{"final.", Copy::compute}};
  for (size_t i = 0; i < c.states.size(); ++i)
    groups.push_back({c.states[i], offload::state_copy(i)});
  for (const auto& [name, location] : layout.by_name)
    for (const auto& [group, copy] : groups) {
      const offload::Bucket& bucket = layout.bucket(location);
      const offload::Parameter& parameter = layout.parameter(location);
      golden.expect(group + name,
                    read_floats(arguments, argument_name(bucket, copy), {parameter.type.shape},
                                parameter.offset * static_cast<int64_t>(sizeof(float))),
                    golden.tolerance(group));
    }
}

class OptimizerGoldens : public testing::TestWithParam<Case> {};

TEST_P(OptimizerGoldens, FiveSteps) {
  Golden golden(GetParam().golden);
  for (const Way& way :
       {Way{"none"}, Way{"full"}, Way{"qkv_proj_offloaded"}, Way{"none", MemoryKind::pinned_host},
        Way{"full", MemoryKind::pinned_host, offload::Lane::host_compute},
        Way{"qkv_proj_offloaded", MemoryKind::pinned_host}}) {
    SCOPED_TRACE(std::string(way.policy) + ", optimizer state in " + name(way.optimizer_home));
    expect_steps(GetParam(), golden, way);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OptimizerGoldens, testing::ValuesIn(cases()),
                         [](const auto& info) {
                           const std::string name = info.param.golden;
                           return name.substr(name.find('/') + 1);
                         });

}  // namespace
}  // namespace longshore::trainer
