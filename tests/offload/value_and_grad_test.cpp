// Networks that no decoder has, whose gradients are the cotangents themselves, shared by weights,
// or added up over stages: against differences of their losses.
#include "longshore/offload/execution/value_and_grad.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "longshore/base/error.h"
#include "longshore/models/families/toys.h"
#include "longshore/models/ir/add.h"
#include "longshore/models/ir/stages.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/gelu.h"
#include "longshore/models/ops/l2_penalty.h"
#include "longshore/models/ops/linear/linear.h"
#include "longshore/models/ops/scale.h"
#include "longshore/models/ops/sum.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/offload/lowering/scan.h"
#include "tests/message_of.h"
#include "tests/models/cpu_dtypes.h"
#include "tests/offload/toy_models.h"

namespace longshore::offload {
namespace {

using testing::HasSubstr;

using models::Model;
using models::OutputRole;
using models::Trace;
using models::Type;
using models::Var;
using models::Weight;

const Type kSquare{{2, 2}};
const Weight kTrained{.init = {models::Init::Kind::normal, 0.02}};

// x -> the layers -> sum(gelu(o)), each a stage of its own.
Model network(std::vector<models::Program> layers) {
  std::vector<models::Stage> stages;
  auto add_stage = [&](models::Program program) {
    const int number = static_cast<int>(stages.size());
    std::vector<models::StageInput> inputs;
    if (number > 0) inputs = {{number - 1, 0}};
    stages.push_back(models::run_once(std::move(program), std::move(inputs)));
  };
  Trace input("input");
  input.output(input.batch("x", kSquare));
  add_stage(input.finish());
  for (models::Program& layer : layers) add_stage(std::move(layer));
  Trace loss("loss");
  loss.output(models::sum(models::gelu(loss.input("o", kSquare))), OutputRole::loss);
  add_stage(loss.finish());
  return models::connected("network", std::move(stages));
}

// `make(trace, x)` gives what the layer does to x.
template <class Make>
models::Program layer(const std::string& name, Make make) {
  Trace t(name);
  t.output(make(t, t.input("x", kSquare)));
  return t.finish();
}

Runtime cpu_runtime() {
  Runtime runtime;
  runtime.backend = make_cpu_backend();
  return runtime;
}

void expect_gradients(const Model& model, const std::vector<std::string>& weights,
                      const Homes& homes = {}) {
  Runtime runtime = cpu_runtime();
  ValueAndGrad function(runtime, model, {.policy = keep_all(), .homes = homes});
  std::map<std::string, std::vector<float>> values;
  float next = 1;
  for (const std::string& weight : weights) {
    for (int i = 0; i < 4; ++i) values[weight].push_back(0.3f * std::sin(next++));
    function.set_parameter(weight, values[weight]);
  }
  function.set_batch("x", std::vector<float>{0.5f, -0.2f, 0.1f, 0.9f});
  function();
  std::map<std::string, std::vector<float>> gradients;
  for (const std::string& weight : weights) gradients[weight] = function.gradient(weight);
  for (const std::string& weight : weights)
    for (int i = 0; i < 4; ++i) {
      constexpr float kStep = 1e-2f;
      std::vector<float> moved = values[weight];
      auto loss_at = [&](float value) {
        moved[i] = value;
        function.set_parameter(weight, moved);
        return function();
      };
      const float at = values[weight][i];
      const double slope = (loss_at(at + kStep) - loss_at(at - kStep)) / (2 * kStep);
      function.set_parameter(weight, values[weight]);
      EXPECT_NEAR(gradients[weight][i], slope, 2e-3) << weight << " " << i;
    }
}

const Homes kGradientsOnHost{.gradients = MemoryKind::pinned_host};

TEST(ValueAndGrad, GivesACotangentAsAWeightsGradient) {
  const Model model = network({layer("layer", [](Trace& t, Var x) {
    Var weight = t.weight("w1", kSquare, kTrained), bias = t.weight("w2", kSquare, kTrained);
    return models::add(models::linear(x, weight), bias);
  })});
  expect_gradients(model, {"w1", "w2"});
  expect_gradients(model, {"w1", "w2"}, kGradientsOnHost);
}

TEST(ValueAndGrad, GivesOneValueAsTwoWeightsGradients) {
  const Model model = network({layer("layer", [](Trace& t, Var x) {
    Var a = t.weight("w1", kSquare, kTrained), b = t.weight("w2", kSquare, kTrained);
    return models::add(models::linear(x, models::add(a, b)), x);
  })});
  expect_gradients(model, {"w1", "w2"});
  expect_gradients(model, {"w1", "w2"}, kGradientsOnHost);
}

// b's gradient has the gradient of a + b and more: the sum must not overwrite a's, nor what a's is
// added up from. The one that is declared first is the first to look for its place.
TEST(ValueAndGrad, KeepsAGradientThatAnotherIsAddedUpFrom) {
  for (bool is_a_first : {true, false})
    for (bool has_a_more : {false, true}) {
      SCOPED_TRACE(std::to_string(is_a_first) + " " + std::to_string(has_a_more));
      const Model model = network({layer("layer", [&](Trace& t, Var x) {
        Var first = t.weight("w1", kSquare, kTrained), second = t.weight("w2", kSquare, kTrained);
        Var a = is_a_first ? first : second, b = is_a_first ? second : first;
        Var product = models::linear(has_a_more ? models::linear(x, a) : x, b);
        Var sum = models::add(a, b);
        return models::linear(product, sum);
      })});
      expect_gradients(model, {"w1", "w2"});
    }
}

TEST(ValueAndGrad, AddsToWhatALaterStageLeft) {
  std::vector<models::Program> layers;
  for (const char* name : {"first", "second"})
    layers.push_back(layer(name, [](Trace& t, Var x) {
      Var weight = t.weight("w", kSquare, kTrained);
      return models::gelu(models::linear(x, models::scale(weight, 2)));
    }));
  const Model model = network(std::move(layers));
  expect_gradients(model, {"w"});
  expect_gradients(model, {"w"}, kGradientsOnHost);
}

// One layer of a scan adds to what a later stage left, the other begins a gradient of its own.
TEST(ValueAndGrad, AddsToWhatALaterStageLeftOfOneLayer) {
  std::vector<models::Program> layers;
  for (const char* weight : {"first", "w", "layers.0.w"})
    layers.push_back(layer(weight, [&](Trace& t, Var x) {
      return models::add(x, models::linear(x, t.weight(weight, kSquare, kTrained)));
    }));
  Model model = network(std::move(layers));
  model.stages[2].weight_prefix = "layers.{}.";
  model.stages[2].layers = {0, 0};
  models::connect(model);
  expect_gradients(model, {"first", "layers.0.w", "layers.1.w"});
}

// What earlier layers get is a weight's gradient as well, and the weight is used once more there.
TEST(ValueAndGrad, KeepsACotangentThatIsAWeightsGradientToo) {
  std::vector<models::Program> layers;
  layers.push_back(layer("first", [](Trace& t, Var x) {
    Var v = t.weight("v", kSquare, kTrained), w = t.weight("w", kSquare, kTrained);
    return models::add(models::scale(v, 2), models::add(x, w));
  }));
  layers.push_back(layer("second", [](Trace& t, Var x) {
    return models::scale(models::add(x, t.weight("w", kSquare, kTrained)), 1.5);
  }));
  const Model model = network(std::move(layers));
  expect_gradients(model, {"v", "w"});
  expect_gradients(model, {"v", "w"}, kGradientsOnHost);
}

// The first loss of its role is where later ones are added, but not for those who read it.
TEST(ValueAndGrad, KeepsALossThatIsReadFromLaterOnes) {
  std::vector<models::Program> layers;
  Trace first("first");
  Var y = models::linear(first.input("x", kSquare), first.weight("w1", kSquare, kTrained));
  Var sum = models::sum(y);
  first.output(y);
  first.output(sum, OutputRole::auxiliary_loss);
  first.output(models::gelu(sum), OutputRole::loss);
  layers.push_back(first.finish());
  Trace second("second");
  Var weight = second.weight("w2", kSquare, kTrained);
  second.output(models::linear(second.input("x", kSquare), weight));
  second.output(models::l2_penalty(weight, 5), OutputRole::auxiliary_loss);
  layers.push_back(second.finish());
  expect_gradients(network(std::move(layers)), {"w1", "w2"});
}

// Copies each gradient where the pass tells that it is final: once, and nothing writes it later.
TEST(Scan, TellsOfEachGradientOnceWhenItIsFinal) {
  models::DecoderConfig tied = tiny_llama();
  tied.tied_embeddings = true;
  for (const Model& model : {models::decoder(tied), network({layer("layer", [](Trace&t, Var x) {
                               Var a = t.weight("w1", kSquare, kTrained),
                                   b = t.weight("w2", kSquare, kTrained);
                               return models::add(models::linear(x, models::add(a, b)),
                                                  t.weight("w3", kSquare, kTrained));
                             })})}) {
    const ParameterLayout layout = lay_out(model);
    PlanBuilder builder("plan", models::Target::cpu);
    PassOperands operands(layout, builder, GradientOwner::caller, {});
    Scan scan(model, operands, builder);
    std::map<std::string, int> told;
    scan.train(
        {.policy = keep_all(),
         .on_parameter_gradient = [&](const ParameterLayout::Location& at, const Scope& scope) {
           const Parameter& parameter = layout.parameter(at);
           const Type type{parameter.type.shape};
           ++told[parameter.name];
           builder.move(operands.range(at.bucket, Copy::gradient, parameter.offset, type),
                        builder.temporary("final", type, MemoryKind::device, Category::temporaries),
                        scope);
         }});
    std::map<std::string, int> once;
    for (const auto& [name, location] : layout.by_name) once[name] = 1;
    EXPECT_EQ(told, once);
    const Plan plan = builder.finish();
    std::vector<Operand> final_gradients;
    for (const Instruction& instruction : plan.instructions) {
      for (const Operand& out : instruction.out)
        for (const Operand& gradient : final_gradients)
          EXPECT_FALSE(out.buffer == gradient.buffer && out.offset == gradient.offset)
              << instruction.name << " of " << instruction.scope.stage;
      if (instruction.name == "final") final_gradients.push_back(instruction.in[0]);
    }
    EXPECT_EQ(final_gradients.size(), once.size());
  }
}

TEST(ValueAndGrad, RefusesWhatNoLossDependsOn) {
  const Model model = network({layer("layer", [](Trace& t, Var x) {
    t.weight("unused", kSquare, kTrained);
    return models::linear(x, t.weight("w", kSquare, kTrained));
  })});
  Runtime runtime = cpu_runtime();
  try {
    ValueAndGrad(runtime, model, {.policy = keep_all()});
    ADD_FAILURE() << "accepted";
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), HasSubstr("parameter unused trains"));
  }
}

