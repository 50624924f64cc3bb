#include "longshore/models/ops/update/sgd.h"
#include "longshore/models/ops/update/update_launch.cuh"

namespace longshore::models {

template void launch_update(const ArgumentsOf<SgdElement>& arguments, void* stream);

}  // namespace longshore::models
