#include "models/ops/update/sgd.h"
#include "models/ops/update/update_launch.cuh"

namespace longshore::models {

template void launch_update(const ArgumentsOf<SgdElement>& arguments, void* stream);

}  // namespace longshore::models
