#include "trainer/step/reference_values.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "base/printable.h"
#include "data/files/content_hash.h"
#include "data/safetensors/expect_tensor.h"
#include "data/safetensors/safetensors.h"
#include "data/safetensors/safetensors_writer.h"
#include "trainer/step/answers.h"

namespace longshore::trainer {
namespace {

using data::SafetensorsDtype;

// The tensors of the file; `hash` I64 [2] is of the data of the others, in this order.
constexpr const char *kSequences = "sequences", *kLogProbs = "log_probs", *kHash = "hash";

using Words = std::array<int64_t, 2>;

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

Words words(const data::ContentHash& hash) {
  const std::array<uint64_t, 2> unsigned_words = hash.words();
  Words result;
  std::memcpy(result.data(), unsigned_words.data(), sizeof result);
  return result;
}

Words hash_of_data(std::span<const std::byte> sequences, std::span<const std::byte> log_probs) {
  data::ContentHash hash;
  hash.append(sequences);
  hash.append(log_probs);
  return words(hash);
}

template <class T>
std::vector<T> values_of(const data::SafetensorsTensor& tensor) {
  std::vector<T> values(tensor.data.size() / sizeof(T));
  std::memcpy(values.data(), tensor.data.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace

ReferenceValues ReferenceValues::read(const std::filesystem::path& path) {
  const data::SafetensorsFile file(path);
  auto tensor = [&](const char* name, SafetensorsDtype dtype, std::vector<int64_t> shape) {
    const data::SafetensorsTensor& found = file.at(name);
    const bool is_so = found.dtype == dtype && found.shape == shape;
    try {
      expect_tensor(is_so, found, std::string(data::name(dtype)) + " " + data::shape_text(shape));
    } catch (const DataError& error) {
      throw DataError(path_text(path) + ": " + error.what());
    }
    return found;
  };
  const std::vector<int64_t>& shape = file.at(kLogProbs).shape;
  const int64_t count = shape.empty() ? 0 : shape[0];
  const data::SafetensorsTensor sequences = tensor(kSequences, SafetensorsDtype::int64, {count, 2}),
                                log_probs = tensor(kLogProbs, SafetensorsDtype::float32, {count}),
                                hash = tensor(kHash, SafetensorsDtype::int64, {2});
  const Words expected = hash_of_data(sequences.data, log_probs.data);
  if (std::memcmp(hash.data.data(), expected.data(), sizeof expected) != 0)
    throw DataError(path_text(path) + ": found other contents than were written");
  const auto words = values_of<int64_t>(sequences);
  const auto values = values_of<float>(log_probs);
  ReferenceValues result;
  for (size_t i = 0; i < values.size(); ++i)
    result.values_.emplace_hint(result.values_.end(), Hash{words[2 * i], words[2 * i + 1]},
                                values[i]);
  return result;
}

void ReferenceValues::write(const std::filesystem::path& file, Links links) const {
  std::vector<int64_t> sequences;
  std::vector<float> log_probs;
  for (const auto& [hash, log_prob] : values_) {
    sequences.insert(sequences.end(), hash.begin(), hash.end());
    log_probs.push_back(log_prob);
  }
  const Words hash = hash_of_data(bytes_of(sequences), bytes_of(log_probs));
  const std::vector<data::SafetensorsInfo> tensors =
      data::sorted_as_safetensors({{kSequences, SafetensorsDtype::int64, {count(), 2}},
                                   {kHash, SafetensorsDtype::int64, {2}},
                                   {kLogProbs, SafetensorsDtype::float32, {count()}}});
  data::SafetensorsWriter writer(file, tensors, links);
  for (const data::SafetensorsInfo& tensor : tensors)
    writer.append(tensor.name, tensor.name == kSequences  ? bytes_of(sequences)
                               : tensor.name == kLogProbs ? bytes_of(log_probs)
                                                          : std::as_bytes(std::span(hash)));
  writer.finish();
}

ReferenceValues::Hash ReferenceValues::hash_of(const data::Batch& batch, int64_t begin,
                                               int64_t end) {
  data::ContentHash hash;
  for (const char* input : {data::kTokens, data::kTargets})
    hash.append(
        std::as_bytes(std::span(batch[input])
                          .subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))));
  return words(hash);
}

bool ReferenceValues::has(const data::Batch& batch) const {
  return std::ranges::all_of(answers_of(batch), [&](const Answer& answer) {
    return values_.contains(hash_of(batch, answer.begin, answer.end));
  });
}

std::vector<float> ReferenceValues::of(const data::Batch& batch) const {
  std::vector<float> log_probs(batch[data::kTokens].size());
  for (const Answer& answer : answers_of(batch)) {
    const auto found = values_.find(hash_of(batch, answer.begin, answer.end));
    if (found == values_.end())
      throw InternalError("a precomputed reference lacks the log-probability of an answer");
    log_probs[static_cast<size_t>(answer.place)] = found->second;
  }
  return log_probs;
}

void ReferenceValues::add(const data::Batch& batch, std::span<const float> log_probs) {
  for (const Answer& answer : answers_of(batch))
    values_.emplace(hash_of(batch, answer.begin, answer.end),
                    log_probs[static_cast<size_t>(answer.place)]);
}

void ReferenceValues::add(const ReferenceValues& others) {
  values_.insert(others.values_.begin(), others.values_.end());
}

std::string ReferenceValues::bytes() const {
  std::string bytes;
  for (const auto& [hash, log_prob] : values_) {
    bytes.append(reinterpret_cast<const char*>(hash.data()), sizeof hash);
    bytes.append(reinterpret_cast<const char*>(&log_prob), sizeof log_prob);
  }
  return bytes;
}

ReferenceValues ReferenceValues::of_bytes(const std::string& bytes) {
  constexpr size_t kEach = sizeof(Hash) + sizeof(float);
  if (bytes.size() % kEach != 0) throw InternalError("a process sent no values of a reference");
  ReferenceValues result;
  for (size_t at = 0; at < bytes.size(); at += kEach) {
    Hash hash;
    float log_prob;
    std::memcpy(hash.data(), bytes.data() + at, sizeof hash);
    std::memcpy(&log_prob, bytes.data() + at + sizeof hash, sizeof log_prob);
    result.values_.emplace_hint(result.values_.end(), hash, log_prob);
  }
  return result;
}

}  // namespace longshore::trainer
