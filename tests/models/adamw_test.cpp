#include "models/ops/adamw.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <limits>

#include "models/ops/aten.h"
#include "models/trace.h"
#include "tests/models/harness.h"
#include "tests/models/op_cases.h"

namespace longshore::models {
namespace {

constexpr AdamW kAdamW{.b1 = 0.9, .b2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};

Program update(int64_t count, Dtype state, Dtype compute) {
  Trace t("update");
  auto range = [&](const char* name) { return t.input(name, {{count}, state}); };
  Var gradient = range("gradient");
  AdamWState in{range("master"), range("m"), range("v")};
  AdamWScalars scalars{t.scalar("rate"), t.scalar("correction_1"), t.scalar("correction_2"),
                       t.scalar("clip")};
  for (Var out : adamw(kAdamW, compute, gradient, in, scalars)) t.output(out);
  return t.finish();
}

double learning_rate(int step) { return 0.01 / step; }
double clip_factor(int step) { return step % 2 ? 1 : 0.25; }

at::Tensor scalar(double value) { return at::full({}, value, at::kFloat); }

// Five steps; the state after each, and what the copy for computing was last.
struct Trained {
  std::vector<at::Tensor> masters, ms, vs;
  at::Tensor compute;
};

at::Tensor gradient_of(int step, int64_t count, Dtype dtype) {
  return random_normal({{count}, dtype}, 30 + step);
}

Trained train(int64_t count, Dtype state, Dtype compute, Target target) {
  Program program = update(count, state, compute);
  auto output = [&](const Tensors& values, int i) {
    return values.at(program[program.outputs[i].value].name);
  };
  Type type{{count}, state};
  at::Tensor master = random_normal(type, 20), m = at::full({count}, 0, scalar_type(state)), v = m;
  Trained result;
  for (int step = 1; step <= 5; ++step) {
    Tensors values = run_program(program,
                                 {{"gradient", gradient_of(step, count, state)},
                                  {"master", master},
                                  {"m", m},
                                  {"v", v},
                                  {"rate", scalar(learning_rate(step))},
                                  {"correction_1", scalar(1 - std::pow(kAdamW.b1, step))},
                                  {"correction_2", scalar(1 - std::pow(kAdamW.b2, step))},
                                  {"clip", scalar(clip_factor(step))}},
                                 target, Checks::all);
    result.masters.push_back(master = output(values, 0));
    result.ms.push_back(m = output(values, 1));
    result.vs.push_back(v = output(values, 2));
    if (program.outputs.size() == 4) result.compute = output(values, 3);
  }
  return result;
}

// Algorithm 2 of Loshchilov & Hutter, with the decay scaled by the learning rate, as usual.
void expect_formula(const Trained& trained, int64_t count, Dtype state, double tolerance) {
  at::Tensor start = random_normal({{count}, state}, 20).to(at::kDouble);
  for (int64_t i = 0; i < count; ++i) {
    double p = start[i].item<double>(), m = 0, v = 0;
    for (int step = 1; step <= 5; ++step) {
      double g = gradient_of(step, count, state)[i].item<double>() * clip_factor(step);
      m = kAdamW.b1 * m + (1 - kAdamW.b1) * g;
      v = kAdamW.b2 * v + (1 - kAdamW.b2) * g * g;
      double m_hat = m / (1 - std::pow(kAdamW.b1, step));
      double v_hat = v / (1 - std::pow(kAdamW.b2, step));
      p -= learning_rate(step) *
           (m_hat / (std::sqrt(v_hat) + kAdamW.epsilon) + kAdamW.weight_decay * p);
      ASSERT_NEAR(trained.masters[step - 1][i].item<double>(), p, tolerance) << step << ", " << i;
      ASSERT_NEAR(trained.ms[step - 1][i].item<double>(), m, tolerance) << step << ", " << i;
      ASSERT_NEAR(trained.vs[step - 1][i].item<double>(), v, tolerance) << step << ", " << i;
    }
  }
}

TEST(AdamW, FollowsTheFormula) {
  constexpr int64_t kCount = 67;
  for (Dtype compute : {Dtype::float32, Dtype::bfloat16})
    expect_formula(train(kCount, Dtype::float32, compute, Target::cpu), kCount, Dtype::float32,
                   1e-6);
  // The scalars are float32, whatever the state is.
  expect_formula(train(kCount, Dtype::float64, Dtype::float64, Target::reference), kCount,
                 Dtype::float64, 1e-7);
}

TEST(AdamW, RoundsTheCopyForComputingFromTheMaster) {
  for (Target target : {Target::cpu, Target::reference}) {
    Trained trained = train(1001, Dtype::float32, Dtype::bfloat16, target);
    EXPECT_TRUE(equal_bits(trained.compute, trained.masters.back().to(at::kBFloat16)));
  }
}

TEST(AdamW, DoesNotDependOnTheThreads) {
  int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  Trained one = train(1001, Dtype::float32, Dtype::bfloat16, Target::cpu);
  for (int count : {2, 3}) {
    omp_set_num_threads(count);
    Trained several = train(1001, Dtype::float32, Dtype::bfloat16, Target::cpu);
    EXPECT_TRUE(equal_bits(one.masters.back(), several.masters.back())) << count;
    EXPECT_TRUE(equal_bits(one.vs.back(), several.vs.back())) << count;
  }
  omp_set_num_threads(threads);
}

at::Tensor sum_of_squares(const at::Tensor& x, Target target) {
  Trace t("norm");
  t.output(square_sum(t.input("x", type_of(x))));
  Program program = t.finish();
  return run_program(program, {{"x", x}}, target).at(program[program.outputs[0].value].name);
}

TEST(SquareSum, DoesNotDependOnTheThreads) {
  int threads = omp_get_max_threads();
  for (int64_t count : {int64_t{1}, int64_t{65537}, int64_t{400001}}) {
    at::Tensor x = random_normal({{count}, Dtype::float32}, 40);
    omp_set_num_threads(1);
    at::Tensor one = sum_of_squares(x, Target::cpu);
    for (int several : {2, 3}) {
      omp_set_num_threads(several);
      EXPECT_TRUE(equal_bits(one, sum_of_squares(x, Target::cpu))) << count << ", " << several;
    }
    double expected = x.to(at::kDouble).square().sum().item<double>();
    EXPECT_NEAR(one.item<double>() / expected, 1, 1e-12) << count;
  }
  omp_set_num_threads(threads);
}

TEST(SquareSum, HoldsWhatFloat32CannotSum) {
  // 2e38 squared overflows float32, and so would a sum of many.
  at::Tensor x = at::full({100000}, 2e38, at::kFloat);
  double large = x[0].item<double>();
  EXPECT_NEAR(sum_of_squares(x, Target::cpu).item<double>() / (1e5 * large * large), 1, 1e-12);
}

struct Clipped {
  double factor, norm;
};

Clipped clipped(double square_sum, double threshold, Target target) {
  Trace t("clip");
  Clip result = clip(t.input("square_sum", {{}, Dtype::float64}), threshold);
  t.output(result.factor);
  t.output(result.norm);
  Program program = t.finish();
  Tensors values =
      run_program(program, {{"square_sum", at::full({}, square_sum, at::kDouble)}}, target);
  auto output = [&](int i) {
    return values.at(program[program.outputs[i].value].name).item<double>();
  };
  return {output(0), output(1)};
}

TEST(Clip, ScalesLargeGradientsToTheThreshold) {
  for (Target target : {Target::cpu, Target::reference})
    for (auto [square_sum, threshold, factor, norm] :
         {std::array{9., 1.5, 0.5, 3.},
          {9., 3., 1., 3.},
          {9., 4., 1., 3.},
          {0., 1., 1., 0.},
          {9., 0., 1., 3.},
          {1e100, 1e10, 1e-40, std::numeric_limits<double>::infinity()}}) {
      Clipped found = clipped(square_sum, threshold, target);
      EXPECT_FLOAT_EQ(found.factor, factor) << square_sum << ", " << threshold;
      EXPECT_EQ(found.norm, norm) << square_sum << ", " << threshold;
    }
}

}  // namespace
}  // namespace longshore::models
