// The methods of Python's str, list, tuple and dict that change nothing, but for str.format().
#pragma once

#include <optional>
#include <string>

#include "longshore/data/jinja/value.h"

namespace longshore::data::jinja {

// value.name in Python; nothing where it has no such attribute. Those that change a list or a dict
// are an Undefined, as in jinja2's immutable sandbox. Throws a DataError for what Python has and
// this has not.
std::optional<Value> method(const Value& value, const std::string& name, Budget& budget);

// What one of the methods of str gives for a text.
Value call_text_method(const char* name, const Value& text, const Arguments& arguments,
                       Budget& budget);

}  // namespace longshore::data::jinja
