// A safetensors file holds what optimizers keep: for each trainable parameter NAME and each state
// that its optimizer declares, NAME.STATE. AdamW's are
//
//   NAME.first_moment, NAME.second_moment   the parameter's shape; F32, BF16 or U8 (moment_dtype)
//   NAME.first_scale, NAME.second_scale     of U8 moments: F32 [ceil(elements / 256)], each the
//                                           scale of 256 elements in row-major order
//
// So what is in the file does not depend on how parameters lie in memory, or where.
#pragma once

#include <filesystem>

#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/lowering/parameter_layout.h"

namespace longshore::trainer {

// Host memory: a piece of one tensor. Throws FileError where the file system refuses, and a
// DataError that names the tensor for a value that is not finite.
void write_optimizer_state(const std::filesystem::path& file,
                           const offload::ParameterLayout& layout,
                           const offload::ArgumentReader& arguments);

// Throws a DataError that lists all tensors that are missing, not expected, or of another shape or
// dtype. The arguments must be there already; of shards they get what they hold.
void read_optimizer_state(const std::filesystem::path& file, const offload::ParameterLayout& layout,
                          offload::Arguments& arguments);

}  // namespace longshore::trainer
