#include "offload/plan/collectives.h"

#include "base/error.h"

namespace longshore::offload {
namespace {

using models::Shape;
using models::Type;
using models::Types;

int64_t ranks(const std::any& attrs) { return std::any_cast<const Collective&>(attrs).ranks; }

const Type& vector_of(std::span<const Type> in, const char* op) {
  if (in.size() != 1 || in[0].shape.rank() != 1)
    throw InternalError(std::string(op) + ": expected one value with one dimension");
  return in[0];
}

Types infer_all_gather(const std::any& attrs, std::span<const Type> in) {
  const Type& x = vector_of(in, "all_gather");
  return {{{x.shape.count() * ranks(attrs)}, x.dtype}};
}

Types infer_reduce_scatter(const std::any& attrs, std::span<const Type> in) {
  const Type& x = vector_of(in, "reduce_scatter");
  if (x.shape.count() % ranks(attrs) != 0)
    throw InternalError("reduce_scatter: " + text(x) + " does not divide into " +
                        std::to_string(ranks(attrs)));
  return {{{x.shape.count() / ranks(attrs)}, x.dtype}};
}

Types infer_all_reduce(const std::any&, std::span<const Type> in) {
  if (in.size() != 1) throw InternalError("all_reduce: expected one value");
  return {in[0]};
}

models::Cost cost_all_gather(const std::any& attrs, std::span<const Type> in,
                             std::span<const Type>) {
  return {.flops = 0, .bytes = wire_bytes(all_gather_op, attrs, in[0])};
}

models::Cost cost_reduce_scatter(const std::any& attrs, std::span<const Type> in,
                                 std::span<const Type>) {
  return {.flops = 0, .bytes = wire_bytes(reduce_scatter_op, attrs, in[0])};
}

models::Cost cost_all_reduce(const std::any& attrs, std::span<const Type> in,
                             std::span<const Type>) {
  return {.flops = 0, .bytes = wire_bytes(all_reduce_op, attrs, in[0])};
}

std::vector<models::Reuse> reuse_all_reduce(const std::any&, int) { return {{.out = 0, .in = 0}}; }

std::string print(const std::any& attrs) {
  const auto& among = std::any_cast<const Collective&>(attrs);
  return std::string(name(among.axis)) + "=" + std::to_string(among.ranks);
}

}  // namespace

const models::Op all_gather_op{
    .name = "all_gather", .infer = infer_all_gather, .cost = cost_all_gather, .print = print};
const models::Op reduce_scatter_op{.name = "reduce_scatter",
                                   .infer = infer_reduce_scatter,
                                   .cost = cost_reduce_scatter,
                                   .print = print};
const models::Op all_reduce_op{.name = "all_reduce",
                               .infer = infer_all_reduce,
                               .cost = cost_all_reduce,
                               .print = print,
                               .reuse = reuse_all_reduce};

const char* name(Axis axis) { return axis == Axis::data ? "data" : "fsdp"; }

Collective along(const DeviceMesh& mesh, Axis axis) {
  return {axis, mesh.along(axis).size, mesh.along(axis).nodes};
}

double wire_bytes(const models::Op& op, const std::any& attrs, const Type& in) {
  const double n = static_cast<double>(ranks(attrs)), bytes = static_cast<double>(in.bytes());
  if (&op == &all_gather_op) return bytes * (n - 1);
  return (&op == &all_reduce_op ? 2 : 1) * bytes * (n - 1) / n;
}

}  // namespace longshore::offload
