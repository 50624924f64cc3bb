#include "longshore/models/ops/update/adamw.h"
#include "longshore/models/ops/update/update_launch.cuh"

namespace longshore::models {

template void launch_update(const ArgumentsOf<AdamWElement>& arguments, void* stream);

}  // namespace longshore::models
