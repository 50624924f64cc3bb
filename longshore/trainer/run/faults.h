// Reports what goes wrong in a step, and keeps the batches of one whose numbers are not finite.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "longshore/data/rows/batches.h"
#include "longshore/offload/memory/memory.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/run/metrics.h"
#include "longshore/trainer/step/memory_report.h"

namespace longshore::trainer {

// A table of what is taken now and what was planned, by memory kind and category.
std::string memory_account(const offload::Ledger& ledger, const MemoryByKind& planned);

// Steps whose loss or gradient norm is not finite.
class NonFiniteSteps {
 public:
  // The batches of the first such steps go to `folder`, which is made where it is missing. A probe
  // of them takes the loss of sft, which is said where the objective is another.
  explicit NonFiniteSteps(std::filesystem::path folder, Objective objective = Objective::sft)
      : folder_(std::move(folder)), objective_(objective) {}

  // A line about such a step; "" for any other step. Each micro-batch becomes a file for
  // probe --inputs.
  std::string account(const StepMetrics& step, const std::vector<data::Batch>& micro_batches);

 private:
  std::filesystem::path folder_;
  Objective objective_;
  int64_t count_ = 0;
};

}  // namespace longshore::trainer
