#include "longshore/models/ops/chunk_ids.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros_like.h>

#include "longshore/models/ir/trace.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/attention.h"
#include "tests/models/ops/case_parts.h"

namespace longshore::models {
namespace {

// Documents that begin anew at two places of each row, where there are segments.
OpCase chunk_ids_case(int64_t b, int64_t t, int64_t chunk, bool has_segments) {
  at::Tensor positions = at::arange(t, at::kInt).expand({b, t}).contiguous();
  OpCase op_case{.name = named("chunk_ids", b, t, chunk) + (has_segments ? ", segments" : ""),
                 .trace =
                     [=](Dtype) {
                       Trace trace("chunk_ids");
                       Var positions = trace.batch("positions", ints({b, t}));
                       std::optional<Var> segments;
                       if (has_segments) segments = trace.batch("segments", ints({b, t}));
                       trace.output(chunk_ids(positions, segments, chunk));
                       return trace.finish();
                     },
                 .integers = {},
                 .plain = {},
                 .adjust = {}};
  if (has_segments) {
    for (int64_t row = 0; row < b; ++row)
      for (const int64_t begin : {t / 4 + row, t / 2 + row})
        positions[row].slice(0, begin).copy_(at::arange(t - begin, at::kInt));
    op_case.integers["segments"] = segments_of(b, t, {t / 4, t / 2 - t / 4});
  }
  op_case.integers["positions"] = positions;
  return op_case;
}

std::vector<OpCase> small() {
  return {chunk_ids_case(1, 1, 4, false), chunk_ids_case(2, 7, 3, false),
          chunk_ids_case(2, 13, 2, true)};
}

std::vector<OpCase> large() {
  return {chunk_ids_case(3, 1000, 128, true), chunk_ids_case(1, 300, 1000, false)};
}

constexpr OpTraits kOps[] = {{.op = &chunk_ids_op, .tolerance = {}}};

}  // namespace

extern constinit const OpRecord chunk_ids_record{kOps, small, large};

}  // namespace longshore::models
