// Python's two ways to write values into a text: "%s" % value and "{}".format(value).
#pragma once

#include <string>

#include "data/jinja/value.h"

namespace longshore::data::jinja {

// Throw a DataError on values that do not suit the format, and on what is not understood here:
// fields within a field's format, and precisions beyond 1000.
std::string percent_format(const std::string& format, const Value& values, Budget& budget);
std::string brace_format(const std::string& format, const Arguments& arguments, Budget& budget);

}  // namespace longshore::data::jinja
