// Shipped kernels, in programs, against LibTorch's autograd in float64 on plain compositions.
#include "tests/models/autograd.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include "longshore/models/ops/kernels/onednn_matmul.h"
#include "tests/models/autograd_llama.h"
#include "tests/models/op_cases.h"
#include "tests/models/random_inputs.h"
#include "tests/models/run_model.h"

namespace longshore::models {
namespace {

constexpr uint64_t kInputs = 800, kCotangents = 900;

at::Tensor wide(const at::Tensor& tensor) {
  return tensor.is_floating_point() ? tensor.to(at::kDouble) : tensor;
}

Tensors wide(const Tensors& values) {
  Tensors result;
  for (const auto& [name, value] : values) result[name] = wide(value);
  return result;
}

void compare_ops(Dtype dtype, double output_tolerance, double gradient_tolerance) {
  double worst_output = 0, worst_gradient = 0;
  std::vector<OpCase> cases = small_cases();
  for (OpCase& op_case : large_cases()) cases.push_back(std::move(op_case));
  for (const OpCase& op_case : cases) {
    if (!op_case.plain) continue;
    SCOPED_TRACE(op_case.name);
    Program program = op_case.trace(dtype);
    Tensors inputs = random_inputs(program, op_case, kInputs);
    Tensors cotangents = random_cotangents(program, kCotangents);
    Step step = run_step(program, differentiate(program), inputs, cotangents, {}, Target::cpu);

    Tensors leaves = as_leaves(wide(inputs));
    std::vector<at::Tensor> outputs = op_case.plain(leaves), output_cotangents;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::string& name = program[program.outputs[i].value].name;
      double error = difference(step.values.at(name), outputs[i].detach());
      EXPECT_LT(error, output_tolerance) << name;
      worst_output = std::max(worst_output, error);
      output_cotangents.push_back(wide(cotangents.at(name)));
    }
    Tensors expected = autograd(outputs, output_cotangents, trained(program, leaves));
    EXPECT_EQ(expected.size(), step.gradients.size());
    for (const auto& [name, gradient] : expected) {
      double error = difference(step.gradients.at(name), gradient);
      EXPECT_LT(error, gradient_tolerance) << name;
      worst_gradient = std::max(worst_gradient, error);
    }
  }
  std::cout << "largest difference of an output " << worst_output << ", of a gradient "
            << worst_gradient << "\n";
}

TEST(Autograd, AgreesWithOpsInFloat32) { compare_ops(Dtype::float32, 5e-5, 1e-4); }
TEST(Autograd, AgreesWithOpsInBfloat16) {
  if (!multiplies_bfloat16()) GTEST_SKIP() << "oneDNN has no bfloat16 products on this CPU";
  compare_ops(Dtype::bfloat16, 5e-2, 2e-1);
}

// --- a whole Llama

struct Batch {
  at::Tensor tokens, positions, targets;

