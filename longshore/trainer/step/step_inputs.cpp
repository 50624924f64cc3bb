#include "longshore/trainer/step/step_inputs.h"

#include <algorithm>
#include <array>

#include "longshore/base/error.h"
#include "longshore/offload/lowering/pass_operands.h"
#include "longshore/offload/lowering/scan.h"
#include "longshore/offload/memory/alignment.h"
#include "longshore/trainer/step/batch_arguments.h"

namespace longshore::trainer {
namespace {

int64_t bytes_of(const std::vector<float>& values) {
  return std::ssize(values) * static_cast<int64_t>(sizeof(float));
}

}  // namespace

std::vector<float> read_log_probs(const offload::Arguments& arguments, int64_t places,
                                  int64_t micro_batch) {
  std::vector<float> log_probs(static_cast<size_t>(places));
  const int64_t bytes = bytes_of(log_probs);
  arguments.read_part(offload::host_name(offload::kLogProbs),
                      micro_batch * offload::align_up(bytes), log_probs.data(), bytes);
  return log_probs;
}

StepInputs::StepInputs(const StepPlans& plans, offload::Backend& backend,
                       offload::Arguments& arguments, const offload::Arenas& arenas)
    : objective_(plans.preference),
      policy_gradient_(plans.policy_gradient),
      backend_(backend),
      arguments_(arguments) {
  auto executable = [&](const std::optional<offload::Plan>& plan) {
    return plan ? std::make_unique<offload::Executable>(*plan, backend, arguments, arenas)
                : nullptr;
  };
  reference_plan_ = executable(plans.reference);
  log_probs_plan_ = executable(plans.log_probs);
}

void StepInputs::write_batches(std::span<const data::Batch> batches) {
  for (size_t i = 0; i < batches.size(); ++i)
    write_batch(batches[i], arguments_, static_cast<int64_t>(i));
}

void StepInputs::write_values(const char* input, size_t batch, const std::vector<float>& values) {
  const int64_t bytes = bytes_of(values);
  arguments_.write_part(offload::host_name(input),
                        static_cast<int64_t>(batch) * offload::align_up(bytes), values.data(),
                        bytes);
}

StepInputs::LogProbs StepInputs::log_probs_of(size_t batches) const {
  LogProbs log_probs;
  for (size_t i = 0; i < batches; ++i)
    log_probs.push_back(read_log_probs(arguments_, places_, static_cast<int64_t>(i)));
  return log_probs;
}

StepInputs::LogProbs StepInputs::log_probs_by(offload::Executable& plan, size_t batches,
                                              offload::Ledger& ledger) {
  for (size_t i = 0; i < batches; ++i) plan.run(ledger, static_cast<int64_t>(i));
  backend_.synchronize();
  return log_probs_of(batches);
}

// Of batches that are written.
StepInputs::LogProbs StepInputs::reference_of(std::span<const data::Batch> batches,
                                              offload::Ledger& ledger) {
  if (reference_plan_) return log_probs_by(*reference_plan_, batches.size(), ledger);
  if (!reference_values_) throw InternalError("a precomputed reference was given no values");
  LogProbs log_probs;
  for (const data::Batch& batch : batches) log_probs.push_back(reference_values_->of(batch));
  return log_probs;
}

// The mean over the answers of all devices of how much more likely they are to the policy; at least
// 0, as the divergence that it estimates.
double StepInputs::kl(std::span<const data::Batch> batches, const LogProbs& policy,
                      const LogProbs& reference) const {
  double more = 0, count = 0;
  for (size_t i = 0; i < batches.size(); ++i)
    for (const Answer& answer : answers_of(batches[i])) {
      const auto at = static_cast<size_t>(answer.place);
      const double measure = static_cast<double>(policy[i][at]) - reference[i][at];
      more += objective_->loss.normalizes_length ? measure / static_cast<double>(answer.tokens)
                                                 : measure;
      count += 1;
    }
  std::array sums{more, count};
  sum_over_devices_(sums);
  return sums[1] > 0 ? std::max(0., sums[0] / sums[1]) : 0;
}

void StepInputs::write(std::span<const data::Batch> batches,
                       std::span<const data::Batch> mismatched, offload::Ledger& ledger) {
  write_batches(batches);
  places_ = batches[0].shape.rows * batches[0].shape.length;
  if (!objective_) return;
  if (objective_->has_reference) reference_ = reference_of(batches, ledger);
  std::vector<float> divergence;
  if (log_probs_plan_) {
    if (mismatched.size() != batches.size())
      throw InternalError("a KL estimate of " + std::to_string(batches.size()) +
                          " batches is given " + std::to_string(mismatched.size()));
    write_batches(mismatched);
    const LogProbs reference = reference_of(mismatched, ledger);
    const LogProbs policy = log_probs_by(*log_probs_plan_, mismatched.size(), ledger);
    divergence.assign(static_cast<size_t>(batches[0].shape.rows),
                      static_cast<float>(kl(mismatched, policy, reference)));
    write_batches(batches);
  }
  for (size_t i = 0; i < batches.size(); ++i) {
    if (objective_->has_reference) write_values(models::kReferenceLogProbs, i, reference_[i]);
    if (!divergence.empty()) write_values(models::kKl, i, divergence);
  }
}

std::optional<Rewards> StepInputs::rewards(std::span<const data::Batch> batches) const {
  if (!objective_) return std::nullopt;
  const LogProbs policy = log_probs_of(batches.size());
  Rewards rewards;
  for (size_t i = 0; i < batches.size(); ++i)
    add_rewards(*objective_, batches[i], policy[i],
                objective_->has_reference ? std::span<const float>(reference_[i])
                                          : std::span<const float>(),
                rewards);
  sum_over_devices_(rewards.values());
  return rewards;
}

std::optional<PolicyFigures> StepInputs::policy_figures(
    std::span<const data::Batch> batches) const {
  if (!policy_gradient_) return std::nullopt;
  const LogProbs log_probs = log_probs_of(batches.size());
  PolicyFigures figures;
  for (size_t i = 0; i < batches.size(); ++i)
    add_policy_figures(*policy_gradient_, batches[i], log_probs[i], figures);
  sum_over_devices_(figures.values());
  return figures;
}

}  // namespace longshore::trainer
