// Makes tensors of what training.h has as plain numbers, for comparisons with autograd.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <cstdint>
#include <vector>

#include "tests/models/harness.h"
#include "tests/offload/training.h"

namespace longshore::offload {

// [rows, length]
inline at::Tensor ids_tensor(const std::vector<int32_t>& ids, int64_t rows, int64_t length) {
  return at::from_blob(const_cast<int32_t*>(ids.data()), {rows, length}, at::kInt).clone();
}

inline at::Tensor float_tensor(const std::vector<float>& values,
                               const std::vector<int64_t>& sizes) {
  return at::from_blob(const_cast<float*>(values.data()), sizes, at::kFloat).clone();
}

// The weights that run_pass() starts with, by their full names.
inline models::Tensors initial_tensors(const models::Model& model, at::ScalarType dtype,
                                       const DeviceMesh& mesh = {}) {
  models::Tensors weights;
  const ParameterLayout layout = lay_out(model, {.mesh = mesh});
  for (const auto& [name, values] : initial_weights(layout)) {
    const models::Shape& shape = layout.parameter(layout.by_name.at(name)).tensor_shape();
    weights[name] = float_tensor(values, shape.sizes()).to(dtype);
  }
  return weights;
}

}  // namespace longshore::offload
