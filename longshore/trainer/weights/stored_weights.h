// StoredWeights are the weights in a model's folder, by the names that the model has for them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "longshore/data/safetensors/mxfp4.h"
#include "longshore/data/safetensors/quantized_tensor.h"
#include "longshore/data/safetensors/safetensors_folder.h"
#include "longshore/models/families/decoder.h"
#include "longshore/models/families/quantize_weights.h"
#include "longshore/trainer/config/added_rows.h"
#include "longshore/trainer/weights/matrix_with_rows.h"

namespace longshore::trainer {

// Tensors of floating-point numbers as the files have them, or in fewer bits: in MXFP4, as
// bitsandbytes writes them, or in fp8. Those are read as the numbers that they stand for.
class StoredWeights {
 public:
  // The weights of `model` (see models::hf_weight_name); where embeddings are tied and stored as
  // lm_head.weight alone, they are the embeddings. Throws what data::SafetensorsFolder,
  // data::Mxfp4Tensor and data::QuantizedTensor throw. Matrices of the vocabulary have the `added`
  // rows as well, each of which is the mean of all that the files have.
  StoredWeights(const std::filesystem::path& folder, const models::DecoderConfig& model,
                const AddedRows& added = {});

  std::vector<std::string> names() const;  // sorted
  bool contains(std::string_view name) const;
  data::SafetensorsInfo info(std::string_view name) const;
  // Whether there are any that the files have in fewer bits.
  bool has_quantized() const { return !quantized_.empty(); }
  // How such a tensor is stored; nothing for another.
  std::optional<models::Quantization> quantization(std::string_view name) const;
  models::Quantizations quantizations() const;
  // The tensor itself; nullptr for one in fewer bits, or with rows added.
  const data::SafetensorsTensor* find_plain(std::string_view name) const;

  // Whether the files have the same dtype and bytes for both.
  bool are_alike(std::string_view one, std::string_view other) const;
  // Throws a DataError that names folder and tensor for a scale of any of those by which numbers
  // are not finite.
  void require_finite_scales() const;

  // As data::to_float32 does it.
  data::NonFinite read(std::string_view name, int64_t first, std::span<float> to,
                       int64_t step = 1) const;

  // Rows of such a tensor: codes and scales of a matrix that is stored as it is, as
  // parts_of(matrix) places them. Throws a DataError that names folder and tensor for numbers
  // that are not finite.
  struct Rows {
    QuantizedMatrix matrix;
    int64_t number = 0;                   // of several matrices
    int64_t first_row = 0, row_step = 1;  // in that
  };
  void copy(std::string_view name, const Rows& rows, const WriteBytes& write) const;

  // What is to be said of tensors in the files that were left out, for models::is_computed_buffer
  // or models::is_unread_weight; "" where there are none.
  std::string left_out_text() const;

 private:
  using Quantized = std::variant<data::Mxfp4Tensor, data::QuantizedTensor>;

  void add_mxfp4(const std::string& blocks);
  void add_rows(const std::string& matrix, const AddedRows& added);
  // Calls `look`, whose DataErrors get the folder's name.
  template <class Look>
  void named(Look look) const;

  std::filesystem::path folder_;
  data::SafetensorsFolder plain_;
  data::SafetensorsDtype dtype_;  // of numbers of which the files say none
  std::map<std::string, Quantized, std::less<>> quantized_;
  std::set<std::string> parts_;  // the files' tensors that these are made of
  std::map<std::string, MatrixWithRows, std::less<>> extended_;
};

}  // namespace longshore::trainer
