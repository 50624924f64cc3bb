// What stands behind a dot and within brackets: attributes, elements and slices.
#pragma once

#include <string>

#include "longshore/data/jinja/value.h"

namespace longshore::data::jinja {

// As jinja2 looks them up: value.name is first an attribute and then an element, value[index] the
// other way round. An Undefined where there is neither; throw a DataError for those of an
// Undefined.
Value attribute(const Value& value, const std::string& name, Budget& budget);
Value element(const Value& value, const Value& index, Budget& budget);

// value[begin:end:step], each of which may be None.
Value slice(const Value& value, const Value& begin, const Value& end, const Value& step,
            Budget& budget);

}  // namespace longshore::data::jinja
