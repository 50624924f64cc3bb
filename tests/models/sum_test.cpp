#include "longshore/models/ops/sum.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "longshore/models/ir/trace.h"
#include "tests/models/harness.h"

namespace longshore::models {
namespace {

// The summed value need not be kept for the backward pass.
TEST(Sum, GradientReadsItsCotangentAlone) {
  Trace t("sum");
  t.output(sum(t.input("x", {{7}, Dtype::bfloat16})), OutputRole::loss);
  BackwardProgram backward = differentiate(t.finish());
  auto gradient = std::ranges::find(backward.program.nodes, &sum_grad_op, &Node::op);
  ASSERT_NE(gradient, backward.program.nodes.end());
  EXPECT_EQ(gradient->in, std::vector{backward.cotangents[0]});
}

}  // namespace
}  // namespace longshore::models
