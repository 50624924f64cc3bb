// ReferenceValues are log-probabilities that a reference gives to the answers of rows, which are
// known again by their tokens, in whatever order rows come.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "longshore/base/atomic_file.h"
#include "longshore/data/rows/batch.h"

namespace longshore::trainer {

// Their file is a safetensors file with `answers` I64 [N,2], hashes of a row and of an answer's
// place in it, sorted; `log_probs` F32 [N]; `of` U8 [32], origin(); and `hash` I64 [2] of all
// these.
class ReferenceValues {
 public:
  // `origin`, of 32 characters, says of which reference, on which rows.
  explicit ReferenceValues(std::string origin = "") : origin_(std::move(origin)) {}

  // Throws a DataError that names the file where it is none of these.
  static ReferenceValues read(const std::filesystem::path& file);
  // Throws FileError.
  void write(const std::filesystem::path& file, Links links) const;

  const std::string& origin() const { return origin_; }
  int64_t count() const { return std::ssize(values_); }
  // Whether all answers of a batch are known.
  bool has(const data::Batch& batch) const;
  // Of each answer of a batch at its place among [B,T]; 0 elsewhere. Throws InternalError where one
  // is not known.
  std::vector<float> of(const data::Batch& batch) const;
  // Takes what `log_probs` [B,T] has of them, but of those that are known.
  void add(const data::Batch& batch, std::span<const float> log_probs);

  // As another process takes them; throws InternalError for what is none.
  std::string bytes() const;
  void add_bytes(const std::string& bytes);

 private:
  using Hash = std::array<int64_t, 2>;

  // Of the answers of a batch, in turn.
  static std::vector<Hash> hashes(const data::Batch& batch);

  std::string origin_;
  std::map<Hash, float> values_;
};

}  // namespace longshore::trainer
