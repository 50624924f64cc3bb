// Refuses tensors that are not what another one, or a format, wants them to be.
#pragma once

#include <string>

#include "longshore/data/safetensors/safetensors.h"

namespace longshore::data {

// Throws a DataError unless `is_so`: tensor "x": found U8 [2,3], expected U8 [2,4].
void expect_tensor(bool is_so, const SafetensorsInfo& found, const std::string& expected);

}  // namespace longshore::data
