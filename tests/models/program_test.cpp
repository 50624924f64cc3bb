#include "longshore/models/ir/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "longshore/base/error.h"
#include "longshore/models/ir/add.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/attention/attention.h"
#include "longshore/models/ops/linear/linear.h"
#include "longshore/models/ops/rms_norm/rms_norm.h"
#include "longshore/models/ops/swiglu.h"
#include "tests/message_of.h"

namespace longshore::models {
namespace {

using testing::HasSubstr;

const Weight kTrained{};
const Weight kFrozen{.trainable = Trainable::no, .init = {}};

void expect_in(const std::string& part, const std::string& whole) {
  EXPECT_THAT(whole, HasSubstr(part));
}

// h = linear(x, w); y = h + x
Program small_program() {
  Trace t("small");
  Var x = t.input("x", {{2, 3, 4}, Dtype::float32});
  Var h = t.label(linear(x, t.weight("w", {{4, 4}, Dtype::float32}, kTrained)), "out_proj");
  t.output(add(h, x));
  return t.finish();
}

TEST(Program, HasATextForm) {
  Trace t("mixed");
  Var x =
      t.label(t.input("decoder_layer_input", {{2, 3, 8}, Dtype::bfloat16}), "decoder_layer_input");
  t.batch("tokens", {{2, 3}, Dtype::int32});
  t.scalar("learning_rate");
  Var n = rms_norm(x, t.weight("norm", {{8}, Dtype::bfloat16}, kFrozen), 1e-5);
  Var q = t.label(linear(n, t.weight("q", {{8, 8}, Dtype::bfloat16}, kTrained)), "query_proj");
  Var k = linear(n, t.weight("k", {{4, 8}, Dtype::bfloat16}, kTrained));
  t.output(t.label(attention(q, k, k, {.head_dim = 4}), "context"));
  EXPECT_EQ(text(t.finish()),
            R"(program mixed
  input decoder_layer_input: bf16[2,3,8]
  batch tokens: i32[2,3]
  scalar learning_rate: f32[]
  weight norm: bf16[8] frozen
  weight q: bf16[8,8]
  weight k: bf16[4,8]
  rms_norm, rms_norm.1 = rms_norm(decoder_layer_input, norm) {epsilon=1e-05} : bf16[2,3,8], f32[6]
  query_proj = linear(rms_norm, q) : bf16[2,3,8]
  linear = linear(rms_norm, k) : bf16[2,3,4]
  context, attention.1 = attention(query_proj, linear, linear) {causal, head_dim=4} : bf16[2,3,8], f32[2,2,3]
  return context
)");
}

TEST(Program, AddNodeTypesNamesAndMarksWhatItMakes) {
  Program program{.name = "p", .values = {}, .nodes = {}, .inputs = {}, .outputs = {}};
  auto input = [&](const char* name, Type type, bool needs_gradient) {
    return program.add_input({.name = name,
                              .label = "",
                              .type = type,
                              .source = Source::input,
                              .needs_gradient = needs_gradient,
                              .weight = {}});
  };
  ValueId x = input("x", {{2, 3, 4}, Dtype::bfloat16}, false);
  ValueId w = input("w", {{4}, Dtype::bfloat16}, true);

  auto plain = program.add_node(add_op, {}, {x, x}, "sum");
  EXPECT_FALSE(program[plain[0]].needs_gradient);
  Trace t("t");
  Var traced = rms_norm(t.input("x", {{2, 3, 4}, Dtype::bfloat16}),
                        t.weight("w", {{4}, Dtype::bfloat16}, kTrained), 1e-5);
  std::any attrs = t.program().nodes[0].attrs;
  auto normed = program.add_node(*traced.trace->program().nodes[0].op, attrs, {x, w}, "sum");
  ASSERT_EQ(normed.size(), 2u);
  EXPECT_EQ(program[normed[0]].name, "sum_2");
  EXPECT_EQ(program[normed[1]].name, "sum_2.1");
  EXPECT_EQ(program[normed[0]].type, (Type{{2, 3, 4}, Dtype::bfloat16}));
  EXPECT_EQ(program[normed[1]].type, (Type{{6}, Dtype::float32}));
  for (ValueId id : normed) {
    EXPECT_TRUE(program[id].needs_gradient);
    EXPECT_EQ(program[id].producer, 1);
    EXPECT_EQ(program[id].source, Source::node);
  }
  EXPECT_EQ(program.find("sum_2.1"), normed[1]);
  EXPECT_FALSE(program.find("absent"));
  EXPECT_EQ(program.unique_name("sum"), "sum_3");
  EXPECT_EQ(program.unique_name("new"), "new");
  verify(program);

  EXPECT_THROW(program.add_node(add_op, {}, {x, w}, "misfit"), InternalError);
  EXPECT_THROW(program.add_node(add_op, {}, {x, ValueId{}}, "hole"), InternalError);
  EXPECT_THROW(input("x", {{1}, Dtype::float32}, false), InternalError);
  EXPECT_EQ(program.nodes.size(), 2u) << "a refused node must leave nothing behind";
}

TEST(Program, ListsItsInputsBySourceAndItsLabelsInOrder) {
  Trace t("p");
  Var x = t.label(t.input("x", {{1, 1, 4}, Dtype::float32}), "decoder_layer_input");
  Var w = t.weight("w", {{4, 4}, Dtype::float32}, kTrained);
  t.batch("ids", {{1, 1}, Dtype::int32});
  Var gate = t.label(linear(x, w), "mlpwi_0");
  Var up = t.label(linear(x, w), "mlpwi_1");
  t.output(swiglu(gate, up));
  Program program = t.finish();
  EXPECT_EQ(program.labels(),
            (std::vector<std::string>{"decoder_layer_input", "mlpwi_0", "mlpwi_1"}));
  EXPECT_EQ(program.inputs_from(Source::weight), std::vector<ValueId>{w.id});
  EXPECT_EQ(program.inputs_from(Source::input), std::vector<ValueId>{x.id});
  EXPECT_EQ(program.inputs_from(Source::scalar), std::vector<ValueId>{});
  EXPECT_EQ(program.inputs.size(), 3u);
  // A labelled node's value takes the label as its name; an input keeps its own.
  EXPECT_EQ(program[gate.id].name, "mlpwi_0");
  EXPECT_EQ(program[x.id].name, "x");
}

TEST(Verify, AcceptsWhatTraceMakes) { EXPECT_NO_THROW(verify(small_program())); }

TEST(Verify, CatchesEachKindOfFault) {
  struct Fault {
    const char* what;
    std::function<void(Program&)> make;
    const char* message;
  };
  const std::vector<Fault> faults{
      {"nodes out of order", [](Program& p) { std::swap(p.nodes[0], p.nodes[1]); },
       "a value is read before it is made"},
      {"a node without one of its inputs", [](Program& p) { p.nodes[0].in[0] = {}; },
       "a value is read before it is made\n> out_proj = linear(?, w)"},
      {"a node that reads what does not exist", [](Program& p) { p.nodes[0].in[0] = {99}; },
       "a value is read before it is made"},
      {"a node that makes what does not exist", [](Program& p) { p.nodes[0].out[0] = {99}; },
       "an output is no value"},
      {"an input that does not exist", [](Program& p) { p.inputs[0] = {99}; },
       "an input is no value"},
      {"no output at all where one is named", [](Program& p) { p.outputs[0].value = {}; },
       "output ? is never made"},
      {"a node that reads its own output", [](Program& p) { p.nodes[1].in[0] = p.nodes[1].out[0]; },
       "a value is read before it is made"},
      {"an input that was not declared", [](Program& p) { p.inputs.erase(p.inputs.begin()); },
       "a value is read before it is made"},
      {"a value of another type",
       [](Program& p) { p[p.nodes[0].out[0]].type.dtype = Dtype::bfloat16; },
       "the outputs' types are not what the op's shape rule gives"},
      {"an output too many", [](Program& p) { p.nodes[0].out.push_back(p.nodes[1].out[0]); },
       "the outputs' types are not what the op's shape rule gives"},
      {"inputs that do not fit", [](Program& p) { std::swap(p.nodes[0].in[0], p.nodes[0].in[1]); },
       "linear: x [.., K] and W [N,K] do not fit"},
      {"a value with two makers",
       [](Program& p) {
         p.nodes.push_back(p.nodes[1]);
         p.nodes.back().out = p.nodes[0].out;
       },
       "a value is made twice"},
      {"an input that a node makes", [](Program& p) { p.nodes[1].out[0] = p.inputs[0]; },
       "a value is made twice"},
      {"two values of one name", [](Program& p) { p[p.nodes[1].out[0]].name = "x"; },
       "two values are named 'x'"},
      {"one label on two values", [](Program& p) { p[p.nodes[1].out[0]].label = "out_proj"; },
       "two values carry the label 'out_proj'"},
      {"an output that nothing makes", [](Program& p) { p.nodes.pop_back(); },
       "output add is never made"},
  };
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.what);
    Program program = small_program();
    fault.make(program);
    std::string message = message_of<InternalError>([&] { verify(program); });
    expect_in(fault.message, message);
  }
}