TEST(ValueAndGrad, AddsUpLossesOfOneRole) {
  Trace t("layer");
  Var x = t.input("x", kSquare);
  Var a = t.weight("w1", kSquare, kTrained), b = t.weight("w2", kSquare, kTrained);
  t.output(models::linear(models::linear(x, a), b));
  t.output(models::l2_penalty(a, 1), OutputRole::auxiliary_loss);
  t.output(models::l2_penalty(b, 1), OutputRole::auxiliary_loss);
  std::vector<models::Program> layers;
  layers.push_back(t.finish());
  Runtime runtime = cpu_runtime();
  ValueAndGrad function(runtime, network(std::move(layers)), {.policy = keep_all()});
  function.set_parameter("w1", std::vector<float>(4, 1));
  function.set_parameter("w2", std::vector<float>(4, 2));
  function.set_batch("x", std::vector<float>(4, 0));
  EXPECT_EQ(function(), 4 * 1 + 4 * 4);
}

constexpr Weight kFrozen{.trainable = models::Trainable::no, .init = {models::Init::Kind::zeros}};

TEST(ValueAndGrad, ListsTheNamesThatThereAre) {
  const Model model = network({layer("layer", [](Trace& t, Var x) {
    return models::linear(models::linear(x, t.weight("w1", kSquare, kTrained)),
                          t.weight("w2", kSquare, kTrained));
  })});
  Runtime runtime = cpu_runtime();
  ValueAndGrad function(runtime, model, {.policy = keep_all()});
  const std::vector<float> values(4, 0);
  EXPECT_EQ(message_of<UsageError>([&] { function.set_parameter("w3", values); }),
            "no parameter is named 'w3'; there are w1, w2");
  EXPECT_EQ(message_of<UsageError>([&] { (void)function.gradient("x"); }),
            "no parameter is named 'x'; there are w1, w2");
  EXPECT_EQ(message_of<UsageError>([&] { function.set_batch("y", values); }),
            "no batch input is named 'y'; there are x");
}

