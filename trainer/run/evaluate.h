// evaluate() sums the losses of held-out text, by a forward plan on the weights being trained.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "data/rows/batches.h"
#include "offload/execution/arguments.h"
#include "offload/execution/executor.h"
#include "trainer/distributed/world.h"

namespace longshore::trainer {

struct LossSum {
  double nats = 0;
  int64_t tokens = 0;

  double mean() const { return nats / static_cast<double>(tokens); }
};

// Over the micro-batches [0, count) of all processes' `batches`; nothing where `stops`, asked
// before each of them, says so.
std::optional<LossSum> evaluate(offload::Executable& plan, const data::BatchSource& batches,
                                int64_t count, offload::Backend& backend,
                                offload::Arguments& arguments, offload::Ledger& ledger,
                                World& world, const std::function<bool()>& stops);

}  // namespace longshore::trainer
