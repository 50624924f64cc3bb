// print_number() prints a numeric attribute of an op.
#pragma once

#include <string>

namespace longshore::models {

// "name=0.5", the value as %g gives it.
std::string print_number(const char* name, double value);

}  // namespace longshore::models
