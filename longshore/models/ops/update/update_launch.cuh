// launch_update() launches a rule's kernel on a GPU; the rule's .cu file instantiates it.
#pragma once

#include "longshore/models/ops/kernels/cuda_group.cuh"
#include "longshore/models/ops/update/update_body.h"

namespace longshore::models {

template <class Element>
void launch_update(const ArgumentsOf<Element>& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, Element::kName));
}

}  // namespace longshore::models
