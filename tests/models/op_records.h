// An OpRecord is what tests know of an op and of those that share its file: how far kernels may be
// from the reference, how they are emulated, and programs that show them. It is in
// tests/models/ops/, by the name of the op's source in longshore/models/ops/, and that name is the
// record's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "longshore/models/ir/op.h"
#include "tests/models/emulated_kernels.h"
#include "tests/models/op_cases.h"

namespace longshore::models {

// One rounding of a result to bfloat16 is at most 2^-8 of it.
inline constexpr double kRounding = 1. / 256;

// Largest difference of an op's results from the reference kernels' in float64 (see `difference`).
// float32 sums of many terms, and what an exponential does to their error, need some room; more
// where vectors are short. Weights' gradients are float32 in both.
struct Tolerance {
  double float32, bfloat16;

  double of(Dtype dtype) const { return dtype == Dtype::float32 ? float32 : bfloat16; }
};

// How much of the workspace that they declare kernels are seen to write. Matrix products leave to
// their library how much of its scratchpad it writes.
enum class WorkspaceUse : uint8_t {
  any,
  most,  // where it is large: their scratchpads are a small part of it
  all,
};

struct OpTraits {
  const Op* op;
  Tolerance tolerance;
  WorkspaceUse workspace = WorkspaceUse::any;
  EmulatedRuns emulated;  // null where the op has no kernel of our own
};

struct OpRecord {
  std::span<const OpTraits> ops;  // gradients too
  // See op_cases.h; null where there are none.
  std::vector<OpCase> (*small)() = nullptr;
  std::vector<OpCase> (*large)() = nullptr;
  std::vector<OpCase> (*real)() = nullptr;
};

// A failure of the running test where no record has the op.
const OpTraits& traits_of(const Op& op);
const Tolerance& tolerance_of(const Op& op);

}  // namespace longshore::models
