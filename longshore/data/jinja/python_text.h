// Values as Python's str() and repr() write them.
#pragma once

#include <string>
#include <string_view>

#include "longshore/data/jinja/value.h"

namespace longshore::data::jinja {

// Throw a DataError for what Python writes with its address in memory: an iterator, a function.
std::string str(const Value& value, Budget& budget);
std::string repr(const Value& value, Budget& budget);

// "1.0", "1e+16", "inf": the shortest text that reads back as the number.
std::string float_text(double number);

// As an element of HTML or the value of one of its attributes has it: &lt; for <.
std::string escaped_for_html(std::string_view text, Budget& budget);

}  // namespace longshore::data::jinja
