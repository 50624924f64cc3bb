// Reads a parsed JSON document whose errors have to say where in it something is wrong.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longshore::data {

// A value of the document, which must outlive it, and where it stands: "decoder/decoders/0". What
// reads it throws a DataError, without a file's name, that gives the place, what was expected and
// what was found.
class JsonPlace {
 public:
  // The path of the document itself is "".
  JsonPlace(const nlohmann::json& value, std::string path)
      : value_(&value), path_(std::move(path)) {}

  const std::string& path() const { return path_; }

  [[noreturn]] void refuse(const std::string& expected) const;

  // Refuses anything but an object, and keys other than these.
  void expect_keys(std::initializer_list<std::string_view> keys) const;

  // For an object. A key that is missing counts as null.
  bool has(const char* key) const { return value_->contains(key) && !value_->at(key).is_null(); }
  JsonPlace at(const char* key) const;
  bool boolean(const char* key, bool otherwise) const;

  std::vector<JsonPlace> elements() const;  // of an array
  std::string string() const;
  bool boolean() const;
  uint64_t integer() const;

 private:
  std::string name() const { return path_.empty() ? "the file" : path_; }

  const nlohmann::json* value_;
  std::string path_;
};

}  // namespace longshore::data
