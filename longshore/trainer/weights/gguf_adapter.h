// An adapter in a GGUF file: for each weight NAME that it is for NAME.lora_a [rank,in] and
// NAME.lora_b [out,rank], or [E,..] for those of experts, and one alpha, which is divided by rank.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "longshore/offload/lowering/parameter_layout.h"
#include "longshore/trainer/weights/adapter.h"
#include "longshore/trainer/weights/gguf_tensors.h"

namespace longshore::trainer {

class GgufAdapter {
 public:
  // A weight's, in the order in which its tensors are written: A, then B.
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
  };

  // `adapter` is peft's folder; `tensors` are those of the model that `layout` is of. Both outlive
  // it. Throws what Adapter throws, and a DataError that lists what the file cannot hold, or for an
  // alpha that float32 cannot.
  GgufAdapter(const std::filesystem::path& adapter, const offload::ParameterLayout& layout,
              std::span<const GgufTensor> tensors);

  const std::vector<Tensor>& tensors() const { return tensors_; }
  double alpha() const { return alpha_; }
  // Values of the tensor of that number. Where a weight's scale is not alpha / rank, B makes up for
  // it; throws a DataError, which names the folder and the tensor, where float32 cannot hold that.
  std::vector<float> values(size_t number) const;

 private:
  const offload::Parameter& named(const std::string& name) const;
  std::vector<float> read(const offload::Parameter& factor) const;

  std::filesystem::path folder_;
  const offload::ParameterLayout& layout_;
  Adapter adapter_;
  std::vector<const GgufTensor*> adapted_;
  std::vector<Tensor> tensors_;  // two of each of those
  double alpha_ = 0;
};

}  // namespace longshore::trainer
