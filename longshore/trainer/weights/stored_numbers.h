// StoredNumbers are the numbers of a model's parameters in a folder of weights, as training has
// them.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "longshore/base/quantization/quantize.h"
#include "longshore/trainer/weights/saved_tensors.h"
#include "longshore/trainer/weights/stored_weights.h"

namespace longshore::trainer {

// Values of a parameter that is no adapter's, from the tensor's element `first` on, as the files
// have them. Of a quantized one that is rows of a tensor also those of other rows, which lie before
// its first and behind its last.
data::NonFinite read_numbers(const StoredWeights& weights, const SavedTensors& saved,
                             const offload::Parameter& parameter, int64_t first,
                             std::span<float> to);

// As CopyMatrix says: for a parameter that is quantized as the files have it.
bool copy_matrix(const StoredWeights& weights, const offload::Parameter& parameter, int64_t number,
                 const WriteBytes& write);

// The same as read_numbers(), but of parameters that the layout has quantized what their codes
// stand for. Holds the codes of the last of those, and of transposed ones a matrix's numbers.
class StoredNumbers {
 public:
  // Both outlive it.
  StoredNumbers(const StoredWeights& weights, const SavedTensors& saved)
      : weights_(weights), saved_(saved) {}

  void read(const offload::Bucket& bucket, const offload::Parameter& parameter, int64_t first,
            std::span<float> to);

 private:
  void quantize(const offload::Bucket& bucket, const offload::Parameter& parameter);
  void read_transposed(const offload::Parameter& parameter, int64_t number, int64_t first,
                       std::span<float> to);
  std::span<const std::byte> codes(const offload::Parameter& parameter, int64_t number) const;

  const StoredWeights& weights_;
  const SavedTensors& saved_;
  std::string quantized_;  // whose codes are here
  std::vector<std::byte> codes_;
  int64_t matrix_ = -1;  // whose numbers are here
  std::vector<float> numbers_;
};

}  // namespace longshore::trainer
