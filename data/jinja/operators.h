// Python's operators, and what stands behind a dot and within brackets.
#pragma once

#include <cstdint>
#include <string>

#include "data/jinja/value.h"

namespace longshore::data::jinja {

enum class Operator { add, subtract, multiply, divide, floor_divide, modulo, power };
enum class Comparator { equal, unequal, less, less_equal, greater, greater_equal, in, not_in };

// These throw a DataError on values that they do not suit, and on integers beyond 64 bits, which
// Python has and templates have no use for.
Value binary(Operator op, const Value& a, const Value& b, Budget& budget);
Value negated(const Value& value);
Value positive(const Value& value);
bool compared(Comparator comparator, const Value& a, const Value& b, Budget& budget);

// As jinja2 looks them up: value.name is first an attribute and then an element, value[index] the
// other way round. An Undefined where there is neither; throw a DataError for those of an
// Undefined.
Value attribute(const Value& value, const std::string& name, Budget& budget);
Value element(const Value& value, const Value& index, Budget& budget);

// value[begin:end:step], each of which may be None.
Value slice(const Value& value, const Value& begin, const Value& end, const Value& step,
            Budget& budget);

// Python's int(number): without the fraction.
int64_t to_integer(const Value& number);

// The same kind of str as another.
Value text_like(const Value& other, std::string text, Budget& budget);

}  // namespace longshore::data::jinja
