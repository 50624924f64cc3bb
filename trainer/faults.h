// What is said and kept when a step goes wrong.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "data/batches.h"
#include "offload/memory.h"
#include "trainer/metrics.h"
#include "trainer/step/memory_report.h"

namespace longshore::trainer {

// Whether memory was refused: by our backends, by the C++ library, or by a library that says so.
bool is_out_of_memory(const std::exception& error);

// What is taken now beside what was planned, kind by kind and category by category.
std::string memory_account(const offload::Ledger& ledger, const MemoryByKind& planned);

// Steps whose loss or gradient norm is not finite.
class NonFiniteSteps {
 public:
  // The first of them leave their batches in `folder`, which is made if need be.
  explicit NonFiniteSteps(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // What there is to say of such a step; "" of any other. Each micro-batch becomes a file for
  // probe --inputs.
  std::string account(const StepMetrics& step, const std::vector<data::Batch>& micro_batches);

 private:
  std::filesystem::path folder_;
  int64_t count_ = 0;
};

}  // namespace longshore::trainer
