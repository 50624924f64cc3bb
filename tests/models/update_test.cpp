#include "longshore/models/ops/update/update.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <limits>

#include "longshore/base/error.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/block8.h"
#include "longshore/models/ops/square_sum/square_sum.h"
#include "longshore/models/ops/update/adamw.h"
#include "longshore/models/ops/update/lion.h"
#include "longshore/models/ops/update/sgd.h"
#include "tests/models/harness.h"
#include "tests/models/random_inputs.h"
#include "tests/models/update_program.h"

namespace longshore::models {
namespace {

// Those that compute in float32.
const KernelChoice kAllKernels[]{Target::cpu, Target::reference, Emulated::by_32, Emulated::by_256};

constexpr AdamW kAdamW{.b1 = 0.9, .b2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};

constexpr Lion kLion{.b1 = 0.9, .b2 = 0.99, .weight_decay = 0.1};
constexpr Sgd kSgd{.momentum = 0.9, .weight_decay = 0.1};

std::vector<Optimizer> optimizers() {
  return {adamw(kAdamW), lion(kLion), sgd(kSgd),
          sgd({.momentum = 0.9, .weight_decay = 0.1, .nesterov = true})};
}

// How an update is traced.
struct Variant {
  Optimizer optimizer = adamw(kAdamW);
  Dtype weight = Dtype::float32;
  StateFormat states = StateFormat::float32;
  Dtype compute = weight;
  Rounding rounding = {.seed = 0x123456789abcdef, .sequence = 7};

