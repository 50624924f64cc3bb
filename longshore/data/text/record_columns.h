// RecordColumns are the values of a record of JSON, by their columns.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longshore::data {

// Those of known columns and of columns that are named for it, without nulls. All throw a
// DataError, without file and line.
class RecordColumns {
 public:
  // `known` must outlive it.
  RecordColumns(std::string_view record, std::span<const std::string> known,
                std::span<const std::string> named);

  bool has(const std::string& name) const { return columns_.contains(name); }
  bool has_all(std::span<const std::string> names) const;

  const nlohmann::ordered_json& operator[](const std::string& name) const { return columns_[name]; }

  // Null where there is none.
  nlohmann::ordered_json take(const std::string& name);

  // A string; empty where there is none.
  std::string text(const std::string& name) const;
  // One that is not empty.
  std::string trained(const std::string& name) const;

  // "messages, text".
  std::string found() const;

  // Help with a column that is not there, by those that are.
  std::string nearest_to(const std::string& name) const;

  // That none makes an example; `expected` says what does.
  [[noreturn]] void refuse(const std::string& expected) const;

 private:
  nlohmann::ordered_json columns_;
  std::span<const std::string> known_;
  std::vector<std::string> unknown_;  // the first few names of what was ignored
  bool has_nulls_ = false;
};

}  // namespace longshore::data
