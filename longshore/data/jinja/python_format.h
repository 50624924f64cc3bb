// Python's two ways to write values into a text: "%s" % value and "{}".format(value).
#pragma once

#include <string>

#include "longshore/data/jinja/value.h"

namespace longshore::data::jinja {

// How fields such as {0.name[key]} find what they name.
struct FieldLookup {
  Value (*attribute)(const Value& value, const std::string& name, Budget& budget);
  Value (*element)(const Value& value, const Value& index, Budget& budget);
};

// Throw a DataError on values that do not suit the format, and on what is not understood here:
// fields within a field's format, and precisions beyond 1000.
std::string percent_format(const std::string& format, const Value& values, Budget& budget);
std::string brace_format(const std::string& format, const Arguments& arguments,
                         const FieldLookup& lookup, Budget& budget);

}  // namespace longshore::data::jinja
