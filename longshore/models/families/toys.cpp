// R rows, C width, F inner.
#include "longshore/models/families/toys.h"

#include <utility>

#include "longshore/models/ir/stages.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/gelu.h"
#include "longshore/models/ops/l2_penalty.h"
#include "longshore/models/ops/linear/linear.h"
#include "longshore/models/ops/mean_square_error.h"
#include "longshore/models/ops/sum.h"

namespace longshore::models {
namespace {

constexpr const char* kInput = "x";  // the batch input, the carry and its label

Weight matrix(double deviation) { return {.init = {Init::Kind::normal, deviation}}; }

Program input(const Type& x) {
  Trace t("input");
  t.output(t.batch(kInput, x));
  return t.finish();
}

Program two_maps(const ToyA& s, const Type& type) {
  Trace t("two_maps");
  Weight weight = matrix(s.init_deviation);
  Var x = t.label(t.input(kInput, type), kInput);                  // [R,C]
  Var w1 = t.weight("w1", {{s.inner, s.width}, s.dtype}, weight);  // [F,C]
  Var w2 = t.weight("w2", {{s.width, s.inner}, s.dtype}, weight);  // [C,F]
  Var y = t.label(linear(x, w1), "y");                             // [R,F]
  t.output(linear(y, w2));                                         // [R,C]
  return t.finish();
}

Program sum_of(const Type& type) {
  Trace t("sum");
  t.output(sum(t.input(kInput, type)), OutputRole::loss);
  return t.finish();
}

// The penalty comes first, so that on the way back its gradient is added to the product's.
Program activated_map(const ToyB& s, const Type& type) {
  Trace t("activated_map");
  Var x = t.label(t.input(kInput, type), kInput);                                  // [R,C]
  Var w = t.weight("w", {{s.width, s.width}, s.dtype}, matrix(s.init_deviation));  // [C,C]
  Var penalty = l2_penalty(w, s.penalty);
  t.output(gelu(linear(x, w)));  // [R,C]
  t.output(penalty, OutputRole::auxiliary_loss);
  return t.finish();
}

Program error(const Type& type) {
  Trace t("mean_square_error");
  Var output = t.input("output", type);
  t.output(mean_square_error(output, t.batch(kInput, type)), OutputRole::loss);
  return t.finish();
}

Model input_scan_loss(const char* name, const Type& type, Program layer, int layers, Program loss) {
  return connected(name, {run_once(input(type)), scan("layers", std::move(layer), layers, {{0, 0}}),
                          run_once(std::move(loss), {{1, 0}})});
}

}  // namespace

Model toy_a(const ToyA& sizes) {
  Type x{{sizes.rows, sizes.width}, sizes.dtype};
  return input_scan_loss("toy_a", x, two_maps(sizes, x), sizes.layers, sum_of(x));
}

Model toy_b(const ToyB& sizes) {
  Type x{{sizes.rows, sizes.width}, sizes.dtype};
  return input_scan_loss("toy_b", x, activated_map(sizes, x), sizes.layers, error(x));
}

}  // namespace longshore::models
