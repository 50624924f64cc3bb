// MergedWeights are a folder's weights with an adapter's product added to those it is for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "longshore/trainer/weights/adapter.h"
#include "longshore/trainer/weights/saved_tensors.h"
#include "longshore/trainer/weights/stored_numbers.h"
#include "longshore/trainer/weights/stored_weights.h"

namespace longshore::trainer {

class MergedWeights {
 public:
  // `adapter` is peft's folder. All others outlive it. Throws what Adapter throws.
  MergedWeights(const std::filesystem::path& adapter, const models::DecoderConfig& model,
                const offload::ParameterLayout& layout, const StoredWeights& weights);

  // The tensors of the base model.
  const SavedTensors& saved() const { return saved_; }
  // Whether a tensor of that name becomes another. A module's bias stays as it is.
  bool changes(const std::string& name) const;
  // Whether training had it in fewer bits.
  bool dequantizes(const std::string& name) const;

  // Reads parts of parameters; holds the adapters of those that it has read.
  class Reader {
   public:
    explicit Reader(MergedWeights& weights) : weights_(weights) {}

    // Values of a parameter of the base model from element `first` on, weight + scale·B·A computed
    // in float32. Throws a DataError that names the parameter where a weight is finite and its sum
    // is not.
    std::vector<float> read(const offload::Parameter& parameter, int64_t first, int64_t count);

   private:
    // A and B, which are narrow, of all of a parameter's matrices.
    struct Factors {
      std::vector<float> a, b;
      LoraPair sizes;

      LoraPair pair() const;
    };

    const Factors& factors_of(const offload::Parameter& parameter);
    std::vector<float> row_factors(const offload::Parameter& parameter, const Factors& factors);

    MergedWeights& weights_;
    std::map<std::string, Factors> factors_;
  };

 private:
  template <class Is>
  bool has_any(const std::string& name, Is is) const;
  void read_base(const offload::Parameter& parameter, int64_t first, std::span<float> values);
  void put_token_rows(int64_t first, std::span<float> values) const;

  std::string embedding_;
  std::vector<int64_t> tokens_;
  const offload::ParameterLayout& layout_;
  SavedTensors saved_;
  StoredNumbers numbers_;
  Adapter adapter_;
};

}  // namespace longshore::trainer
