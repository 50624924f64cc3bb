#include "longshore/models/hf/json_reader.h"

#include <algorithm>
#include <cmath>

#include "longshore/base/error.h"
#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/models/hf/foreign_keys.h"

namespace longshore::models {
namespace {

using nlohmann::json;

template <class Json>
Json object_of(Json tree) {
  if (!tree.is_object())
    throw DataError(std::string("found a JSON ") + tree.type_name() + ", expected a JSON object");
  return tree;
}

}  // namespace

json parse_object(std::string_view text) { return object_of(json_tree(text)); }

nlohmann::ordered_json parse_ordered_object(std::string_view text) {
  return object_of(ordered_json_tree(text));
}

void expect_object(const json& value, const std::string& key) {
  if (!value.is_object()) throw DataError(key + ": found " + shown(value) + ", expected an object");
}

bool JsonReader::has(const std::string& key) {
  read_.insert(key);
  return object_.contains(key) && !object_[key].is_null();
}

const json& JsonReader::at(const std::string& key) {
  if (!has(key)) throw DataError(prefix_ + key + ": found nothing, expected a value");
  return object_[key];
}

int64_t JsonReader::integer(const std::string& key, std::optional<int64_t> otherwise) {
  if (otherwise && !has(key)) return *otherwise;
  const json& value = at(key);
  constexpr int64_t kMax = int64_t{1} << 31;
  if (!value.is_number_integer() || value.get<double>() < 0 || value.get<double>() > kMax)
    refuse(key, "an integer from 0 to " + std::to_string(kMax));
  return value.get<int64_t>();
}

double JsonReader::number(const std::string& key, std::optional<double> otherwise) {
  if (otherwise && !has(key)) return *otherwise;
  const json& value = at(key);
  const double number = as_float64(value);
  if (!std::isfinite(number) || number < 0) refuse(key, "a number of at least 0");
  return number;
}

double JsonReader::positive(const std::string& key, std::optional<double> otherwise) {
  double value = number(key, otherwise);
  if (value == 0) refuse(key, "a number above 0");
  return value;
}

double JsonReader::cap(const std::string& key, double otherwise) {
  return number(key, is_said(key) ? 0 : otherwise);
}

bool JsonReader::flag(const std::string& key, bool otherwise) {
  if (!has(key)) return otherwise;
  const json& value = at(key);
  if (!value.is_boolean()) refuse(key, "true or false");
  return value.get<bool>();
}

std::string JsonReader::word(const std::string& key, const std::vector<std::string>& choices,
                             const std::string& otherwise) {
  if (!otherwise.empty() && !has(key)) return otherwise;
  const json& value = at(key);
  if (!value.is_string() ||
      std::find(choices.begin(), choices.end(), value.get<std::string>()) == choices.end())
    refuse(key, join(choices));
  return value.get<std::string>();
}

void JsonReader::expect_off(const std::string& key) {
  if (!has(key)) return;
  const json& value = object_[key];
  if (value != json(false) && value != json(0) && value != json(0.0))
    throw DataError(prefix_ + key + ": found " + shown(value) +
                    ", which is not supported; expected false or 0");
}

void JsonReader::refuse(const std::string& key, const std::string& expected) const {
  const std::string found = is_said(key) ? shown(object_[key]) : "nothing";
  throw DataError(prefix_ + key + ": found " + found + ", expected " + expected);
}

std::vector<UnknownKey> JsonReader::unknown_keys() const {
  constexpr size_t kMostWithNearest = 64;  // more than a message shows
  std::vector<std::string> known = foreign_keys();
  known.insert(known.end(), read_.begin(), read_.end());
  std::vector<UnknownKey> unknown;
  for (const auto& [key, value] : object_.items()) {
    if (read_.contains(key)) continue;
    const ForeignKeyFinding finding = judge_foreign_key(key, value);
    if (finding.meaning == ForeignKey::changes_results) refuse(key, finding.expected);
    if (finding.meaning != ForeignKey::unknown) continue;
    const bool is_shown = unknown.size() < kMostWithNearest;
    unknown.push_back({prefix_ + key, is_shown ? nearest(key, known) : ""});
  }
  return unknown;
}

}  // namespace longshore::models
