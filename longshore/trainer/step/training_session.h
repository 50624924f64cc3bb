// A model in training and all the memory it takes, from first values to the last step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/execution/executor.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/step/decoding.h"
#include "longshore/trainer/step/memory_report.h"
#include "longshore/trainer/step/reference_values.h"
#include "longshore/trainer/step/step.h"
#include "longshore/trainer/step/training_plans.h"

namespace longshore::trainer {

// Writes all parameters and moments, and says what was read.
using GiveFirstValues = std::function<std::string(offload::Arguments& arguments)>;

// Parameters from load_parameters_path, or from the seed where there is none; throws as
// load_parameters() does. Config and plans must outlive it.
GiveFirstValues first_values(const Config& config, const TrainingPlans& plans,
                             models::Target target);

class TrainingSession {
 public:
  // Allocates what the plans take. Plans and backend must outlive this.
  TrainingSession(const TrainingPlans& plans, offload::Backend& backend,
                  const GiveFirstValues& give_first_values);

  // What was read; "" where parameters come from the seed.
  const std::string& loaded() const { return loaded_; }

  TrainStep& step() { return step_; }
  offload::Arguments& arguments() { return arguments_; }
  offload::Ledger& ledger() { return ledger_; }
  // Of a reference that is precomputed.
  void set_reference_values(ReferenceValues values);

  // For another of the plans, in the same memory.
  std::unique_ptr<offload::Executable> executable(const offload::Plan& plan);
  std::unique_ptr<StepInputs> inputs(const StepPlans& plans);
  std::unique_ptr<Decoding> decoding(const DecodingPlans& plans);

  // Measured between steps: arguments by the ledger, arenas as allocated.
  int64_t peak_bytes(offload::MemoryKind kind) const;
  MemoryByKind memory() const;
  const MemoryByKind& planned() const { return planned_; }

 private:
  int64_t arena_bytes(offload::MemoryKind kind) const;

  offload::Backend& backend_;
  MemoryByKind planned_;
  offload::Ledger ledger_;
  offload::Arguments arguments_;
  offload::Arenas arenas_;
  std::string loaded_;
  std::optional<ReferenceValues> reference_values_;
  TrainStep step_;
};

}  // namespace longshore::trainer
