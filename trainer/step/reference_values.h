// ReferenceValues are log-probabilities that a reference gives to sequences, which are known again
// by their tokens: wherever these stand, and in whatever order they come.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "data/rows/batch.h"

namespace longshore::trainer {

// Their file is a safetensors file with `sequences` I64 [N,2], hashes of tokens and of which of
// them are trained, sorted; and `log_probs` F32 [N].
class ReferenceValues {
 public:
  // Throws a DataError that names the file where it is none of these.
  static ReferenceValues read(const std::filesystem::path& file);
  // Throws FileError.
  void write(const std::filesystem::path& file, Links links) const;

  int64_t count() const { return std::ssize(values_); }
  // Whether all answers of a batch are known.
  bool has(const data::Batch& batch) const;
  // Of each answer of a batch at its place among [B,T]; 0 elsewhere. Throws InternalError where one
  // is not known.
  std::vector<float> of(const data::Batch& batch) const;
  // Takes what `log_probs` [B,T] has of them, but of those that are known.
  void add(const data::Batch& batch, std::span<const float> log_probs);
  void add(const ReferenceValues& others);

  // As another process takes them; throws InternalError for what is none.
  std::string bytes() const;
  static ReferenceValues of_bytes(const std::string& bytes);

 private:
  using Hash = std::array<int64_t, 2>;

  static Hash hash_of(const data::Batch& batch, int64_t begin, int64_t end);

  std::map<Hash, float> values_;
};

}  // namespace longshore::trainer
