#include "longshore/models/ops/elementwise/elementwise_kernels.h"

namespace longshore::models {

ElementwiseArguments elementwise_arguments(Elementwise function, const KernelCall& call) {
  ElementwiseArguments arguments{.function = function,
                                 .dtype = call.out[0].type.dtype,
                                 .count = call.out[0].type.shape.count()};
  for (size_t i = 0; i < call.in.size(); ++i) arguments.in[i] = call.in[i].data;
  for (size_t i = 0; i < call.out.size(); ++i) arguments.out[i] = call.out[i].data;
  return arguments;
}

}  // namespace longshore::models