TEST(ValueAndGrad, RefusesAnotherNumberOfValues) {
  const Model model = network({layer("layer", [](Trace& t, Var x) {
    return models::linear(x, t.weight("w", kSquare, kTrained));
  })});
  Runtime runtime = cpu_runtime();
  ValueAndGrad function(runtime, model, {.policy = keep_all()});
  const std::vector<float> values(3, 0);
  EXPECT_EQ(message_of<UsageError>([&] { function.set_parameter("w", values); }),
            "w: expected f32[2,2], found 3 values");
  EXPECT_EQ(message_of<UsageError>([&] { function.set_batch("x", values); }),
            "x: expected f32[2,2], found 3 values");
}

TEST(ValueAndGrad, RoundsValuesToBfloat16) {
  for (models::Dtype dtype : models::cpu_dtypes()) {
    Runtime runtime = cpu_runtime();
    const Model model =
        models::toy_a({.rows = 2, .width = 2, .inner = 2, .layers = 1, .dtype = dtype});
    ValueAndGrad function(runtime, model, {.policy = keep_all()});
    const bool is_narrow = dtype == models::Dtype::bfloat16;
    const float one = is_narrow ? 1 + 1.0f / 1024 : 1;  // which is 1 in bfloat16
    function.set_batch("x", std::vector<float>(4, one));
    function.set_parameter("layers.0.w1", std::vector<float>(4, one / 2));
    function.set_parameter("layers.0.w2", std::vector<float>(4, one / 4));
    EXPECT_EQ(function(), 2) << models::name(dtype);
  }
}