  bool has_scales() const { return states == StateFormat::block8; }
  UpdateFormats formats() const { return {weight, states, compute}; }
  // Outputs that take the place of inputs.
  size_t kept() const { return 1 + optimizer.rule->states.size() * (has_scales() ? 2 : 1); }
};

// All that round something.
std::vector<Variant> rounding_variants(const Optimizer& optimizer = adamw(kAdamW)) {
  std::vector<Variant> variants;
  for (StateFormat states : {StateFormat::float32, StateFormat::bfloat16, StateFormat::block8})
    for (Dtype weight : {Dtype::float32, Dtype::bfloat16})
      if (Variant variant{.optimizer = optimizer,
                          .weight = weight,
                          .states = states,
                          .compute = Dtype::bfloat16};
          variant.formats().rounds())
        variants.push_back(variant);
  return variants;
}

// The same, of every optimizer, and with a copy for computing what rounds nothing else.
std::vector<Variant> all_variants() {
  std::vector<Variant> variants;
  for (const Optimizer& optimizer : optimizers()) {
    for (const Variant& variant : rounding_variants(optimizer)) variants.push_back(variant);
    variants.push_back({.optimizer = optimizer, .compute = Dtype::bfloat16});
  }
  return variants;
}

std::string text(const Variant& variant) {
  return std::string(variant.optimizer.rule->name) + ", weight " + name(variant.weight) +
         ", states " + name(state_type(variant.states, 1).dtype);
}

at::Tensor scalar(double value) { return at::full({}, value, at::kFloat); }

// The outputs' order.
using State = std::vector<at::Tensor>;

State start(const Variant& variant, const at::Tensor& weight) {
  int64_t count = weight.size(0);
  bool wide = variant.weight == Dtype::float64;
  at::Tensor zeros =
      at::zeros({count}, wide ? at::kDouble : scalar_type(state_type(variant.states, count).dtype));
  State state{weight.to(scalar_type(variant.weight))};
  for (size_t i = 0; i < variant.optimizer.rule->states.size(); ++i) {
    state.push_back(zeros);
    if (variant.has_scales()) state.push_back(at::zeros({scale_type(count).shape[0]}, at::kFloat));
  }
  return state;
}

struct StepScalars {
  int step = 1;
  double learning_rate = 0.01, clip = 1;
};

// Returns the state, then the copy for computing where there is one.
State updated(const Variant& variant, const State& state, const at::Tensor& gradient,
              const StepScalars& scalars, const KernelChoice& kernels,
              Checks checks = Checks::memory) {
  const UpdateRule& rule = *variant.optimizer.rule;
  Program program =
      update_program(variant.optimizer, variant.formats(), gradient.size(0), variant.rounding);
  Tensors inputs{{"gradient", gradient},
                 {"learning_rate", scalar(scalars.learning_rate)},
                 {"clip", scalar(scalars.clip)},
                 {"step", at::full({}, scalars.step, at::kInt)}};
  for (size_t i = 0; i < rule.scalars.size(); ++i)
    inputs[rule.scalars[i]] = scalar(rule.scalar(variant.optimizer.numbers, i, scalars.step));
  size_t next = 0;
  inputs["weight"] = state[next++];
  for (const auto& [name, scale_name] : rule.states) {
    inputs[name] = state[next++];
    if (variant.has_scales()) inputs[scale_name] = state[next++];
  }
  Tensors values = run_program(program, inputs, kernels, checks);
  State result;
  for (const Output& output : program.outputs)
    result.push_back(values.at(program[output.value].name));
  return result;
}

// --- float32

double learning_rate(int step) { return 0.01 / step; }
double clip_factor(int step) { return step % 2 ? 1 : 0.25; }

at::Tensor gradient_of(int step, int64_t count, Dtype dtype = Dtype::float32) {
  return random_normal({{count}, dtype}, 30 + step);
}
at::Tensor first_weight(int64_t count, Dtype dtype = Dtype::float32) {
  return random_normal({{count}, dtype}, 20);
}

// Five steps; what each gives.
std::vector<State> train(const Variant& variant, int64_t count, const KernelChoice& kernels,
                         Checks checks = Checks::all) {
  Dtype wide = variant.weight == Dtype::float64 ? Dtype::float64 : Dtype::float32;
  std::vector<State> states{start(variant, first_weight(count, wide))};
  for (int step = 1; step <= 5; ++step)
    states.push_back(updated(variant, states.back(), gradient_of(step, count, wide),
                             {step, learning_rate(step), clip_factor(step)}, kernels, checks));
  states.erase(states.begin());
  return states;
}

// One element, in float64, with the steps' rates and clip factors. `g` is the clipped gradient.
using Formula = void (*)(double g, int step, double& p, std::vector<double>& states);

// Algorithm 2 of Loshchilov & Hutter, with the decay scaled by the learning rate, as usual.
void adamw_formula(double g, int step, double& p, std::vector<double>& states) {
  double &m = states[0], &v = states[1];
  m = kAdamW.b1 * m + (1 - kAdamW.b1) * g;
  v = kAdamW.b2 * v + (1 - kAdamW.b2) * g * g;
  double m_hat = m / (1 - std::pow(kAdamW.b1, step));
  double v_hat = v / (1 - std::pow(kAdamW.b2, step));
  p -=
      learning_rate(step) * (m_hat / (std::sqrt(v_hat) + kAdamW.epsilon) + kAdamW.weight_decay * p);
}

// Algorithm 2 of Chen et al.
void lion_formula(double g, int step, double& p, std::vector<double>& states) {
  double& m = states[0];
  const double c = kLion.b1 * m + (1 - kLion.b1) * g;
  p -= learning_rate(step) * ((c > 0) - (c < 0) + kLion.weight_decay * p);
  m = kLion.b2 * m + (1 - kLion.b2) * g;
}

// torch.optim.SGD's.
template <bool nesterov>
void sgd_formula(double g, int step, double& p, std::vector<double>& states) {
  g += kSgd.weight_decay * p;
  states[0] = kSgd.momentum * states[0] + g;
  p -= learning_rate(step) * (nesterov ? g + kSgd.momentum * states[0] : states[0]);
}

void expect_formula(const Variant& variant, Formula formula, const KernelChoice& kernels,
                    double tolerance) {
  constexpr int64_t kCount = 67;
  std::vector<State> trained = train(variant, kCount, kernels);
  Dtype dtype = variant.weight;
  at::Tensor first = first_weight(kCount, dtype).to(at::kDouble);
  for (int64_t i = 0; i < kCount; ++i) {
    double p = first[i].item<double>();
    std::vector<double> states(variant.optimizer.rule->states.size());
    for (int step = 1; step <= 5; ++step) {
      formula(gradient_of(step, kCount, dtype)[i].item<double>() * clip_factor(step), step, p,
              states);
      const State& found = trained[step - 1];
      ASSERT_NEAR(found[0][i].item<double>(), p, tolerance) << step << ", " << i;
      for (size_t k = 0; k < states.size(); ++k)
        ASSERT_NEAR(found[1 + k][i].item<double>(), states[k], tolerance) << step << ", " << i;
    }
  }
}

TEST(Update, FollowsTheFormula) {
  const std::vector<Optimizer> all = optimizers();
  const std::vector<Formula> formulas{adamw_formula, lion_formula, sgd_formula<false>,
                                      sgd_formula<true>};
  for (size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(all[i].rule->name);
    for (Dtype compute : {Dtype::float32, Dtype::bfloat16})
      for (KernelChoice kernels : {KernelChoice(Target::cpu), KernelChoice(Emulated::by_256)})
        expect_formula({.optimizer = all[i], .compute = compute}, formulas[i], kernels, 1e-6);
    // The scalars are float32, whatever the states are.
    expect_formula({.optimizer = all[i], .weight = Dtype::float64}, formulas[i], Target::reference,
                   1e-7);
  }
}

TEST(Update, RoundsTheCopyForComputingFromTheWeight) {
  for (KernelChoice kernels : kAllKernels)
    for (StateFormat states : {StateFormat::float32, StateFormat::block8}) {
      State last = train({.states = states, .compute = Dtype::bfloat16}, 1001, kernels).back();
      EXPECT_TRUE(equal_bits(last.back(), last[0].to(at::kBFloat16)));
    }
}

void expect_equal_states(const State& expected, const State& found) {
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(equal_bits(expected[i], found[i])) << "output " << i;
}

// Whatever the gradient holds; only the copy for computing is made.
TEST(Update, UpdatesNothingWhereTheClipFactorIsZero) {
  constexpr int64_t kCount = 1001;
  std::vector<Variant> variants = all_variants();
  variants.push_back({});
  for (const Variant& variant : variants)
    for (KernelChoice kernels : kAllKernels) {
      SCOPED_TRACE(text(variant));
      State before = train(variant, kCount, kernels).back();
      State after =
          updated(variant, before, at::full({kCount}, NAN), {6, learning_rate(6), 0}, kernels);
      expect_equal_states(before, after);
    }
}

TEST(Update, DoesNotDependOnTheThreads) {
  int threads = omp_get_max_threads();
  for (const Variant& variant : all_variants()) {
    omp_set_num_threads(1);
    State one = train(variant, 1001, Target::cpu).back();
    for (int count : {2, 3}) {
      SCOPED_TRACE(text(variant) + " with " + std::to_string(count) + " threads");
      omp_set_num_threads(count);
      expect_equal_states(one, train(variant, 1001, Target::cpu).back());
    }
  }
  omp_set_num_threads(threads);
}

// States may be updated on either.
TEST(Update, HasTheSameBitsOnProcessorsAndGpus) {
  for (const Variant& variant : all_variants()) {
    SCOPED_TRACE(text(variant));
    const std::vector<State> cpu = train(variant, 70001, Target::cpu);
    const std::vector<State> gpu = train(variant, 70001, Emulated::by_32);
    for (size_t step = 0; step < cpu.size(); ++step) expect_equal_states(cpu[step], gpu[step]);
  }
}

// --- with stochastic rounding

TEST(RoundedUpdate, PartsOfARangeGiveWhatTheWholeGives) {
  constexpr int64_t kCount = 1324, kFirst = 192;
  for (KernelChoice kernels : kAllKernels)
    for (Variant variant : all_variants()) {
      if (!variant.formats().rounds()) continue;
      SCOPED_TRACE(text(variant));
      variant.rounding.first = kFirst;
      State whole = train(variant, kCount, kernels, Checks::memory).back();
      std::vector<State> parts;
      for (auto [begin, end] : {std::pair{0, 256}, {256, 1024}, {1024, 1324}}) {
        variant.rounding.first = kFirst + begin;
        State part = start(variant, first_weight(kCount).slice(0, begin, end));
        for (int step = 1; step <= 5; ++step)
          part = updated(variant, part, gradient_of(step, kCount).slice(0, begin, end),
                         {step, learning_rate(step), clip_factor(step)}, kernels);
        parts.push_back(part);
      }
      State together;
      for (size_t i = 0; i < whole.size(); ++i)
        together.push_back(at::cat({parts[0][i], parts[1][i], parts[2][i]}));
      expect_equal_states(whole, together);
    }
}

TEST(RoundedUpdate, EachPartOfTheAddressGivesOtherRoundings) {
  for (const Variant& variant : rounding_variants()) {
    SCOPED_TRACE(text(variant));
    // b^step leaves the update alone here.
    auto after = [](Variant changed, int step) {
      changed.optimizer = adamw({.b1 = 0, .b2 = 0, .epsilon = 1e-8, .weight_decay = 0.1});
      return updated(changed, start(changed, first_weight(512)), gradient_of(1, 512),
                     {.step = step}, Target::cpu)[0 + (changed.weight == Dtype::float32)];
    };
    std::vector<at::Tensor> found{after(variant, 1), after(variant, 2)};
    Variant seed = variant, high = variant, sequence = variant, first = variant;
    ++seed.rounding.seed;
    high.rounding.seed += int64_t{1} << 32;
    ++sequence.rounding.sequence;
    first.rounding.first = 64;
    for (const Variant& other : {seed, high, sequence, first}) found.push_back(after(other, 1));
    for (size_t i = 0; i < found.size(); ++i)
      for (size_t k = 0; k < i; ++k) EXPECT_FALSE(equal_bits(found[i], found[k])) << i << k;
  }
}

// Sums in which every product is exact, so that all kernels compute the same numbers.
TEST(RoundedUpdate, AllKernelsRoundAlike) {
  constexpr int64_t kCount = 700;
  std::vector<Variant> variants;
  for (const Optimizer& optimizer :
       {adamw({.b1 = 0.5, .b2 = 0.5, .epsilon = 1e-8, .weight_decay = 0.1}),
        lion({.b1 = 0.5, .b2 = 0.5, .weight_decay = 0.1}),
        sgd({.momentum = 0.5, .weight_decay = 0}),
        sgd({.momentum = 0.5, .weight_decay = 0, .nesterov = true})})
    for (const Variant& variant : rounding_variants(optimizer)) variants.push_back(variant);
  for (Variant variant : variants) {
    SCOPED_TRACE(text(variant));
    variant.rounding.first = 192;
    State state = start(variant, first_weight(kCount));
    for (int step = 1; step <= 20; ++step) {
      // A wide range of magnitudes, eight bits each.
      at::Tensor g = (gradient_of(step, kCount) * gradient_of(step + 1, kCount).mul(4).exp2())
                         .to(at::kBFloat16)
                         .to(at::kFloat);
      StepScalars scalars{step, 0.01, 0.5};
      State cpu = updated(variant, state, g, scalars, Target::cpu, Checks::all);
      for (KernelChoice other : kAllKernels) {
        State found = updated(variant, state, g, scalars, other, Checks::all);
        for (size_t i = 1; i < variant.kept(); ++i)
          ASSERT_TRUE(equal_bits(cpu[i], found[i])) << "output " << i << ", step " << step;
        if (variant.weight == Dtype::bfloat16) {
          at::Tensor apart = (cpu[0].view(at::kShort) - found[0].view(at::kShort)).abs();
          ASSERT_LE(apart.max().item<int>(), 1);
          ASSERT_LE(apart.sum().item<int>(), kCount / 100);
        } else {
          ASSERT_LE(difference(cpu[0], found[0]), 1e-6);
        }
      }
      state = cpu;
      state.resize(variant.kept());
    }
  }
}

struct MomentSums {
  double m, v;
};

MomentSums moment_sums(const Variant& variant, const State& state) {
  if (!variant.has_scales())
    return {state[1].to(at::kDouble).sum().item<double>(),
            state[2].to(at::kDouble).sum().item<double>()};
  MomentSums sums{0, 0};
  at::Tensor ms = state[1], vs = state[3];
  for (int64_t i = 0; i < ms.size(0); ++i) {
    sums.m += FirstMoment8::decode(ms[i].item<int>()) * state[2][i / kBlock8].item<double>();
    sums.v += SecondMoment8::decode(vs[i].item<int>()) * state[4][i / kBlock8].item<double>();
  }
  return sums;
}

TEST(RoundedUpdate, SlowDecayDoesNotStall) {
  constexpr int64_t kCount = 4096;
  constexpr int kSteps = 300;
  for (Variant variant : rounding_variants()) {
    if (variant.states == StateFormat::float32) continue;
    SCOPED_TRACE(text(variant));
    variant.optimizer = adamw({.b1 = 0.999, .b2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.1});
    at::Tensor gradient = gradient_of(1, kCount).abs();
    State state = updated(variant, start(variant, first_weight(kCount)), gradient, {}, Target::cpu);
    MomentSums before = moment_sums(variant, state);
    for (int step = 2; step <= kSteps + 1; ++step)
      state = updated(variant, state, at::zeros({kCount}), {.step = step}, Target::cpu);
    double left = std::pow(0.999, kSteps);
    MomentSums after = moment_sums(variant, state);
    EXPECT_NEAR(after.m / before.m, left, 0.01);
    EXPECT_NEAR(after.v / before.v, left, 0.02);
  }
}

// Steps of a fiftieth of what separates bfloat16 numbers near 1.
TEST(RoundedUpdate, WeightsMoveWhereRoundingToNearestStalls) {
  constexpr int64_t kCount = 4096;
  constexpr int kSteps = 100;
  constexpr double kRate = 1. / 256 / 50;
  at::Tensor gradient = at::full({kCount}, 1, at::kFloat), ones = at::full({kCount}, 1, at::kFloat);
  Variant narrow{.weight = Dtype::bfloat16}, wide;
  narrow.optimizer.weight_decay = wide.optimizer.weight_decay = 0;
  for (KernelChoice kernels : kAllKernels) {
    State rounded = start(narrow, ones), nearest = start(wide, ones);
    for (int step = 1; step <= kSteps; ++step) {
      StepScalars scalars{step, kRate, 1};
      rounded = updated(narrow, rounded, gradient, scalars, kernels);
      nearest = updated(wide, nearest, gradient, scalars, kernels);
      nearest[0] = nearest[0].to(at::kBFloat16).to(at::kFloat);
    }
    EXPECT_TRUE(equal_bits(nearest[0], ones));
    double moved = 1 - rounded[0].to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(moved / (kSteps * kRate), 1, 0.03);
  }
}

TEST(RoundedUpdate, ZeroGradientsChangeNothing) {
  for (KernelChoice kernels : kAllKernels)
    for (Variant variant : rounding_variants()) {
      SCOPED_TRACE(text(variant));
      variant.optimizer.weight_decay = 0;
      State before = start(variant, first_weight(300));
      State after = updated(variant, before, at::zeros({300}), {}, kernels, Checks::all);
      after.resize(before.size());
      expect_equal_states(before, after);
    }
}

TEST(RoundedUpdate, ANanSpoilsItsBlockAlone) {
  for (KernelChoice kernels : kAllKernels)
    for (double fault :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      Variant variant{.weight = Dtype::bfloat16, .states = StateFormat::block8};
      at::Tensor gradient = gradient_of(1, 700);
      gradient[300] = fault;
      State state =
          updated(variant, start(variant, first_weight(700)), gradient, {}, kernels, Checks::all);
      for (int scale : {2, 4}) {
        EXPECT_TRUE(std::isnan(state[scale][1].item<float>()));
        EXPECT_EQ(state[scale].isnan().sum().item<int>(), 1);
      }
      EXPECT_EQ(state[0].isnan().sum().item<int>(), 1);
      state = updated(variant, state, gradient_of(2, 700), {.step = 2}, kernels);
      EXPECT_EQ(state[0].isnan().sum().item<int>(), 256);
      EXPECT_EQ(state[0].slice(0, 256, 512).isnan().sum().item<int>(), 256);
    }
}

// A noisy quadratic, its curvatures two orders of magnitude apart. Its noise
// leaves a loss well above what the gaps between bfloat16 weights add to any.
double final_loss(const Variant& variant) {
  constexpr int64_t kCount = 1024;
  constexpr int kSteps = 300;
  at::Tensor curvature = random_normal({{kCount}, Dtype::float32}, 50).exp();
  at::Tensor target = random_normal({{kCount}, Dtype::float32}, 51);
  State state = start(variant, at::zeros({kCount}));
  auto distance = [&] { return state[0].to(at::kFloat) - target; };
  for (int step = 1; step <= kSteps; ++step) {
    at::Tensor noise = random_normal({{kCount}, Dtype::float32}, 100 + step);
    double rate = 0.05 * (1 - (step - 1.) / kSteps);
    state =
        updated(variant, state, curvature * (distance() + 2 * noise), {step, rate, 1}, Target::cpu);
  }
  return (distance().square() * curvature).mean().item<double>();
}

TEST(RoundedUpdate, LearnsAsWellAsFloat32) {
  auto without_decay = [](Variant variant) {
    variant.optimizer.weight_decay = 0;
    return variant;
  };
  double expected = final_loss(without_decay({}));
  EXPECT_LT(expected, 0.1);  // from 3
  for (const Variant& variant : rounding_variants()) {
    double found = final_loss(without_decay(variant));
    std::printf("%s: loss %.5f, in float32 %.5f\n", text(variant).c_str(), found, expected);
    EXPECT_NEAR(found / expected, 1, 0.04) << text(variant);
  }
}

TEST(RoundedUpdate, RefusesWhatDoesNotFit) {
  struct Case {
    const char* what;
    std::vector<Type> in;
    Rounding rounding = {};
    Dtype compute = Dtype::bfloat16;
  };
  const Type f32{{300}, Dtype::float32}, bf16{{300}, Dtype::bfloat16}, u8{{300}, Dtype::uint8};
  const Type number{}, step{{}, Dtype::int32}, scales = scale_type(300);
  EXPECT_EQ(scales, (Type{{2}, Dtype::float32}));
  auto infer = [](const Case& c) {
    Trace t("refused");
    std::vector<Var> in;
    for (const Type& type : c.in) in.push_back(t.input("in" + std::to_string(in.size()), type));
    const size_t each = in.size() == 11 ? 2 : 1, scalars = 2 + 2 * each;
    UpdateOperands at{.gradient = in[0],
                      .weight = in[1],
                      .states = {{in[2], {}}, {in[2 + each], {}}},
                      .learning_rate = in[scalars],
                      .scalars = {in[scalars + 1], in[scalars + 2]},
                      .clip = in[scalars + 3],
                      .step = {}};
    if (each == 2) at.states[0].scales = in[3], at.states[1].scales = in[5];
    if (in.size() > scalars + 4) at.step = in[scalars + 4];
    update(adamw(kAdamW), c.compute, at, c.rounding);
  };
  const std::vector<Type> good{f32, bf16, bf16, bf16, number, number, number, number, step};
  const std::vector<Type> good8{f32,    f32,    u8,     scales, u8,  scales,
                                number, number, number, number, step};
  EXPECT_NO_THROW(infer({"", good, {.first = 64}}));
  EXPECT_NO_THROW(infer({"", good8}));
  auto with = [](std::vector<Type> types, int i, const Type& type) {
    types[i] = type;
    return types;
  };
  for (const Case& c : {
           Case{"a step for nothing", {f32, f32, f32, f32, number, number, number, number, step}},
           Case{"no step", {f32, bf16, f32, f32, number, number, number, number}},
           Case{"a step in f32", with(good, 8, number)},
           Case{"a bf16 gradient", with(good, 0, bf16)},
           Case{"moments that differ", with(good, 3, f32)},
           Case{"moments of another size", with(with(good, 2, number), 3, number)},
           Case{"8 bits without scales", with(with(good, 2, u8), 3, u8)},
           Case{"scales of bf16 moments", with(with(good8, 2, bf16), 4, bf16)},
           Case{"too few scales", with(good8, 5, scale_type(256))},
           Case{"an odd start", good, {.first = 65}},
           Case{"a negative start", good, {.first = -64}},
           Case{"a range beyond the counter", good, {.first = (int64_t{1} << 33) - 256}},
           Case{"a copy of a bf16 weight", good, {}, Dtype::float32},
       })
    EXPECT_THROW(infer(c), InternalError) << c.what;
}

// --- the norm

at::Tensor sum_of_squares(const at::Tensor& x, const KernelChoice& kernels) {
  Trace t("norm");
  t.output(square_sum(t.input("x", type_of(x))));
  Program program = t.finish();
  return run_program(program, {{"x", x}}, kernels).at(program[program.outputs[0].value].name);
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

Clipped clipped(const std::vector<double>& square_sums, double threshold,
                const KernelChoice& kernels) {
  at::Tensor sums = at::tensor(square_sums, at::kDouble);
  Trace t("clip");
  Clip result = clip(t.input("square_sums", type_of(sums)), threshold);
  t.output(result.factor);
  t.output(result.norm);
  Program program = t.finish();
  Tensors values = run_program(program, {{"square_sums", sums}}, kernels);
  auto output = [&](int i) {
    return values.at(program[program.outputs[i].value].name).item<double>();
  };
  return {output(0), output(1)};
}

TEST(Clip, ScalesLargeGradientsToTheThreshold) {
  for (KernelChoice kernels : kAllKernels)
    for (auto [square_sum, threshold, factor, norm] :
         {std::array{9., 1.5, 0.5, 3.},
          {9., 3., 1., 3.},
          {9., 4., 1., 3.},
          {0., 1., 1., 0.},
          {9., 0., 1., 3.},
          {1e100, 1e10, 1e-40, std::numeric_limits<double>::infinity()},
          {HUGE_VAL, 1., 0., HUGE_VAL}}) {
      Clipped found = clipped({square_sum}, threshold, kernels);
      EXPECT_FLOAT_EQ(found.factor, factor) << square_sum << ", " << threshold;
      EXPECT_EQ(found.norm, norm) << square_sum << ", " << threshold;
    }
}

TEST(Clip, TakesAnyNumberOfSumsInOrder) {
  for (KernelChoice kernels : kAllKernels) {
    Clipped nan = clipped({1, NAN}, 1, kernels);
    EXPECT_EQ(nan.factor, 0);
    EXPECT_TRUE(std::isnan(nan.norm));
    Clipped found = clipped({1, 2, 5, 1}, 1, kernels);
    EXPECT_EQ(found.norm, 3);
    EXPECT_FLOAT_EQ(found.factor, 1. / 3);
    // No squares, but any other order loses the 4.
    EXPECT_EQ(clipped({1e20, -1e20, 4}, 1, kernels).norm, 2);
    // float32 cannot hold this norm, but the factor.
    EXPECT_FLOAT_EQ(clipped({1e90, 3e90, 0}, 1e10, kernels).factor, 5e-36);
  }
}

}  // namespace
}  // namespace longshore::models
