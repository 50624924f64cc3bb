// Reads the JSON objects that Hugging Face's configs are made of.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/base/json_tree.h"

namespace longshore::models {

// `text` as a JSON object; `ordered`, with its keys in their order. Throw a DataError where it is
// none, and what json_tree throws.
nlohmann::json parse_object(std::string_view text);
nlohmann::ordered_json parse_ordered_object(std::string_view text);

// Throws a DataError that names `key`.
void expect_object(const nlohmann::json& value, const std::string& key);

struct UnknownKey {
  std::string name;  // with the reader's prefix
  std::string nearest;
};

// Reads keys of an object, and remembers which. Throws DataErrors that name the key, with `prefix`
// before it.
class JsonReader {
 public:
  explicit JsonReader(const nlohmann::json& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}

  // Also by null.
  bool is_said(const std::string& key) const { return object_.contains(key); }
  bool has(const std::string& key);
  const nlohmann::json& at(const std::string& key);

  int64_t integer(const std::string& key, std::optional<int64_t> otherwise = std::nullopt);
  double number(const std::string& key, std::optional<double> otherwise = std::nullopt);
  double positive(const std::string& key, std::optional<double> otherwise = std::nullopt);
  // A soft-cap: null, which is not the same as nothing, switches it off.
  double cap(const std::string& key, double otherwise);
  bool flag(const std::string& key, bool otherwise);
  std::string word(const std::string& key, const std::vector<std::string>& choices,
                   const std::string& otherwise = "");
  // What would change results and is not there.
  void expect_off(const std::string& key);

  // Throws the DataError for the value of `key`, or for what stands in its place where it is not
  // said.
  [[noreturn]] void refuse(const std::string& key, const std::string& expected) const;

  // The keys that were not read and that nobody knows. Throws for one whose value stands for
  // another computation (see longshore/models/hf/foreign_keys.h).
  std::vector<UnknownKey> unknown_keys() const;

 private:
  const nlohmann::json& object_;
  std::string prefix_;
  std::set<std::string> read_;
};

}  // namespace longshore::models
