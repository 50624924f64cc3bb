#include "longshore/models/ops/chunk_ids.h"

#include <ATen/ops/cumsum.h>
#include <ATen/ops/floor_divide.h>

#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

int64_t chunk_of(const std::any& attrs) { return std::any_cast<int64_t>(attrs); }

// --- record

Types infer(const std::any& attrs, std::span<const Type> in) {
  constexpr const char* kName = "chunk_ids";
  expect_inputs(in, 1, 2, kName);
  expect(chunk_of(attrs) > 0, kName,
         ("chunk is " + std::to_string(chunk_of(attrs)) + ", not positive").c_str());
  expect(in[0].dtype == Dtype::int32 && in[0].shape.rank() == 2, kName,
         "positions are not i32 [B,T]");
  if (in.size() > 1) expect(in[1] == in[0], kName, "segments are not i32 [B,T]");
  return {in[0]};
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 0, .bytes = operand_bytes(in, out)};
}

std::string print(const std::any& attrs) { return "chunk=" + std::to_string(chunk_of(attrs)); }

// --- CPU

void run_cpu(const KernelCall& call) {
  const int64_t chunk = chunk_of(call.attrs), t = call.out[0].type.shape[1];
  parallel_ranges(call.out[0].type.shape[0], [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int32_t* positions = call.in[0].as<int32_t>() + row * t;
      const int32_t* segments = call.in.size() > 1 ? call.in[1].as<int32_t>() + row * t : nullptr;
      int32_t* ids = call.out[0].as<int32_t>() + row * t;
      ids[0] = 0;
      for (int64_t i = 1; i < t; ++i) {
        const bool is_same = positions[i] / chunk == positions[i - 1] / chunk &&
                             (!segments || segments[i] == segments[i - 1]);
        ids[i] = ids[i - 1] + (is_same ? 0 : 1);
      }
    }
  });
}

// --- composition

void run_composed(const KernelCall& call) {
  const int64_t later = call.out[0].type.shape[1] - 1;  // tokens than a row's first
  at::Tensor ids = tensor(call, call.out[0]).zero_();
  if (later == 0) return;
  auto differs = [&](const at::Tensor& x) {
    return x.narrow(1, 1, later) != x.narrow(1, 0, later);
  };
  at::Tensor begins = differs(at::floor_divide(tensor(call, call.in[0]), chunk_of(call.attrs)));
  if (call.in.size() > 1) begins.logical_or_(differs(tensor(call, call.in[1])));
  ids.narrow(1, 1, later).copy_(at::cumsum(begins, 1, at::kInt));
}

// Chunks, begins, twice their copies and sums, and what a cumulative sum takes.
int64_t workspace_composed(const std::any&, std::span<const Type>, std::span<const Type> out) {
  return 5 * allocated_bytes(out[0].bytes()) + (1 << 20);
}

}  // namespace

const Op chunk_ids_op{.name = "chunk_ids",
                      .infer = infer,
                      .cost = cost,
                      .print = print,
                      .recompute_cost = RecomputeCost::low,
                      .cpu = {run_cpu},
                      .cuda = {run_composed, workspace_composed},
                      .reference = {run_composed}};

Var chunk_ids(Var positions, std::optional<Var> segments, int64_t chunk) {
  std::vector<Var> in{positions};
  if (segments) in.push_back(*segments);
  return positions.trace->emit(chunk_ids_op, chunk, in)[0];
}

}  // namespace longshore::models
