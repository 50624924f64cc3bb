// Our custom kernel on a GPU that moves rows by their places.
#pragma once

#include "models/ir/op.h"

namespace longshore::models {

enum class RowMove : uint8_t { take, replace, clear };

struct RowsArguments {
  RowMove move;
  Dtype dtype;  // float32 or bfloat16
  int64_t count, width;
  const int32_t* places;  // [count]
  const void* rows;       // what places are in, or of `replace` what goes there; null of `clear`
  // Of `take` [count, width]. Else what places are in, `x_bytes`, copied from x where that is
  // another.
  void* out;
  const void* x = nullptr;
  int64_t x_bytes = 0;
};

RowsArguments take_rows_arguments(const KernelCall& call);
RowsArguments replace_rows_arguments(const KernelCall& call);
RowsArguments clear_rows_arguments(const KernelCall& call);
// Into a cudaStream_t; throws Error when the launch fails.
void launch_rows(const RowsArguments& arguments, void* stream);

}  // namespace longshore::models
