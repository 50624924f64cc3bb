#include "longshore/models/ops/mean_square_error.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "longshore/base/error.h"
#include "longshore/models/ir/trace.h"
#include "tests/models/harness.h"

namespace longshore::models {
namespace {

TEST(MeanSquareError, GivesGradientsToThoseThatWantThem) {
  Trace t("error");
  Var x = t.input("x", {{7}, Dtype::float32});
  t.output(mean_square_error(x, t.input("target", {{7}, Dtype::float32})), OutputRole::loss);
  Program program = t.finish();
  auto gradient_nodes = [&] {
    BackwardProgram backward = differentiate(program);
    EXPECT_EQ(backward.remade_outputs.size(), 1u) << "the loss would be counted more than once";
    return std::ranges::count(backward.program.nodes, &mean_square_error_grad_op, &Node::op);
  };
  EXPECT_EQ(gradient_nodes(), 2);
  set_input_gradients(program, std::vector{program.find("target")});
  EXPECT_EQ(gradient_nodes(), 1);
}

TEST(MeanSquareError, RefusesATargetOfAnotherType) {
  Trace t("error");
  Var x = t.input("x", {{2, 3}, Dtype::float32});
  EXPECT_THROW(mean_square_error(x, t.input("narrow", {{2, 3}, Dtype::bfloat16})), InternalError);
  EXPECT_THROW(mean_square_error(x, t.input("long", {{3, 2}, Dtype::float32})), InternalError);
}

}  // namespace
}  // namespace longshore::models
