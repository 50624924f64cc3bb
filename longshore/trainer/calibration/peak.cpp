#include "longshore/trainer/calibration/peak.h"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "longshore/base/timing.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/linear/linear.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/execution/executor.h"
#include "longshore/offload/lowering/plan_builder.h"
#include "longshore/trainer/calibration/ordinary_numbers.h"
#include "longshore/trainer/config/key_values.h"

namespace longshore::trainer {
namespace {

constexpr int kRepeats = 5;

// The seconds of `count` products [n,n]·[n,n] in sequence, the quickest of several timings.
double quickest_products(int count, int64_t n, models::Dtype dtype, offload::Backend& backend) {
  models::Trace t("matmul");
  models::Type square{{n, n}, dtype};
  t.output(models::linear(t.input("x", square), t.input("weight", square)));
  models::Program program = t.finish();

  offload::PlanBuilder builder("peak", backend.target());
  offload::PlanBuilder::Bindings bindings;
  for (const char* name : {"x", "weight", "y"})
    bindings.push_back(builder.argument(name, square, offload::MemoryKind::device,
                                        offload::Category::temporaries));
  builder.run(program, bindings, {});
  offload::Plan plan = builder.finish();

  offload::Ledger ledger;
  offload::Arguments arguments(backend, ledger);
  offload::Arenas arenas(backend, {&plan});
  offload::Executable executable(plan, backend, arguments, arenas);
  const std::vector<uint32_t> contents = ordinary_numbers(dtype, square.bytes());
  for (const char* name : {"x", "weight"}) arguments.write(name, contents.data(), square.bytes());
  auto run = [&] {
    for (int i = 0; i < count; ++i) executable.run(ledger);
    backend.synchronize();
  };
  run();  // touches the memory for the first time
  return quickest_seconds(kRepeats, run);
}

}  // namespace

Peak find_peak(const Config& config, models::Dtype dtype, offload::Backend& backend) {
  if (config.peak_tflops_per_device)
    return {*config.peak_tflops_per_device * 1e12,
            fmt::format("{:.4g} TFLOP/s, as {} says", *config.peak_tflops_per_device,
                        described(config, "peak_tflops_per_device"))};
  const bool is_cuda = models::is_cuda(backend.target());
  const int64_t n = is_cuda ? 8192 : 2048;
  // A GPU that was idle runs faster for a moment than its power limit lets it sustain, so on GPUs a
  // timing consists of about a tenth of a second of products.
  const int count = is_cuda ? 64 : 1;
  const double rate = 2.0 * n * n * n * count / quickest_products(count, n, dtype, backend);
  return {rate, fmt::format("{:.4g} TFLOP/s, the quickest of {}{} matmuls of {}x{}x{} in {} here",
                            rate / 1e12, kRepeats, is_cuda ? fmt::format(" times {}", count) : "",
                            n, n, n, name(dtype))};
}

}  // namespace longshore::trainer
