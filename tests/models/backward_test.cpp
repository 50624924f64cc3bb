#include "longshore/models/ir/backward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "longshore/base/error.h"
#include "longshore/models/families/decoder.h"
#include "longshore/models/ir/add.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/embedding/embedding.h"
#include "longshore/models/ops/linear/linear.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "longshore/models/ops/rms_norm/rms_norm.h"
#include "longshore/models/ops/rows/rows.h"
#include "longshore/models/ops/swiglu.h"

namespace longshore::models {
namespace {

using testing::HasSubstr;

Weight weight(Trainable trainable) { return {.trainable = trainable, .init = {}}; }

// y = linear(swiglu(linear(x, gate), linear(x, up)), down)
Program mlp(Trainable gate, Trainable down) {
  Trace t("mlp");
  Var x = t.input("x", {{1, 2, 4}, Dtype::bfloat16});
  Var g = linear(x, t.weight("gate", {{6, 4}, Dtype::bfloat16}, weight(gate)));
  Var u = linear(x, t.weight("up", {{6, 4}, Dtype::bfloat16}, weight(gate)));
  t.output(t.label(linear(swiglu(t.label(g, "mlpwi_0"), t.label(u, "mlpwi_1")),
                          t.weight("down", {{4, 6}, Dtype::bfloat16}, weight(down))),
                   "mlpwo"));
  return t.finish();
}

// The text of the nodes alone.
std::string nodes_of(const Program& program) {
  std::string lines;
  for (const Node& node : program.nodes) lines += text(program, node) + "\n";
  return lines;
}

// Names of the forward values that backward nodes read.
std::set<std::string> residuals(const Program& forward, const BackwardProgram& backward) {
  std::set<std::string> names;
  for (const Node& node : backward.program.nodes)
    for (ValueId id : node.in)
      if (id.index < static_cast<int32_t>(forward.values.size())) names.insert(forward[id].name);
  return names;
}

std::set<std::string> with_gradient(const Program& forward, const BackwardProgram& backward) {
  std::set<std::string> names;
  for (const GradientOf& gradient : backward.gradients) names.insert(forward[gradient.of].name);
  return names;
}

TEST(Backward, EmitsTheWeightsGradientBeforeTheInputs) {
  Program forward = mlp(Trainable::yes, Trainable::yes);
  BackwardProgram result = backward(forward);
  EXPECT_NO_THROW(verify(result.program));
  EXPECT_EQ(nodes_of(result.program),
            R"(down.grad = linear_weight_grad(mlpwo.grad, swiglu) {f32} : f32[4,6]
swiglu.grad = linear_input_grad(mlpwo.grad, down) : bf16[1,2,6]
mlpwi_0.grad, mlpwi_0.grad.1 = swiglu_grad(swiglu.grad, mlpwi_0, mlpwi_1) : bf16[1,2,6], bf16[1,2,6]
up.grad = linear_weight_grad(mlpwi_0.grad.1, x) {f32} : f32[6,4]
x.grad = linear_input_grad(mlpwi_0.grad.1, up) : bf16[1,2,4]
gate.grad = linear_weight_grad(mlpwi_0.grad, x) {f32} : f32[6,4]
x.grad_2 = linear_input_grad(mlpwi_0.grad, gate, x.grad) : bf16[1,2,4]
)");
  EXPECT_EQ(result.program.name, "mlp.backward");
  ASSERT_EQ(result.cotangents.size(), 1u);
  EXPECT_EQ(result.program[result.cotangents[0]].source, Source::cotangent);
}

TEST(Backward, KeepsTheForwardValuesIds) {
  Program forward = mlp(Trainable::yes, Trainable::yes);
  BackwardProgram result = backward(forward);
  ASSERT_GE(result.program.values.size(), forward.values.size());
  for (size_t i = 0; i < forward.values.size(); ++i) {
    EXPECT_EQ(result.program.values[i].name, forward.values[i].name);
    EXPECT_EQ(result.program.values[i].type, forward.values[i].type);
    EXPECT_EQ(result.program.values[i].label, forward.values[i].label);
  }
  for (size_t i = 0; i < result.program.nodes.size(); ++i)
    for (ValueId id : result.program.nodes[i].out)
      EXPECT_EQ(result.program[id].producer, static_cast<int32_t>(i));
}

TEST(Backward, AFrozenWeightKeepsNoInputAlive) {
  Program forward = mlp(Trainable::yes, Trainable::no);
  BackwardProgram result = backward(forward);
  EXPECT_EQ(residuals(forward, result),
            (std::set<std::string>{"x", "gate", "up", "down", "mlpwi_0", "mlpwi_1"}));
  EXPECT_EQ(with_gradient(forward, result), (std::set<std::string>{"x", "gate", "up"}));

  forward = mlp(Trainable::no, Trainable::yes);
  result = backward(forward);
  EXPECT_EQ(with_gradient(forward, result), (std::set<std::string>{"x", "down"}));
  EXPECT_FALSE(residuals(forward, result).contains("x"));
}

TEST(Backward, NothingIsMadeThatNothingAsksFor) {
  // Without a gradient for x, the first products' input gradients must go.
  Program forward = mlp(Trainable::yes, Trainable::yes);
  set_input_gradients(forward, {});
  BackwardProgram result = backward(forward);
  EXPECT_EQ(with_gradient(forward, result), (std::set<std::string>{"gate", "up", "down"}));
  for (const Node& node : result.program.nodes)
    EXPECT_TRUE(node.op != &linear_input_grad_op ||
                result.program[node.out[0]].name == "swiglu.grad")
        << text(result.program, node);

  // Nothing trains: no cotangent is asked for.
  forward = mlp(Trainable::no, Trainable::no);
  set_input_gradients(forward, {});
  result = backward(forward);
  EXPECT_TRUE(result.program.nodes.empty());
  EXPECT_TRUE(result.gradients.empty());
  EXPECT_FALSE(result.cotangents.at(0));
}

TEST(Backward, AddsToGradientsThatHoldSomething) {
  Program forward = mlp(Trainable::yes, Trainable::yes);
  ValueId up = forward.find("up");
  BackwardProgram result =
      backward(forward, {.accumulate = {up}, .weight_gradient_dtype = Dtype::float32});
  std::vector<ValueId> sums = result.program.inputs_from(Source::accumulator);
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(result.program[sums[0]].name, "up.grad.sum");
  EXPECT_EQ(result.program[sums[0]].type, (Type{{6, 4}, Dtype::float32}));
  EXPECT_THAT(nodes_of(result.program),
              HasSubstr("up.grad = linear_weight_grad(mlpwi_0.grad.1, x, up.grad.sum)"));
}

TEST(Backward, AWeightUsedTwiceGetsOneSum) {
  Trace t("twice");
  Var x = t.input("x", {{1, 2, 4}, Dtype::float32});
  Var w = t.weight("w", {{4, 4}, Dtype::float32}, weight(Trainable::yes));
  Var n = t.weight("n", {{4}, Dtype::float32}, weight(Trainable::yes));
  t.output(linear(rms_norm(linear(rms_norm(x, n, 1e-5), w), n, 1e-5), w));
  Program forward = t.finish();
  BackwardProgram result = backward(forward);
  EXPECT_EQ(with_gradient(forward, result), (std::set<std::string>{"x", "w", "n"}));
  int additions = 0;
  for (const Node& node : result.program.nodes) additions += node.op == &add_op;
  EXPECT_EQ(additions, 0) << "accumulating forms were expected:\n" << nodes_of(result.program);
}

TEST(Backward, SaysWhichOpHasNoRule) {
  Trace t("chosen");
  Var x = t.input("x", {{1, 2, 4}, Dtype::float32});
  t.output(take_rows(x, t.batch("rows", {{3}, Dtype::int32})));
  Program forward = t.finish();
  try {
    backward(forward);
    FAIL() << "take_rows has no vjp rule";
  } catch (const InternalError& error) {
    EXPECT_STREQ(error.what(), "chosen: take_rows has no vjp rule, but take_rows needs a gradient");
  }
}

TEST(Backward, TellsThatTheLossIsMadeAgain) {
  Trace t("head");
  Var x = t.input("x", {{1, 2, 4}, Dtype::bfloat16});
  Var w = t.weight("w", {{9, 4}, Dtype::bfloat16}, weight(Trainable::yes));
  Var loss = linear_cross_entropy(x, w, t.batch("targets", {{1, 2}, Dtype::int32}));
  t.output(loss, OutputRole::loss);
  Program forward = t.finish();
  BackwardProgram result = backward(forward);
  ASSERT_EQ(result.remade_outputs.size(), 1u);
  EXPECT_EQ(result.remade_outputs[0].output, loss.id);
  EXPECT_EQ(result.program[result.remade_outputs[0].value].type, forward[loss.id].type);
}

TEST(Backward, EmitsTheNodesOfALlamaLayerInOrder) {
  Model model = decoder({.batch = 2,
                         .length = 8,
                         .vocabulary = 50,
                         .width = 16,
                         .layers = 2,
                         .query_heads = 4,
                         .kv_heads = 2,
                         .head_dim = 4,
                         .mlp_width = 24,
                         .dtype = Dtype::bfloat16});
  const Program& forward = model.stages[1].programs[0];
  BackwardProgram result = backward(forward);
  EXPECT_NO_THROW(verify(result.program));
  EXPECT_EQ(nodes_of(result.program),
            R"(mlp.down_proj.weight.grad = linear_weight_grad(add_2.grad, swiglu) {f32} : f32[16,24]
swiglu.grad = linear_input_grad(add_2.grad, mlp.down_proj.weight) : bf16[2,8,24]
mlpwi_0.grad, mlpwi_0.grad.1 = swiglu_grad(swiglu.grad, mlpwi_0, mlpwi_1) : bf16[2,8,24], bf16[2,8,24]
mlp.up_proj.weight.grad = linear_weight_grad(mlpwi_0.grad.1, rms_norm_2) {f32} : f32[24,16]
rms_norm_2.grad = linear_input_grad(mlpwi_0.grad.1, mlp.up_proj.weight) : bf16[2,8,16]
mlp.gate_proj.weight.grad = linear_weight_grad(mlpwi_0.grad, rms_norm_2) {f32} : f32[24,16]
rms_norm_2.grad_2 = linear_input_grad(mlpwi_0.grad, mlp.gate_proj.weight, rms_norm_2.grad) : bf16[2,8,16]
add.grad, add.grad.1 = rms_norm_grad(rms_norm_2.grad_2, add, post_attention_layernorm.weight, rms_norm_2.1, add_2.grad) {input and weight, adds to input's} : bf16[2,8,16], f32[16]
self_attn.o_proj.weight.grad = linear_weight_grad(add.grad, context) {f32} : f32[16,16]
context.grad = linear_input_grad(add.grad, self_attn.o_proj.weight) : bf16[2,8,16]
query_proj.grad, query_proj.grad.1, query_proj.grad.2 = attention_grad(context.grad, query_proj, key_proj, value_proj, context, attention.1) {causal, head_dim=4} : bf16[2,8,16], bf16[2,8,8], bf16[2,8,8]
linear_2.grad = rope(query_proj.grad.1, rope_cos, rope_sin) {backward} : bf16[2,8,8]
linear.grad = rope(query_proj.grad, rope_cos, rope_sin) {backward} : bf16[2,8,16]
self_attn.v_proj.weight.grad = linear_weight_grad(query_proj.grad.2, rms_norm) {f32} : f32[8,16]
rms_norm.grad = linear_input_grad(query_proj.grad.2, self_attn.v_proj.weight) : bf16[2,8,16]
self_attn.k_proj.weight.grad = linear_weight_grad(linear_2.grad, rms_norm) {f32} : f32[8,16]
rms_norm.grad_2 = linear_input_grad(linear_2.grad, self_attn.k_proj.weight, rms_norm.grad) : bf16[2,8,16]
self_attn.q_proj.weight.grad = linear_weight_grad(linear.grad, rms_norm) {f32} : f32[16,16]
rms_norm.grad_3 = linear_input_grad(linear.grad, self_attn.q_proj.weight, rms_norm.grad_2) : bf16[2,8,16]
decoder_layer_input.grad, decoder_layer_input.grad.1 = rms_norm_grad(rms_norm.grad_3, decoder_layer_input, input_layernorm.weight, rms_norm.1, add.grad) {input and weight, adds to input's} : bf16[2,8,16], f32[16]
)");
  // What the last projection makes is read by nothing, nor are sums of residual connections.
  std::set<std::string> read = residuals(forward, result);
  EXPECT_FALSE(read.contains("mlpwo"));
  EXPECT_FALSE(read.contains("out_proj"));
}

TEST(SetInputGradients, MarksAllThatFollows) {
  Program program = mlp(Trainable::no, Trainable::no);
  for (bool wanted : {false, true}) {
    set_input_gradients(program,
                        wanted ? program.inputs_from(Source::input) : std::vector<ValueId>{});
    for (const char* name : {"x", "mlpwi_0", "mlpwi_1", "swiglu", "mlpwo"})
      EXPECT_EQ(program[program.find(name)].needs_gradient, wanted) << name;
    EXPECT_FALSE(program[program.find("gate")].needs_gradient);
  }
}

}  // namespace
}  // namespace longshore::models
