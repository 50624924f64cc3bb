// Python's operators.
#pragma once

#include <string>

#include "longshore/data/jinja/value.h"

namespace longshore::data::jinja {

enum class Operator { add, subtract, multiply, divide, floor_divide, modulo, power };
enum class Comparator { equal, unequal, less, less_equal, greater, greater_equal, in, not_in };

// These throw a DataError on values that they do not suit, and on integers beyond 64 bits, which
// Python has and templates have no use for.
Value binary(Operator op, const Value& a, const Value& b, Budget& budget);
Value negated(const Value& value);
Value positive(const Value& value);
bool compared(Comparator comparator, const Value& a, const Value& b, Budget& budget);

// The same kind of str as another.
Value text_like(const Value& other, std::string text, Budget& budget);

}  // namespace longshore::data::jinja
