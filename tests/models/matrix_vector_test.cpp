// One row through a linear layer: against a product in float64, whatever the sizes.
#include "longshore/models/ops/kernels/matrix_vector.h"

#include <ATen/ops/matmul.h>
#include <gtest/gtest.h>
#include <omp.h>

#include "longshore/models/ops/kernels/aten.h"
#include "tests/models/harness.h"
#include "tests/models/random_inputs.h"

namespace longshore::models {
namespace {

at::Tensor product(const at::Tensor& w, const at::Tensor& x, const at::Tensor& before, Into into) {
  at::Tensor y = before.clone();
  matrix_vector(w.size(0), w.size(1), type_of(w).dtype, w.data_ptr(), x.data_ptr(), y.data_ptr(),
                into);
  return y;
}

TEST(MatrixVector, IsTheProduct) {
  int threads = omp_get_max_threads();
  for (Dtype dtype : {Dtype::float32, Dtype::bfloat16})
    for (auto [n, k] : {std::pair{1, 1}, {3, 17}, {4, 64}, {5, 1}, {130, 333}, {257, 1000}}) {
      double scale = 1 / std::sqrt(static_cast<double>(k));
      at::Tensor w = random_normal({{n, k}, dtype}, 1).mul_(scale);
      at::Tensor x = random_normal({{k}, dtype}, 2), before = random_normal({{n}, dtype}, 3);
      at::Tensor expected = at::matmul(w.to(at::kDouble), x.to(at::kDouble));
      double tolerance = dtype == Dtype::float32 ? 1e-6 : 1. / 256;
      at::Tensor y = product(w, x, before, Into::overwrite);
      EXPECT_LE(difference(y, expected), tolerance) << n << " " << k;
      EXPECT_LE(difference(product(w, x, before, Into::add), expected + before.to(at::kDouble)),
                tolerance)
          << n << " " << k;
      for (int count : {1, 3}) {
        omp_set_num_threads(count);
        EXPECT_TRUE(equal_bits(product(w, x, before, Into::overwrite), y)) << n << " " << k;
      }
      omp_set_num_threads(threads);
    }
}

}  // namespace
}  // namespace longshore::models
