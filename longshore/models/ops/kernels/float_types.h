// with_float_type() maps a dtype to the C++ type of its elements.
#pragma once

#include <string>

#include "longshore/base/bfloat16.h"
#include "longshore/base/error.h"
#include "longshore/models/ir/types.h"

namespace longshore::models {

// Calls f with a value of the C++ type that holds `dtype`: the types that custom kernels come in.
template <class F>
void with_float_type(Dtype dtype, F f) {
  if (dtype == Dtype::float32)
    f(float{});
  else if (dtype == Dtype::bfloat16)
    f(bfloat16{});
  else
    throw InternalError(std::string("no kernel for ") + name(dtype));
}

}  // namespace longshore::models
