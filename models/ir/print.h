// How ops print their attributes.
#pragma once

#include <string>

namespace longshore::models {

// "name=0.5", the value as %g gives it.
std::string print_number(const char* name, double value);

}  // namespace longshore::models
