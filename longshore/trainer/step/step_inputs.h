// StepInputs puts the batches of a step where its passes read them, with what a reference says of
// them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "longshore/data/rows/batch.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/execution/executor.h"
#include "longshore/trainer/step/answers.h"
#include "longshore/trainer/step/policy_figures.h"
#include "longshore/trainer/step/reference_values.h"
#include "longshore/trainer/step/step_plans.h"

namespace longshore::trainer {

// What a plan whose head gives log-probabilities has left of so many places, of that micro-batch.
std::vector<float> read_log_probs(const offload::Arguments& arguments, int64_t places,
                                  int64_t micro_batch = 0);

// Replaces each value by its sum over all devices. All of them call it, as often.
using SumOverDevices = std::function<void(std::span<double>)>;

class StepInputs {
 public:
  StepInputs(const StepPlans& plans, offload::Backend& backend, offload::Arguments& arguments,
             const offload::Arenas& arenas);

  void set_sum_over_devices(SumOverDevices sum) { sum_over_devices_ = std::move(sum); }
  // Of a reference that is precomputed; they must outlive this.
  void set_reference_values(const ReferenceValues& values) { reference_values_ = &values; }

  // `mismatched`: of kto as many batches, whose answers are those of other prompts. Runs the plans
  // before the passes, where there are any.
  void write(std::span<const data::Batch> batches, std::span<const data::Batch> mismatched,
             offload::Ledger& ledger);

  // After the passes on these batches: how the policy rates their answers, over all devices.
  // Nothing where answers are not compared.
  std::optional<Rewards> rewards(std::span<const data::Batch> batches) const;
  // The same of rollouts: how far it is from the policy that drew them.
  std::optional<PolicyFigures> policy_figures(std::span<const data::Batch> batches) const;

 private:
  using LogProbs = std::vector<std::vector<float>>;  // [B,T] of each batch

  void write_batches(std::span<const data::Batch> batches);
  LogProbs log_probs_by(offload::Executable& plan, size_t batches, offload::Ledger& ledger);
  LogProbs log_probs_of(size_t batches) const;
  LogProbs reference_of(std::span<const data::Batch> batches, offload::Ledger& ledger);
  double kl(std::span<const data::Batch> batches, const LogProbs& policy,
            const LogProbs& reference) const;
  void write_values(const char* input, size_t batch, const std::vector<float>& values);

  const std::optional<models::PreferenceObjective>& objective_;
  const std::optional<models::PolicyGradientOptions>& policy_gradient_;
  offload::Backend& backend_;
  offload::Arguments& arguments_;
  std::unique_ptr<offload::Executable> reference_plan_, log_probs_plan_;
  SumOverDevices sum_over_devices_ = [](std::span<double>) {};
  const ReferenceValues* reference_values_ = nullptr;
  int64_t places_ = 0;  // of a batch
  LogProbs reference_;  // of the batches that were written last
};

}  // namespace longshore::trainer