// Values of 8 bytes, and of 4 that are no float32.
TEST(ValueAndGrad, RefusesTypesThatValuesAreNotRoundedTo) {
  const Model model = network({layer("layer", [](Trace& t, Var x) {
    t.weight("wide", {{2, 2}, models::Dtype::float64}, kFrozen);
    t.batch("ids", {{2, 2}, models::Dtype::int32});
    return models::linear(x, t.weight("w", kSquare, kTrained));
  })});
  Runtime runtime = cpu_runtime();
  ValueAndGrad function(runtime, model, {.policy = keep_all()});
  const std::vector<float> values(4, 1);
  EXPECT_EQ(message_of<UsageError>([&] { function.set_parameter("wide", values); }),
            "wide: float32 values are given for f64[2,2]; expected a type of f32 or bf16");
  EXPECT_EQ(message_of<UsageError>([&] { function.set_batch("ids", values); }),
            "ids: float32 values are given for i32[2,2]; expected a type of f32 or bf16");
  EXPECT_EQ(message_of<UsageError>([&] { (void)function.gradient("wide"); }),
            "wide: it is frozen, so it has no gradient");
}

TEST(Model, RefusesAStageWithoutLayers) {
  Model model = network({layer("layer", [](Trace& t, Var x) {
    return models::linear(x, t.weight("w", kSquare, kTrained));
  })});
  model.stages[1].layers.clear();
  EXPECT_THROW(models::connect(model), InternalError);
}

}  // namespace
}  // namespace longshore::offload
