// Whole training steps against LibTorch's autograd in float64 and AdamW as the paper has it.
#include "longshore/trainer/step/step.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "longshore/base/error.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/execution/executor.h"
#include "longshore/offload/memory/alignment.h"
#include "longshore/trainer/step/batch_arguments.h"
#include "longshore/trainer/weights/initialize.h"
#include "tests/models/autograd_llama.h"
#include "tests/models/cpu_dtypes.h"
#include "tests/offload/adamw_states.h"
#include "tests/offload/training.h"

namespace longshore::trainer {
namespace {

using models::Tensors;
using offload::Copy;
using offload::ParameterLayout;
using offload::Training;
using offload::TrainingOptions;

constexpr double kB1 = 0.9, kB2 = 0.95, kEpsilon = 1e-8;

Tensors wide_weights(const ParameterLayout& layout) {
  Tensors weights;
  for (const auto& [name, values] : offload::initial_weights(layout)) {
    const models::Shape& shape = layout.parameter(layout.by_name.at(name)).type.shape;
    weights[name] =
        at::from_blob(const_cast<float*>(values.data()), shape.sizes(), at::kFloat).to(at::kDouble);
  }
  return weights;
}

at::Tensor ids(const std::vector<int32_t>& values, const data::BatchShape& shape) {
  return at::from_blob(const_cast<int32_t*>(values.data()), {shape.rows, shape.length}, at::kInt)
      .clone();
}

struct Plain {
  Tensors weights, m, v;
  std::vector<double> losses, norms;
};

Plain train_plainly(const models::DecoderConfig& config, const TrainingOptions& options) {
  Plain plain{.weights = wide_weights(offload::lay_out(options.model))};
  for (const auto& [name, weight] : plain.weights)
    plain.m[name] = plain.v[name] = at::zeros_like(weight);
  data::BatchSource source = data::synthetic_batches(
      {config.batch, config.length}, static_cast<int32_t>(config.vocabulary), offload::kDataSeed);
  for (int step = 1; step <= options.steps; ++step) {
    std::vector<data::Batch> batches;
    int64_t targets = 0;
    for (int64_t i = 0; i < options.micro_batches; ++i) {
      batches.push_back(source((step - 1) * options.micro_batches + i));
      targets += batches.back().total_weights;
    }
    double loss = 0, square_sum = 0;
    Tensors gradients;
    for (const data::Batch& batch : batches) {
      models::AutogradLlama result = models::autograd_llama(
          config, plain.weights, ids(batch["tokens"], batch.shape),
          ids(batch["positions"], batch.shape), ids(batch["targets"], batch.shape),
          1.0 / static_cast<double>(targets));
      loss += result.loss.item<double>() / static_cast<double>(targets);
      for (const auto& [name, gradient] : result.gradients) {
        at::Tensor& sum = gradients[name];
        sum = sum.defined() ? sum + gradient : gradient;
      }
    }
    for (const auto& [name, gradient] : gradients)
      square_sum += gradient.square().sum().item<double>();
    double norm = std::sqrt(square_sum), threshold = options.clipping_threshold;
    if (options.clipping_norm == ClippingNorm::previous_global_norm)
      norm = plain.norms.empty() ? 0 : plain.norms.back();
    double clip = threshold > 0 && norm > threshold ? threshold / norm : 1;
    norm = std::sqrt(square_sum);
    plain.losses.push_back(loss);
    plain.norms.push_back(norm);
    for (auto& [name, weight] : plain.weights) {
      at::Tensor g = gradients.at(name) * clip, &m = plain.m[name], &v = plain.v[name];
      m = kB1 * m + (1 - kB1) * g;
      v = kB2 * v + (1 - kB2) * g * g;
      at::Tensor update =
          m / (1 - std::pow(kB1, step)) / ((v / (1 - std::pow(kB2, step))).sqrt() + kEpsilon);
      // Vectors (the norms' weights) do not decay.
      double decay = weight.dim() > 1 ? options.weight_decay : 0;
      weight = weight - options.learning_rate * (update + decay * weight);
    }
  }
  return plain;
}

at::Tensor ours(const Training& training, const ParameterLayout& layout, const std::string& name,
                Copy copy) {
  auto location = layout.by_name.at(name);
  const auto& contents = training.state.at(argument_name(layout.bucket(location), copy));
  const offload::Parameter& parameter = layout.parameter(location);
  return at::from_blob(
             const_cast<float*>(reinterpret_cast<const float*>(contents.data())) + parameter.offset,
             {parameter.type.shape.count()}, at::kFloat)
      .to(at::kDouble);
}

void expect_plain(models::DecoderConfig config, TrainingOptions options) {
  options.model = models::decoder(config);
  ParameterLayout layout = offload::lay_out(options.model, options.layout);
  Training found = offload::train(options);
  Plain expected = train_plainly(config, options);
  for (int i = 0; i < options.steps; ++i) {
    EXPECT_NEAR(found.results[i].loss / expected.losses[i], 1, 1e-6) << "step " << i;
    EXPECT_NEAR(found.results[i].gradient_norm / expected.norms[i], 1, 1e-5) << "step " << i;
  }
  struct Compared {
    const char* what;
    Copy copy;
    const Tensors& tensors;
    double worst = 0;
  };
  for (Compared compared : {Compared{"weights", Copy::compute, expected.weights},
                            Compared{"first moments", offload::kFirstMoment, expected.m},
                            Compared{"second moments", offload::kSecondMoment, expected.v}}) {
    for (const auto& [name, tensor] : compared.tensors) {
      at::Tensor theirs = tensor.flatten();
      double difference =
          ((ours(found, layout, name, compared.copy) - theirs).norm() / theirs.norm())
              .item<double>();
      EXPECT_LT(difference, 2e-5) << compared.what << " of " << name;
      compared.worst = std::max(compared.worst, difference);
    }
    std::printf("%lld micro-batches, clipping at %g%s: worst of the %s differ by %.1e\n",
                static_cast<long long>(options.micro_batches), options.clipping_threshold,
                config.tied_embeddings ? ", tied" : "", compared.what, compared.worst);
  }
}

TEST(TrainStep, IsAutogradAndAdamW) {
  for (bool tied : {false, true})
    for (int64_t micro_batches : {1, 2, 5})
      for (auto [threshold, norm] : {std::pair{0.0, ClippingNorm::global_norm},
                                     {0.5, ClippingNorm::global_norm},
                                     {0.5, ClippingNorm::previous_global_norm}}) {
        models::DecoderConfig config = offload::tiny_llama();
        config.tied_embeddings = tied;
        expect_plain(config, {.policy = "full",
                              .micro_batches = micro_batches,
                              .steps = 3,
                              .learning_rate = 1e-3,
                              .clipping_threshold = threshold,
                              .clipping_norm = norm});
      }
}

// In bfloat16 the master weights follow the float32 run; a step that rounded them away, or added
// to rounded ones, would lose the small updates.
TEST(TrainStep, MastersKeepWhatBfloat16Cannot) {
  if (!models::multiplies_bfloat16()) GTEST_SKIP() << "oneDNN has no bfloat16 products on this CPU";
  TrainingOptions options{.model = models::decoder(offload::tiny_llama(models::Dtype::bfloat16)),
                          .steps = 4,
                          .learning_rate = 1e-5,
                          .weight_decay = 0};
  ParameterLayout layout = offload::lay_out(options.model);
  Training trained = offload::train(options);
  auto start = offload::initial_weights(layout);
  for (const auto& [name, before] : start) {
    at::Tensor moved = ours(trained, layout, name, Copy::master) -
                       at::from_blob(const_cast<float*>(before.data()),
                                     {static_cast<int64_t>(before.size())}, at::kFloat)
                           .to(at::kDouble);
    // AdamW's first steps move each weight by about the learning rate.
    EXPECT_GT(moved.abs().max().item<double>(), 2e-5) << name;
    EXPECT_LT(moved.abs().max().item<double>(), 6e-5) << name;
  }
  for (const offload::Bucket& bucket : layout.buckets) {
    const auto& master = trained.state.at(argument_name(bucket, Copy::master));
    at::Tensor rounded =
        at::from_blob(const_cast<std::byte*>(master.data()), {bucket.count}, at::kFloat)
            .to(at::kBFloat16);
    const auto& compute = trained.state.at(argument_name(bucket, Copy::compute));
    EXPECT_EQ(std::memcmp(compute.data(), rounded.const_data_ptr(), compute.size()), 0)
        << bucket.name;
  }
}

TEST(TrainStep, LearnsABatchByHeart) {
  for (models::Dtype dtype : models::cpu_dtypes()) {
    models::DecoderConfig config = offload::tiny_llama(dtype);
    models::Model model = models::decoder(config);
    ParameterLayout layout = offload::lay_out(model, {.optimizers = offload::adamw_states()});
    StepOptions options{
        .policy = offload::keep_all(),
        .optimizer = OptimizerOptions{.optimizers = {models::adamw({kB1, kB2, kEpsilon, 0})},
                                      .clipping_threshold = 1}};
    StepPlans plans = plan_step(model, layout, options, models::Target::cpu);
    auto backend = offload::make_cpu_backend();
    offload::Ledger ledger;
    offload::Arenas arenas(*backend, plans.all());
    offload::Arguments arguments(*backend, ledger);
    initialize(layout, 1, arguments);
    TrainStep step(plans, *backend, arguments, arenas);
    data::Batch batch = data::synthetic_batches({config.batch, config.length},
                                                static_cast<int32_t>(config.vocabulary), 0)(0);
    StepResult result;
    for (int i = 1; i <= 120; ++i) {
      result = step.run({batch}, {.learning_rate = 1e-2, .number = i}, ledger);
      if (i == 1) {
        EXPECT_NEAR(result.loss, std::log(61), 0.1);
      }
    }
    EXPECT_LT(result.loss, 0.05) << models::name(dtype);
  }
}

// Runs a forward plan on the initial weights and returns what it leaves in pinned host memory.
std::vector<float> run_forward(const models::Model& model, const ParameterLayout& layout,
                               const data::Batch& batch, const std::vector<int32_t>& rows,
                               const std::string& result, size_t count) {
  offload::Plan plan = plan_forward(model, layout, "forward", {}, models::Target::cpu);
  auto backend = offload::make_cpu_backend();
  offload::Ledger ledger;
  offload::Arenas arenas(*backend, {&plan});
  offload::Arguments arguments(*backend, ledger);
  initialize(layout, offload::kWeightSeed, arguments);
  offload::Executable executable(plan, *backend, arguments, arenas);
  write_batch(batch, arguments);
  if (!rows.empty())
    arguments.write(offload::host_name("rows"), rows.data(),
                    static_cast<int64_t>(rows.size() * sizeof(int32_t)));
  executable.run(ledger);
  backend->synchronize();
  std::vector<float> values(count);
  arguments.read(offload::host_name(result), values.data(),
                 static_cast<int64_t>(count * sizeof(float)));
  return values;
}

// Evaluation sees the loss that training sees, and the logits variant of the head the same model.
TEST(PlanForward, LossAndLogitsAreThoseOfTraining) {
  for (bool tied : {false, true}) {
    models::DecoderConfig config = offload::tiny_llama();
    config.tied_embeddings = tied;
    int64_t tokens = config.batch * config.length;
    models::Model model = models::decoder(config);
    ParameterLayout layout = offload::lay_out(model);
    Training trained = offload::train({.model = model, .steps = 1});
    data::Batch batch =
        data::synthetic_batches({config.batch, config.length}, 61, offload::kDataSeed)(0);
    float loss = run_forward(model, layout, batch, {}, offload::kLoss, 1)[0];
    EXPECT_FLOAT_EQ(static_cast<float>(trained.results[0].loss * static_cast<double>(tokens)),
                    loss);

    std::vector<int32_t> rows(static_cast<size_t>(tokens));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int32_t>(rows.size() - 1 - i);
    models::Model logits_model =
        models::decoder(config, {.head = models::Head::logits, .rows = tokens});
    std::vector<float> logits = run_forward(logits_model, layout, batch, rows, "output.0",
                                            static_cast<size_t>(tokens * config.vocabulary));
    double sum = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const float* row = logits.data() + i * static_cast<size_t>(config.vocabulary);
      double total = 0;
      for (int64_t v = 0; v < config.vocabulary; ++v) total += std::exp(double(row[v]));
      sum += std::log(total) - row[batch["targets"][static_cast<size_t>(rows[i])]];
    }
    EXPECT_NEAR(sum / loss, 1, 1e-6);
  }
}

struct Small {
  models::Model model = models::decoder(offload::tiny_llama());
  ParameterLayout layout = offload::lay_out(model, {.optimizers = offload::adamw_states()});
  StepOptions options{
      .policy = offload::keep_all(),
      .micro_batches = 2,
      .optimizer = OptimizerOptions{.optimizers = {models::adamw({kB1, kB2, kEpsilon, 0})}}};
  StepPlans plans = plan_step(model, layout, options, models::Target::cpu);
};

// Where in the argument a run of a plan finds its tokens.
int64_t tokens_offset(const offload::Plan& plan, int64_t number) {
  for (const offload::Instruction& instruction : plan.instructions)
    for (const offload::Operand& in : instruction.in)
      if (const offload::Buffer& buffer = plan.buffers[in.buffer];
          buffer.name == offload::host_name("tokens"))
        return in.offset + number * buffer.run_stride;
  return -1;
}

TEST(StepPlans, MicroBatchesRunTheirPlansInOrder) {
  Small small;
  const int64_t batch_bytes = offload::align_up(int64_t{2} * 24 * sizeof(int32_t));
  for (int64_t micro_batches : {1, 2, 3, 5}) {
    small.options.micro_batches = micro_batches;
    StepPlans plans = plan_step(small.model, small.layout, small.options, models::Target::cpu);
    EXPECT_EQ(std::ssize(plans.plans), std::min<int64_t>(3, micro_batches));
    ASSERT_EQ(std::ssize(plans.in_order()), micro_batches);
    int64_t i = 0;
    for (const auto& [plan, times] : plans.runs())
      for (int64_t number = 0; number < times; ++number, ++i) {
        EXPECT_EQ(plan, plans.in_order()[static_cast<size_t>(i)]);
        EXPECT_EQ(tokens_offset(*plan, number), i * batch_bytes);
        bool updates = std::ranges::any_of(plan->instructions, [](const auto& in) {
          return in.scope.phase == offload::Phase::optimizer;
        });
        EXPECT_EQ(updates, i + 1 == micro_batches);
        EXPECT_EQ(plan->name == plans.plans[0].name, i == 0);
      }
  }
}

TEST(TrainStep, RefusesTheWrongBatches) {
  Small small;
  auto backend = offload::make_cpu_backend();
  offload::Ledger ledger;
  offload::Arenas arenas(*backend, small.plans.all());
  offload::Arguments arguments(*backend, ledger);
  initialize(small.layout, 1, arguments);
  TrainStep step(small.plans, *backend, arguments, arenas);
  data::Batch batch = data::synthetic_batches({2, 24}, 61, 0)(0);
  EXPECT_THROW(step.run({batch}, {}, ledger), InternalError);
  data::Batch ignored = batch;
  ignored.total_weights = 0;
  EXPECT_THROW(step.run({ignored, ignored}, {}, ledger), InternalError);
  EXPECT_GT(step.run({batch, ignored}, {}, ledger).loss, 0);
}

// Targets that are not trained take no part, in the loss, its divisor or the gradients.
TEST(TrainStep, IgnoredTargetsTakeNoPart) {
  models::DecoderConfig config = offload::tiny_llama();
  data::Batch batch =
      data::synthetic_batches({config.batch, config.length}, 61, offload::kDataSeed)(0);
  // The second row does not count: the same as if its tokens were others.
  data::Batch other = batch;
  for (data::Batch* b : {&batch, &other}) {
    std::fill((*b)["targets"].begin() + config.length, (*b)["targets"].end(), data::kIgnoredTarget);
    b->total_weights = config.length;
  }
  for (int64_t i = config.length; i < 2 * config.length; ++i)
    other["tokens"][i] = (other["tokens"][i] + 1) % 61;
  offload::PassInputs inputs{.model = models::decoder(config), .loss_gradient = 1. / config.length};
  offload::PassResult a = offload::run_pass(inputs, {batch}),
                      b = offload::run_pass(inputs, {other});
  EXPECT_EQ(a.loss, b.loss);
  for (const auto& [name, gradient] : a.gradients)
    for (size_t i = 0; i < gradient.size(); ++i)
      ASSERT_NEAR(gradient[i], b.gradients.at(name)[i], 1e-7) << name;
}

}  // namespace
}  // namespace longshore::trainer
