// The tensors that a GGUF file has of a model, and how they are made of the model's parameters.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "longshore/data/gguf/gguf.h"
#include "longshore/models/families/decoder_config.h"
#include "longshore/offload/lowering/parameter_layout.h"

namespace longshore::trainer {

struct GgufTensor {
  std::string name;
  std::vector<int64_t> shape;  // the outermost first
  // One after the other; a computed tensor has none, but values.
  std::vector<const offload::Parameter*> parts = {};
  std::vector<float> values = {};
  bool transposed = false;  // each matrix [in,out] becomes [out,in]
  // Rows of so many make a head, of which row i and the row of half a head later become
  // neighbours; 0: they stay.
  int64_t turned_head = 0;
  float offset = 0, factor = 1;  // of each value, in this order
  // What only float32 is read of: vectors, norms and routers.
  bool is_float32 = false;

  // read(parameter, first, count) gives values of a parameter; take(values) gets all of the
  // tensor's in their order. Memory: a piece, a head's rows, or a matrix that is transposed.
  using Read =
      std::function<std::vector<float>(const offload::Parameter&, int64_t first, int64_t count)>;
  using Take = std::function<void(std::span<const float>)>;
  void for_each_piece(const Read& read, const Take& take) const;
};

// Of matrices [rows,columns], one after the other, each [columns,rows].
std::vector<float> transposed(std::span<const float> matrices, int64_t rows, int64_t columns);

// Rows of whole heads in the order of GgufTensor::turned_head.
std::vector<float> turned(std::span<const float> rows, int64_t head, int64_t columns);

// In the order of the layout, which outlives them. Weights of adapters are left out. Throws an
// InternalError for a parameter that it knows no name for.
std::vector<GgufTensor> gguf_tensors(const models::DecoderConfig& model,
                                     const offload::ParameterLayout& layout);

}  // namespace longshore::trainer
