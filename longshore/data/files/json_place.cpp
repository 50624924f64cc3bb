#include "longshore/data/files/json_place.h"

#include <algorithm>

#include "longshore/base/error.h"
#include "longshore/base/json_tree.h"
#include "longshore/base/printable.h"

namespace longshore::data {

using nlohmann::json;

void JsonPlace::refuse(const std::string& expected) const {
  const std::string found = value_->is_string() ? in_quotes(value_->get_ref<const std::string&>())
                            : value_->is_structured() ? std::string("an ") + value_->type_name()
                                                      : shown(*value_);
  throw DataError(name() + ": expected " + expected + ", found " + found);
}

void JsonPlace::expect_keys(std::initializer_list<std::string_view> keys) const {
  if (!value_->is_object()) refuse("an object");
  for (const auto& [key, value] : value_->items())
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      throw DataError(name() + ": " + in_quotes(key) + " is not supported");
}

JsonPlace JsonPlace::at(const char* key) const {
  if (!value_->is_object()) refuse("an object");
  static const json kNull;
  return {value_->contains(key) ? value_->at(key) : kNull,
          (path_.empty() ? "" : path_ + "/") + excerpt(key)};
}

bool JsonPlace::boolean(const char* key, bool otherwise) const {
  return has(key) ? at(key).boolean() : otherwise;
}

std::vector<JsonPlace> JsonPlace::elements() const {
  if (!value_->is_array()) refuse("an array");
  std::vector<JsonPlace> places;
  for (size_t i = 0; i < value_->size(); ++i)
    places.emplace_back((*value_)[i], path_ + "/" + std::to_string(i));
  return places;
}

std::string JsonPlace::string() const {
  if (!value_->is_string()) refuse("a string");
  return value_->get<std::string>();
}

bool JsonPlace::boolean() const {
  if (!value_->is_boolean()) refuse("true or false");
  return value_->get<bool>();
}

uint64_t JsonPlace::integer() const {
  if (!value_->is_number_unsigned()) refuse("a whole number of at least 0");
  return value_->get<uint64_t>();
}

}  // namespace longshore::data
