#include "longshore/trainer/step/reference_values.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/data/files/content_hash.h"
#include "longshore/data/safetensors/expect_tensor.h"
#include "longshore/data/safetensors/safetensors.h"
#include "longshore/data/safetensors/safetensors_writer.h"
#include "longshore/trainer/step/answers.h"

namespace longshore::trainer {
namespace {

using data::SafetensorsDtype;

// The tensors of the file; `hash` is of the data of the others, in this order.
constexpr const char *kAnswers = "answers", *kLogProbs = "log_probs", *kOf = "of", *kHash = "hash";
constexpr int64_t kOriginBytes = 32;

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

using Data = std::span<const std::byte>;

Words hash_of_data(Data answers, Data log_probs, Data of) {
  data::ContentHash hash;
  for (const Data part : {answers, log_probs, of}) hash.append(part);
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
  const data::SafetensorsTensor answers = tensor(kAnswers, SafetensorsDtype::int64, {count, 2}),
                                log_probs = tensor(kLogProbs, SafetensorsDtype::float32, {count}),
                                of = tensor(kOf, SafetensorsDtype::uint8, {kOriginBytes}),
                                hash = tensor(kHash, SafetensorsDtype::int64, {2});
  const Words expected = hash_of_data(answers.data, log_probs.data, of.data);
  if (std::memcmp(hash.data.data(), expected.data(), sizeof expected) != 0)
    throw DataError(path_text(path) + ": found other contents than were written");
  const auto words = values_of<int64_t>(answers);
  const auto values = values_of<float>(log_probs);
  ReferenceValues result(
      std::string(reinterpret_cast<const char*>(of.data.data()), of.data.size()));
  for (size_t i = 0; i < values.size(); ++i)
    result.values_.emplace_hint(result.values_.end(), Hash{words[2 * i], words[2 * i + 1]},
                                values[i]);
  return result;
}

void ReferenceValues::write(const std::filesystem::path& file, Links links) const {
  std::vector<int64_t> answers;
  std::vector<float> log_probs;
  for (const auto& [hash, log_prob] : values_) {
    answers.insert(answers.end(), hash.begin(), hash.end());
    log_probs.push_back(log_prob);
  }
  const Data of = std::as_bytes(std::span(origin_));
  if (std::ssize(of) != kOriginBytes) throw InternalError("a reference of " + in_quotes(origin_));
  const Words hash = hash_of_data(bytes_of(answers), bytes_of(log_probs), of);
  const std::map<std::string, Data> data{{kAnswers, bytes_of(answers)},
                                         {kLogProbs, bytes_of(log_probs)},
                                         {kOf, of},
                                         {kHash, std::as_bytes(std::span(hash))}};
  const std::vector<data::SafetensorsInfo> tensors =
      data::sorted_as_safetensors({{kAnswers, SafetensorsDtype::int64, {count(), 2}},
                                   {kLogProbs, SafetensorsDtype::float32, {count()}},
                                   {kOf, SafetensorsDtype::uint8, {kOriginBytes}},
                                   {kHash, SafetensorsDtype::int64, {2}}});
  data::SafetensorsWriter writer(file, tensors, links);
  for (const data::SafetensorsInfo& tensor : tensors)
    writer.append(tensor.name, data.at(tensor.name));
  writer.finish();
}

// Rounding may depend on what else stands in the row, and on where.
std::vector<ReferenceValues::Hash> ReferenceValues::hashes(const data::Batch& batch) {
  std::vector<Hash> result;
  Words of_row{};
  int64_t row = -1;
  for (const Answer& answer : answers_of(batch)) {
    const int64_t length = batch.shape.length, place = answer.place % length;
    if (answer.place / length != row) {
      row = answer.place / length;
      data::ContentHash hash;
      for (const char* input : {data::kTokens, data::kTargets, data::kSegments})
        hash.append(std::as_bytes(
            std::span(batch[input])
                .subspan(static_cast<size_t>(row * length), static_cast<size_t>(length))));
      of_row = words(hash);
    }
    data::ContentHash hash;
    hash.append(std::as_bytes(std::span(of_row)));
    hash.append(std::as_bytes(std::span(&place, 1)));
    result.push_back(words(hash));
  }
  return result;
}

bool ReferenceValues::has(const data::Batch& batch) const {
  return std::ranges::all_of(hashes(batch),
                             [&](const Hash& hash) { return values_.contains(hash); });
}

std::vector<float> ReferenceValues::of(const data::Batch& batch) const {
  std::vector<float> log_probs(batch[data::kTokens].size());
  const std::vector<Hash> known_by = hashes(batch);
  auto hash = known_by.begin();
  for (const Answer& answer : answers_of(batch)) {
    const auto found = values_.find(*hash++);
    if (found == values_.end())
      throw InternalError("a precomputed reference lacks the log-probability of an answer");
    log_probs[static_cast<size_t>(answer.place)] = found->second;
  }
  return log_probs;
}

void ReferenceValues::add(const data::Batch& batch, std::span<const float> log_probs) {
  const std::vector<Hash> known_by = hashes(batch);
  auto hash = known_by.begin();
  for (const Answer& answer : answers_of(batch))
    values_.emplace(*hash++, log_probs[static_cast<size_t>(answer.place)]);
}

std::string ReferenceValues::bytes() const {
  std::string bytes;
  for (const auto& [hash, log_prob] : values_) {
    bytes.append(reinterpret_cast<const char*>(hash.data()), sizeof hash);
    bytes.append(reinterpret_cast<const char*>(&log_prob), sizeof log_prob);
  }
  return bytes;
}

void ReferenceValues::add_bytes(const std::string& bytes) {
  constexpr size_t kEach = sizeof(Hash) + sizeof(float);
  if (bytes.size() % kEach != 0) throw InternalError("a process sent no values of a reference");
  for (size_t at = 0; at < bytes.size(); at += kEach) {
    Hash hash;
    float log_prob;
    std::memcpy(hash.data(), bytes.data() + at, sizeof hash);
    std::memcpy(&log_prob, bytes.data() + at + sizeof hash, sizeof log_prob);
    values_.emplace(hash, log_prob);
  }
}

}  // namespace longshore::trainer
