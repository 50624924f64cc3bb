#include "tests/bench/gpu_stopwatch.h"

#include <algorithm>

#include "longshore/base/timing.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/linear/linear.h"

namespace longshore::bench {

using offload::Backend;
using offload::Lane;
using offload::MemoryKind;

Operands::Operands(Backend& backend, const models::Program& program, const models::Node& node,
                   const Contents& contents)
    : node_(node) {
  for (models::ValueId id : node.in) in_.push_back(place(backend, program[id].type, &contents));
  for (models::ValueId id : node.out) out_.push_back(place(backend, program[id].type, nullptr));
}

void Operands::run(Backend& backend, const models::Op& op, std::span<std::byte> workspace) const {
  backend.run(Lane::compute, op,
              {.target = backend.target(),
               .attrs = node_.attrs,
               .in = in_,
               .out = out_,
               .workspace = workspace});
}

models::Ref Operands::place(Backend& backend, const models::Type& type, const Contents* contents) {
  memory_.push_back(std::make_unique<offload::Arena>(backend, MemoryKind::device, type.bytes()));
  std::byte* data = memory_.back()->memory();
  if (contents) {
    const std::vector<std::byte> bytes = (*contents)(type);
    for (int64_t at = 0; at < type.bytes(); at += std::ssize(bytes))
      backend.write(MemoryKind::device, data + at, bytes.data(),
                    std::min(std::ssize(bytes), type.bytes() - at));
  }
  return {data, type};
}

double Stopwatch::seconds_of(const std::function<void()>& work) {
  backend_.start_recording();
  backend_.copy(Lane::compute, {memory_.memory(), kLead},
                {memory_.memory() + kLead.bytes(), kLead});
  work();
  const offload::LaneSpans spans = backend_.stop_recording();
  const std::vector<offload::Span>& span = spans[Lane::compute];
  return span.back().end - span[1].begin;
}

double Stopwatch::median_seconds_of(const std::function<void()>& work, int rounds) {
  std::vector<double> seconds;
  for (int round = 0; round <= rounds; ++round) {
    const double taken = seconds_of(work);
    if (round > 0) seconds.push_back(taken);
  }
  return median(seconds);
}

double product_rate(Stopwatch& stopwatch, int64_t size, const Contents& contents, int rounds) {
  const models::Type square{{size, size}, models::Dtype::bfloat16};
  models::Trace t("square");
  t.output(linear(t.input("x", square), t.input("w", square)));
  const models::Program program = t.finish();
  const models::Node& node = program.nodes[0];
  const Operands operands(stopwatch.backend(), program, node, contents);
  const double seconds =
      stopwatch.median_seconds_of([&] { operands.run(stopwatch.backend(), *node.op, {}); }, rounds);
  return program.cost(node).flops / seconds;
}

}  // namespace longshore::bench
