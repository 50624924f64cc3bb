// The two networks of JAX's tutorial on host offloading
// (docs.jax.dev/en/latest/notebooks/host-offloading.html), small enough to follow every byte.
//
// Both have a stage `input`, which hands the batch input `x` [rows,width] to the first layer, a
// scan `layers` whose carry has the label `x`, and a stage that gives the loss.
#pragma once

#include "longshore/models/ir/model.h"

namespace longshore::models {

// "Activation offloading": layers of two linear maps without anything between, and the sum of what
// the last one gives. The first map's result has the label `y`.
struct ToyA {
  int64_t rows = 256;
  int64_t width = 256;
  int64_t inner = 1024;  // of y
  int layers = 10;
  Dtype dtype = Dtype::float32;
  double init_deviation = 0.001;
};

// Weights: layers.{}.w1 [inner,width], layers.{}.w2 [width,inner].
Model toy_a(const ToyA& sizes);

// "Optimizer state offloading": layers of gelu(x·Wᵀ), the mean square error against the input, and
// a penalty on the squares of all weights as each layer's auxiliary loss.
struct ToyB {
  int64_t rows = 7168;
  int64_t width = 7168;
  int layers = 4;
  double penalty = 0.001;  // times the sum of squares
  Dtype dtype = Dtype::float32;
  double init_deviation = 0.012;  // about 1/sqrt(width)
};

// Weights: layers.{}.w [width,width].
Model toy_b(const ToyB& sizes);

}  // namespace longshore::models
