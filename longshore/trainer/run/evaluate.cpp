#include "longshore/trainer/run/evaluate.h"

#include "longshore/base/progress.h"
#include "longshore/offload/lowering/loss_sums.h"
#include "longshore/offload/lowering/pass_operands.h"

namespace longshore::trainer {
namespace {

// 0 where the model has no such loss.
double read_loss(const offload::Arguments& arguments, const char* name) {
  const std::string host = offload::host_name(name);
  float loss = 0;
  if (arguments.has(host)) arguments.read(host, &loss, sizeof loss);
  return loss;
}

}  // namespace

double LossSum::mean() const {
  const double sft = chosen_targets > 0 ? sft_loss / static_cast<double>(chosen_targets) : 0;
  return loss / static_cast<double>(weights) + sft;
}

void LossSum::add(const LossSum& other) {
  loss += other.loss;
  sft_loss += other.sft_loss;
  weights += other.weights;
  chosen_targets += other.chosen_targets;
  if (!other.rewards) return;
  if (!rewards) rewards.emplace();
  Rewards more = *other.rewards;
  for (int i = 0; i < Rewards::kCount; ++i) rewards->values()[i] += more.values()[i];
}

std::optional<LossSum> evaluate(offload::Executable& plan, StepInputs& inputs,
                                const RowsInOrder& rows, offload::Backend& backend,
                                offload::Arguments& arguments, offload::Ledger& ledger,
                                World& world, const std::function<bool()>& stops) {
  LossSum sum;
  Progress progress("evaluating", rows.count);
  for (int64_t i = 0; i < rows.count; ++i) {
    if (stops()) return std::nullopt;
    const std::vector<data::Batch> batch{rows.batches(i)};
    std::vector<data::Batch> of_others;
    if (rows.of_others) of_others.push_back(rows.of_others(i));
    inputs.write(batch, of_others, ledger);
    plan.run(ledger);
    backend.synchronize();
    sum.add({.loss = read_loss(arguments, offload::kLoss),
             .sft_loss = read_loss(arguments, offload::kSftLoss),
             .weights = world.sum(batch[0].total_weights),
             .chosen_targets = world.sum(batch[0].chosen_targets),
             .rewards = inputs.rewards(batch)});
    progress.add();
  }
  return sum;
}

}  // namespace longshore::trainer
