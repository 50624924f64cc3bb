// The arguments of a call by the names of a function's parameters.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>

#include "longshore/data/jinja/value.h"

namespace longshore::data::jinja {

// All that built-in functions, methods and filters have.
inline constexpr size_t kMostParameters = 6;

class Bound {
 public:
  // Throws a DataError, which names the function, on arguments that do not fit its parameters, of
  // which the first `required` must be given.
  Bound(const Arguments& arguments, const std::string& function,
        std::initializer_list<const char*> parameters, size_t required = 0);

  // Null where it is not given.
  const Value* get(size_t parameter) const { return values_[parameter]; }
  const Value& operator[](size_t parameter) const { return *values_[parameter]; }

  // The value of a parameter that is given, or the other; also the other for None.
  int64_t integer_or(size_t parameter, int64_t other) const;
  int64_t integer_unless_none(size_t parameter, int64_t other) const;
  bool truth_or(size_t parameter, bool other) const;
  // Throws a DataError where it is not a str.
  const std::string& text(size_t parameter) const;

 private:
  std::string function_;
  std::array<const Value*, kMostParameters> values_{};
};

}  // namespace longshore::data::jinja
