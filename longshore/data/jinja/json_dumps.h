// Values as Python's json.dumps() writes them.
#pragma once

#include <optional>
#include <string>

#include "longshore/data/jinja/value.h"

namespace longshore::data::jinja {

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // of one level; all on one line where it is not given
  std::string between_items = ", ";
  std::string after_key = ": ";
  bool sort_keys = false;
};

// Throws a DataError on values that JSON does not have.
std::string json_dumps(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace longshore::data::jinja
