// The filters and tests of jinja2 that make sense for what conversations hold.
#pragma once

#include <span>
#include <string>

#include "longshore/data/jinja/value.h"

namespace longshore::data::jinja {

bool has_filter(const std::string& name);
bool has_test(const std::string& name);

// "found no filter of that name, ...": what to throw where has_filter() or has_test() does not
// hold.
std::string no_filter(const std::string& name);
std::string no_test(const std::string& name);

// value | name(arguments), and `value is name(arguments)`. Throw a DataError where there is none of
// that name, and where it cannot be applied.
Value apply_filter(const std::string& name, const Value& value, const Arguments& arguments,
                   Budget& budget);
bool apply_test(const std::string& name, const Value& value, const Arguments& arguments,
                Budget& budget);

}  // namespace longshore::data::jinja
