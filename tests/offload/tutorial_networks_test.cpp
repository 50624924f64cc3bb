// JAX's two tutorial networks through plans: the same to the bit as layer after layer by hand.
// Their first stage hands on a batch input and computes nothing.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cstring>

#include "longshore/models/families/toys.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/execution/executor.h"
#include "longshore/offload/lowering/scan.h"
#include "longshore/trainer/weights/initialize.h"
#include "tests/models/run_model.h"
#include "tests/offload/training.h"

namespace longshore::offload {
namespace {

using models::Tensors;

constexpr uint64_t kInputSeed = 5;
constexpr float kLossFactor = 0.125f, kAuxiliaryFactor = 1;

Tensors weights_of(const ParameterLayout& layout) {
  Tensors weights;
  for (const auto& [name, values] : initial_weights(layout)) {
    const models::Shape& shape = layout.parameter(layout.by_name.at(name)).type.shape;
    weights[name] =
        at::from_blob(const_cast<float*>(values.data()), {shape[0], shape[1]}, at::kFloat).clone();
  }
  return weights;
}

void expect_gradients(const Bucket& bucket, const Tensors& expected, const Arguments& arguments) {
  std::vector<float> found(static_cast<size_t>(bucket.count));
  arguments.read(argument_name(bucket, Copy::gradient), found.data(),
                 bytes(bucket, Copy::gradient));
  for (const Parameter& parameter : bucket.parameters) {
    at::Tensor gradient = expected.at(parameter.name).contiguous();
    EXPECT_GT(gradient.norm().item<double>(), 1e-3) << parameter.name << ": a gradient of nothing";
    EXPECT_EQ(std::memcmp(found.data() + parameter.offset, gradient.const_data_ptr(),
                          static_cast<size_t>(gradient.nbytes())),
              0)
        << parameter.name;
  }
}

void expect_as_by_hand(const models::Model& model, const models::Shape& input,
                       const std::string& policy) {
  SCOPED_TRACE(model.name + ", " + policy);
  ParameterLayout layout = lay_out(model);
  PlanBuilder builder("pass", models::Target::cpu);
  PassOperands operands(layout, builder, GradientOwner::caller);
  Scan scan(model, operands, builder);
  scan.train({.policy = make_policy(policy, {}, model.stages[1].programs[0])});
  Plan plan = builder.finish();

  auto backend = make_cpu_backend();
  Ledger ledger;
  Arguments arguments(*backend, ledger);
  trainer::initialize(layout, kWeightSeed, arguments);
  Arenas arenas(*backend, {&plan});
  Executable executable(plan, *backend, arguments, arenas);
  at::Tensor x =
      at::randn({input[0], input[1]}, at::detail::createCPUGenerator(kInputSeed), at::kFloat);
  arguments.write(host_name("x"), x.const_data_ptr(), static_cast<int64_t>(x.nbytes()));
  arguments.write(host_name(kLossGradient), &kLossFactor, sizeof kLossFactor);
  bool has_auxiliary_loss = arguments.has(kAuxiliaryLoss);
  if (has_auxiliary_loss)
    arguments.write(host_name(kAuxiliaryLossGradient), &kAuxiliaryFactor, sizeof kAuxiliaryFactor);
  executable.run(ledger);
  backend->synchronize();

  models::ModelRun expected =
      run_model(model, weights_of(layout), {{"x", x}}, kLossFactor, models::Target::cpu);
  auto read = [&](const char* name) {
    float value = 0;
    arguments.read(name, &value, sizeof value);
    return value;
  };
  EXPECT_EQ(read(kLoss), expected.outputs[0].item<float>());
  EXPECT_EQ(has_auxiliary_loss, expected.auxiliary_loss != 0);
  if (has_auxiliary_loss) {
    EXPECT_NEAR(read(kAuxiliaryLoss) / expected.auxiliary_loss, 1, 1e-6);
  }
  for (const Bucket& bucket : layout.buckets)
    expect_gradients(bucket, expected.gradients, arguments);
}

TEST(TutorialNetworks, RunInPlansAsByHand) {
  models::ToyA a{.rows = 33, .width = 40, .inner = 72, .layers = 3, .init_deviation = 0.2};
  models::ToyB b{.rows = 50, .width = 40, .layers = 4, .init_deviation = 0.2};
  for (const char* policy : {"none", "full"}) {
    expect_as_by_hand(toy_a(a), {a.rows, a.width}, policy);
    expect_as_by_hand(toy_b(b), {b.rows, b.width}, policy);
  }
}

}  // namespace
}  // namespace longshore::offload
