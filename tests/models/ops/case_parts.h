// What the cases of several ops have in common. In their sizes: B batch, T length, C width, H query
// heads, G key/value heads, D head_dim, V vocabulary.
#pragma once

#include <sstream>
#include <string>

#include "longshore/models/ir/trace.h"

namespace longshore::models {

inline const Weight kTrained{};

template <class... Sizes>
std::string named(const char* op, Sizes... sizes) {
  std::ostringstream name;
  name << op;
  ((name << ' ' << sizes), ...);
  return name.str();
}

inline Type ints(Shape shape) { return {shape, Dtype::int32}; }

}  // namespace longshore::models
