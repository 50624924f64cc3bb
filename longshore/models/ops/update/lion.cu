#include "longshore/models/ops/update/lion.h"
#include "longshore/models/ops/update/update_launch.cuh"

namespace longshore::models {

template void launch_update(const ArgumentsOf<LionElement>& arguments, void* stream);

}  // namespace longshore::models
