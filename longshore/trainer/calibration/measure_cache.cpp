#include "longshore/trainer/calibration/measure_cache.h"

#include <algorithm>
#include <vector>

#include "longshore/base/timing.h"
#include "longshore/models/ir/add.h"
#include "longshore/trainer/calibration/timed_instruction.h"
#include "longshore/trainer/step/step_plans.h"

namespace longshore::trainer {

void measure_cache(const models::DecoderConfig& decoder, offload::Backend& backend,
                   offload::Hardware& hardware) {
  constexpr int64_t kMaxBytes = int64_t{1} << 28;  // more than any cache holds
  models::Model model = models::decoder(decoder);
  const offload::Plan plan =
      plan_forward(model, offload::lay_out(model), "forward", {}, backend.target());
  const offload::Instruction& add = *std::ranges::find_if(
      plan.instructions, [](const offload::Instruction& i) { return i.op == &models::add_op; });
  int64_t bytes = 0;
  for (const auto* operands : {&add.in, &add.out})
    for (const offload::Operand& operand : *operands) bytes += operand.type.bytes();
  std::vector<TimedInstruction> kernels;
  while (std::ssize(kernels) * bytes < kMaxBytes) kernels.emplace_back(add, plan, backend);
  auto seconds = [&](size_t count) {
    constexpr int kTimings = 8;
    return quickest_seconds(kTimings,
                            [&] {
                              for (size_t i = 0; i < kernels.size(); ++i)
                                kernels[i % count].enqueue(1);
                              backend.synchronize();
                            }) /
           static_cast<double>(kernels.size());
  };
  const double cached = seconds(1), fetched = seconds(kernels.size());
  if (fetched < 1.1 * cached) return;
  size_t count = 1;  // the largest number of kernels that take closer to `cached` than to `fetched`
  for (size_t more = 2; more < kernels.size(); more += more / 2)
    if (2 * seconds(more) < cached + fetched) count = more;
  hardware.cache_bytes = static_cast<int64_t>(count) * bytes;
  hardware.fetch_bytes_per_second = static_cast<double>(bytes) / (fetched - cached);
}

}  // namespace longshore::trainer