TEST(Verify, ShowsTheNeighbourhoodOfAFault) {
  Program program = small_program();
  program[program.nodes[1].out[0]].type.shape = {2, 3, 5};
  EXPECT_EQ(message_of<InternalError>([&] { verify(program); }),
            "small: the outputs' types are not what the op's shape rule gives\n"
            "  out_proj = linear(x, w) : f32[2,3,4]\n"
            "> add = add(out_proj, x) : f32[2,3,5]");
}

TEST(Trace, RefusesMisuse) {
  Trace t("p"), other("q");
  Var x = t.input("x", {{2, 3, 4}, Dtype::float32});
  Var foreign = other.input("x", {{2, 3, 4}, Dtype::float32});
  expect_in("p: add is given a value of another program", message_of<InternalError>([&] {
              t.emit(add_op, {}, {x, foreign});
            }));
  expect_in("two inputs named 'x'", message_of<InternalError>([&] {
              t.batch("x", {{1}, Dtype::int32});
            }));
  t.label(x, "decoder_layer_input");
  expect_in("x already has the label decoder_layer_input",
            message_of<InternalError>([&] { t.label(x, "out_proj"); }));
  t.label(add(x, x), "out_proj");
  Var second = t.label(add(x, x), "out_proj");
  t.output(second);
  expect_in("two values carry the label 'out_proj'",
            message_of<InternalError>([&] { t.finish(); }));
}

TEST(Trace, TakesGradientsFromWhatIsTrained) {
  Trace t("p");
  Var ids = t.input("ids", {{1, 2}, Dtype::int32});
  Var x = t.input("x", {{1, 2, 4}, Dtype::float32});
  Var trained = t.weight("trained", {{4, 4}, Dtype::float32}, kTrained);
  Var frozen = t.weight("frozen", {{4, 4}, Dtype::float32}, kFrozen);
  Var batch = t.batch("batch", {{1, 2, 4}, Dtype::float32});
  Var scalar = t.scalar("scalar");
  Var constant = linear(batch, frozen);
  Var learned = linear(batch, trained);
  const Program& program = t.program();
  for (auto [var, expected] : {std::pair{ids, false},
                               {x, true},
                               {trained, true},
                               {frozen, false},
                               {batch, false},
                               {scalar, false},
                               {constant, false},
                               {learned, true}})
    EXPECT_EQ(program[var.id].needs_gradient, expected) << program[var.id].name;
}

}  // namespace
}  // namespace longshore::models
