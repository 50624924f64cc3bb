// evaluate() sums the losses of held-out text, by a forward plan on the weights being trained.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/execution/executor.h"
#include "longshore/trainer/distributed/world.h"
#include "longshore/trainer/run/training_data.h"
#include "longshore/trainer/step/step_inputs.h"

namespace longshore::trainer {

struct LossSum {
  double loss = 0, sft_loss = 0;
  int64_t weights = 0, chosen_targets = 0;  // that these are over
  std::optional<Rewards> rewards;           // of answers

  double mean() const;
  void add(const LossSum& other);
};

// Over all processes' batches; nothing where `stops`, asked before each of them, says so.
std::optional<LossSum> evaluate(offload::Executable& plan, StepInputs& inputs,
                                const RowsInOrder& rows, offload::Backend& backend,
                                offload::Arguments& arguments, offload::Ledger& ledger,
                                World& world, const std::function<bool()>& stops);

}  // namespace longshore::trainer
