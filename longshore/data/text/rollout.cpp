#include "longshore/data/text/rollout.h"

#include <cmath>
#include <limits>

#include "longshore/base/error.h"
#include "longshore/base/json_tree.h"
#include "longshore/base/text.h"
#include "longshore/data/rows/batch.h"

namespace longshore::data {
namespace {

using nlohmann::ordered_json;

std::string place(const std::string& name, size_t i) {
  return name + "[" + std::to_string(i) + "]";
}

// What a cell of a table of text stands for, if it is JSON.
ordered_json of_cell(const ordered_json& value) {
  if (!value.is_string()) return value;
  try {
    return ordered_json_tree(value.get_ref<const std::string&>());
  } catch (const DataError&) {
    return value;
  }
}

// What `read` makes of each entry of a list.
template <class T, class Read>
std::vector<T> read_list(const ordered_json& cell, const std::string& name,
                         const std::string& entries, Read read) {
  const ordered_json value = of_cell(cell);
  if (!value.is_array())
    throw DataError(name + ": expected a list of " + entries + ", found " + kind_of(value));
  std::vector<T> list;
  for (size_t i = 0; i < value.size(); ++i) list.push_back(read(value[i], place(name, i)));
  return list;
}

float read_number(const ordered_json& value, const std::string& name) {
  if (!value.is_number()) throw DataError(name + ": expected a number, found " + kind_of(value));
  const auto number = static_cast<float>(value.get<double>());
  if (!std::isfinite(number))
    throw DataError(name + ": found " + value.dump() + ", expected a number that is less large");
  return number;
}

}  // namespace

std::vector<int32_t> read_token_ids(const ordered_json& value, const std::string& name) {
  constexpr double kMost = std::numeric_limits<int32_t>::max();
  return read_list<int32_t>(value, name, "token ids",
                            [&](const ordered_json& one, const std::string& where) {
                              // Tables with nulls have floating-point numbers for integers.
                              const double id = one.is_number() ? one.get<double>() : -1;
                              if (!(id >= 0 && id <= kMost && id == std::floor(id)))
                                throw DataError(where + ": expected a token id, found " +
                                                (one.is_number() ? one.dump() : kind_of(one)));
                              return static_cast<int32_t>(id);
                            });
}

std::vector<uint8_t> read_mask(const ordered_json& value, const std::string& name) {
  return read_list<uint8_t>(value, name, "0 and 1",
                            [&](const ordered_json& one, const std::string& where) -> uint8_t {
                              if (one == 0 || one == 1) return one == 1 ? 1 : 0;
                              if (one.is_boolean()) return one.get<bool>() ? 1 : 0;
                              throw DataError(where + ": expected 0 or 1, found " +
                                              (one.is_number() ? one.dump() : kind_of(one)));
                            });
}

std::vector<float> read_values(const ordered_json& value, const std::string& name) {
  return read_list<float>(value, name, "numbers", read_number);
}

std::vector<float> read_advantages(const ordered_json& cell, const std::string& name) {
  const ordered_json value = of_cell(cell);
  if (value.is_array()) return read_values(value, name);
  return {read_number(value, name)};
}

std::vector<float> read_log_probs(const ordered_json& value, const std::string& name) {
  std::vector<float> values = read_values(value, name);
  if (values.empty())
    throw DataError(name + ": found nothing, expected a log-probability of each token");
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] < kLeastLogProb || values[i] > kMostLogProb)
      throw DataError(place(name, i) + ": found " + of_cell(value)[i].dump() +
                      ", expected a log-probability, at most 0");
  return values;
}

std::vector<float> beside_tokens(const RolloutValues& values, std::span<const int64_t> places,
                                 int64_t tokens) {
  auto expect_count = [&](const char* name, const std::vector<float>& numbers) {
    if (numbers.size() == places.size()) return;
    throw DataError(std::string(name) + ": found " + plural(std::ssize(numbers), "number") +
                    ", expected " + std::to_string(places.size()) +
                    ", one for each token of the completion; nearest: prompt_ids and "
                    "completion_ids, which have the tokens as they were drawn");
  };
  if (values.advantages.size() != 1) expect_count(kAdvantages, values.advantages);
  if (!values.old_log_probs.empty()) expect_count(kOldLogProbs, values.old_log_probs);
  const bool has_reference = !values.reference_log_probs.empty();
  if (has_reference) expect_count(kReferenceLogProbs, values.reference_log_probs);
  const size_t each = names_beside_tokens(values).size();
  std::vector<float> beside(static_cast<size_t>(tokens) * each);
  for (size_t i = 0; i < places.size(); ++i) {
    float* const to = beside.data() + static_cast<size_t>(places[i]) * each;
    to[0] = values.advantages[values.advantages.size() == 1 ? 0 : i];
    to[1] = values.old_log_probs.empty() ? std::nanf("") : values.old_log_probs[i];
    if (has_reference) to[2] = values.reference_log_probs[i];
  }
  return beside;
}

std::vector<std::string> names_beside_tokens(const RolloutValues& values) {
  if (values.reference_log_probs.empty()) return {kAdvantages, kOldLogProbs};
  return {kAdvantages, kOldLogProbs, kReferenceLogProbs};
}

}  // namespace longshore::data
