#include "longshore/models/ir/print.h"

#include <array>
#include <cstdio>

namespace longshore::models {

std::string print_number(const char* name, double value) {
  std::array<char, 32> digits;
  std::snprintf(digits.data(), digits.size(), "%g", value);
  return std::string(name) + "=" + digits.data();
}

}  // namespace longshore::models