  explicit Batch(const DecoderConfig& c)
      : tokens(at::randint(0, c.vocabulary, {c.batch, c.length},
                           at::detail::createCPUGenerator(kInputs), at::kInt)),
        positions(at::arange(c.length, at::kInt).expand({c.batch, c.length}).contiguous()),
        targets(tokens.roll(-1, 1)) {
    // A second document begins in the first row; its predecessor's last token has no target.
    int64_t start = c.length / 3;
    positions[0].slice(0, start).sub_(start);
    targets[0][start - 1] = -1;
    targets.select(1, c.length - 1).fill_(-1);
  }
};

DecoderConfig grouped_heads(Dtype dtype) {
  return {.batch = 2,
          .length = 24,
          .vocabulary = 61,
          .width = 40,
          .layers = 3,
          .query_heads = 6,
          .kv_heads = 2,
          .head_dim = 10,
          .mlp_width = 52,
          .dtype = dtype};
}

DecoderConfig tied(Dtype dtype) {
  return {.batch = 1,
          .length = 150,
          .vocabulary = 300,
          .width = 32,
          .layers = 2,
          .query_heads = 4,
          .kv_heads = 4,
          .head_dim = 8,
          .mlp_width = 64,
          .norm_epsilon = 1e-6,
          .rope_base = 500000,
          .tied_embeddings = true,
          .dtype = dtype};
}

// Relative: of the loss, and the L2 norm for the worst gradient.
struct Differences {
  double loss, worst;
};

Differences compare_llama(const DecoderConfig& config, Target target) {
  constexpr double kLossGradient = 1. / 64;
  Model model = decoder(config);
  Tensors weights = random_weights(model, kInputs);
  Batch batch(config);
  ModelRun run = run_model(
      model, weights,
      {{"tokens", batch.tokens}, {"positions", batch.positions}, {"targets", batch.targets}},
      kLossGradient, target, Checks::all);
  AutogradLlama expected = autograd_llama(config, wide(weights), batch.tokens, batch.positions,
                                          batch.targets, kLossGradient);
  Differences result{std::abs(run.outputs[0].item<double>() / expected.loss.item<double>() - 1), 0};
  EXPECT_EQ(run.gradients.size(), weights.size());
  EXPECT_EQ(expected.gradients.size(), weights.size());
  for (const auto& [name, gradient] : expected.gradients) {
    double error =
        ((wide(run.gradients.at(name)) - gradient).norm() / gradient.norm()).item<double>();
    EXPECT_FALSE(std::isnan(error)) << name;
    EXPECT_GT(gradient.norm().item<double>(), 1e-3) << name << ": a gradient of nothing";
    result.worst = std::max(result.worst, error);
  }
  std::cout << name(config.dtype) << ": relative difference of the loss " << result.loss
            << ", of the worst gradient " << result.worst << "\n";
  return result;
}

// A router that says nothing has all probabilities alike and gives the first experts all tokens:
// what its losses then are is known, whatever the other weights.
TEST(RouterLosses, AreKnownWhereRoutersSayNothing) {
  DecoderConfig config = grouped_heads(Dtype::float64);
  config.family = &kQwen3Moe;
  config.layers = 3;
  config.experts = 4;
  config.experts_per_token = 2;
  config.sparse = {false, true, true};
  config.balance_loss_weight = 0.3;
  config.router_z_loss_weight = 0.01;
  Batch batch(config);
  at::Tensor segments = at::ones_like(batch.tokens);
  segments[1].slice(0, 5).zero_();  // padding
  for (const BalanceLoss kind : {BalanceLoss::rows, BalanceLoss::model}) {
    config.balance_loss = kind;
    config.segments = kind == BalanceLoss::model;  // which attention reads too
    const Model model = decoder(config);
    Tensors weights = random_weights(model, kInputs);
    for (auto& [name, weight] : weights)
      if (name.ends_with("mlp.gate.weight")) weight.zero_();
    const ModelRun run = run_model(model, weights,
                                   {{"tokens", batch.tokens},
                                    {"positions", batch.positions},
                                    {"segments", segments},
                                    {"targets", batch.targets}},
                                   1, Target::reference);
    EXPECT_NEAR(run.auxiliary_loss, 0.3 * 2 + 0.01 * std::log(4) * std::log(4), 1e-12);
    EXPECT_NEAR(run.expert_load, 2, 1e-6);  // two of four experts have all tokens
  }
}

TEST(Autograd, AgreesWithALlamaOfReferenceKernels) {
  for (const DecoderConfig& config : {grouped_heads(Dtype::float64), tied(Dtype::float64)}) {
    Differences found = compare_llama(config, Target::reference);
    EXPECT_LT(found.loss, 1e-13);
    EXPECT_LT(found.worst, 1e-12);
  }
}

TEST(Autograd, AgreesWithALlamaInFloat32) {
  for (const DecoderConfig& config : {grouped_heads(Dtype::float32), tied(Dtype::float32)}) {
    Differences found = compare_llama(config, Target::cpu);
    EXPECT_LT(found.loss, 1e-6);
    EXPECT_LT(found.worst, 5e-6);
  }
}

TEST(Autograd, AgreesWithALlamaInBfloat16) {
  if (!multiplies_bfloat16()) GTEST_SKIP() << "oneDNN has no bfloat16 products on this CPU";
  for (const DecoderConfig& config : {grouped_heads(Dtype::bfloat16), tied(Dtype::bfloat16)}) {
    Differences found = compare_llama(config, Target::cpu);
    EXPECT_LT(found.loss, 5e-3);
    EXPECT_LT(found.worst, 5e-2);
  }
}

}  // namespace
}  // namespace longshore::models
