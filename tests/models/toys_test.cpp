// The small networks against plain compositions that LibTorch's autograd differentiates.
#include "longshore/models/families/toys.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "longshore/models/ops/kernels/onednn_matmul.h"
#include "tests/models/autograd.h"
#include "tests/models/plain.h"
#include "tests/models/random_inputs.h"
#include "tests/models/run_model.h"

namespace longshore::models {
namespace {

constexpr uint64_t kWeights = 1000, kBatch = 1100;
constexpr double kLossGradient = 1. / 8;  // auxiliary losses have 1

ToyA small_a(Dtype dtype) {
  return {.rows = 33, .width = 40, .inner = 72, .layers = 3, .dtype = dtype};
}

ToyB small_b(Dtype dtype) { return {.rows = 50, .width = 40, .layers = 4, .dtype = dtype}; }

struct Losses {
  at::Tensor loss, auxiliary_loss;
};

std::string weight(int layer, const char* name) {
  return "layers." + std::to_string(layer) + "." + name;
}

Losses plain_toy(const ToyA& s, const Tensors& w, at::Tensor x) {
  for (int layer = 0; layer < s.layers; ++layer)
    x = plain::linear(plain::linear(x, w.at(weight(layer, "w1"))), w.at(weight(layer, "w2")));
  return {x.sum(), at::zeros({}, x.options())};
}

Losses plain_toy(const ToyB& s, const Tensors& w, const at::Tensor& input) {
  at::Tensor x = input, penalty = at::zeros({}, x.options());
  for (int layer = 0; layer < s.layers; ++layer) {
    const at::Tensor& matrix = w.at(weight(layer, "w"));
    x = plain::gelu(plain::linear(x, matrix));
    penalty = penalty + plain::l2_penalty(matrix, s.penalty);
  }
  return {plain::mean_square_error(x, input), penalty};
}

// Largest relative differences: of the losses, and of a gradient's L2 norm.
struct Differences {
  double loss = 0, gradient = 0;
};

template <class Toy>
Differences compare(const Toy& toy, const Model& model, Target target) {
  Tensors weights = random_weights(model, kWeights);
  at::Tensor x = random_normal({{toy.rows, toy.width}, toy.dtype}, kBatch);
  ModelRun run = run_model(model, weights, {{"x", x}}, kLossGradient, target, Checks::all);

  Tensors wide;
  for (const auto& [name, value] : weights) wide[name] = value.to(at::kDouble);
  Tensors leaves = as_leaves(wide);
  Losses expected = plain_toy(toy, leaves, x.to(at::kDouble));
  Tensors gradients = autograd({expected.loss * kLossGradient + expected.auxiliary_loss},
                               {at::full({}, 1.0, at::kDouble)}, leaves);

  Differences result;
  double loss = expected.loss.template item<double>();
  double auxiliary_loss = expected.auxiliary_loss.template item<double>();
  result.loss = std::abs(run.outputs[0].template item<double>() / loss - 1);
  if (auxiliary_loss != 0)
    result.loss = std::max(result.loss, std::abs(run.auxiliary_loss / auxiliary_loss - 1));
  else
    EXPECT_EQ(run.auxiliary_loss, 0);
  EXPECT_EQ(run.gradients.size(), weights.size());
  EXPECT_EQ(gradients.size(), weights.size());
  for (const auto& [name, gradient] : gradients) {
    double norm = gradient.norm().template item<double>();
    double error =
        (run.gradients.at(name).to(at::kDouble) - gradient).norm().template item<double>() / norm;
    EXPECT_FALSE(std::isnan(error)) << name;
    EXPECT_GT(norm, 1e-3) << name << ": a gradient of nothing";
    result.gradient = std::max(result.gradient, error);
  }
  std::cout << model.name << " in " << name(toy.dtype) << ": relative difference of a loss "
            << result.loss << ", of a gradient " << result.gradient << "\n";
  return result;
}

void expect_autograd(Dtype dtype, Target target, double loss_tolerance, double gradient_tolerance) {
  for (Differences found : {compare(small_a(dtype), toy_a(small_a(dtype)), target),
                            compare(small_b(dtype), toy_b(small_b(dtype)), target)}) {
    EXPECT_LT(found.loss, loss_tolerance);
    EXPECT_LT(found.gradient, gradient_tolerance);
  }
}

TEST(Toys, AgreeWithAutogradInFloat64) {
  expect_autograd(Dtype::float64, Target::reference, 1e-13, 1e-13);
}
TEST(Toys, AgreeWithAutogradInFloat32) { expect_autograd(Dtype::float32, Target::cpu, 1e-5, 1e-5); }
TEST(Toys, AgreeWithAutogradInBfloat16) {
  if (!multiplies_bfloat16()) GTEST_SKIP() << "oneDNN has no bfloat16 products on this CPU";
  expect_autograd(Dtype::bfloat16, Target::cpu, 2e-2, 2e-2);
}

TEST(Toys, HaveTheTutorialsSizes) {
  EXPECT_EQ(count_parameters(toy_a({})).all, 10 * 2 * 256 * 1024);
  EXPECT_EQ(count_parameters(toy_b({})).all, 4 * 7168 * 7168);
}

TEST(Toys, TraceTheirLayers) {
  EXPECT_EQ(text(toy_a({}).stages[1].programs[0]), R"(program two_maps
  input x: f32[256,256]
  weight w1: f32[1024,256]
  weight w2: f32[256,1024]
  y = linear(x, w1) : f32[256,1024]
  linear = linear(y, w2) : f32[256,256]
  return linear
)");
  EXPECT_EQ(text(toy_b({}).stages[1].programs[0]), R"(program activated_map
  input x: f32[7168,7168]
  weight w: f32[7168,7168]
  l2_penalty = l2_penalty(w) {factor=0.001} : f32[]
  linear = linear(x, w) : f32[7168,7168]
  gelu = gelu(linear) : f32[7168,7168]
  return gelu l2_penalty
)");
  EXPECT_EQ(toy_a({}).stages[1].programs[0].labels(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(toy_b({}).stages[1].programs[0].labels(), std::vector<std::string>{"x"});
}

// The batch is nobody's result: the first layer gives it no gradient.
TEST(Toys, FirstLayerGivesItsInputNoGradient) {
  for (const Model& model : {toy_a({}), toy_b({})}) {
    const Stage& layers = model.stages[1];
    for (int layer = 0; layer < std::ssize(layers.layers); ++layer) {
      const Program& program = layers.program(layer);
      EXPECT_EQ(program[program.find("x")].needs_gradient, layer > 0) << model.name << " " << layer;
    }
  }
}

}  // namespace
}  // namespace longshore::models
