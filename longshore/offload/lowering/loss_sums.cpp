#include "longshore/offload/lowering/loss_sums.h"

#include <algorithm>

namespace longshore::offload {

using models::OutputRole;
using models::ValueId;

namespace {

// nullptr: none.
const char* argument_of(OutputRole role) {
  switch (role) {
    case OutputRole::loss:
      return kLoss;
    case OutputRole::sft_loss:
      return kSftLoss;
    case OutputRole::auxiliary_loss:
      return kAuxiliaryLoss;
    case OutputRole::expert_load:
      return kExpertLoad;
    case OutputRole::value:
    case OutputRole::later_layers:
    case OutputRole::log_probs:
    case OutputRole::state:
      break;
  }
  return nullptr;
}

}  // namespace

bool is_summed(OutputRole role) { return argument_of(role) != nullptr; }

Operand LossSums::argument(OutputRole role) {
  return builder_.argument(argument_of(role), models::Type{}, MemoryKind::device, Category::batch);
}

bool LossSums::begins(OutputRole role) {
  return begins_step(micro_batch_) && begun_.insert(role).second;
}

void LossSums::bind(const models::Program& program, ValueId value, OutputRole role,
                    PlanBuilder::Bindings& bindings) {
  const bool is_read = std::ranges::any_of(program.nodes, [&](const models::Node& node) {
    return std::ranges::find(node.in, value) != node.in.end();
  });
  if (is_read || !begins(role)) return;
  bindings.resize(program.values.size());
  bindings[value.index] = argument(role);
}

void LossSums::add(ValueId value, OutputRole role, const PlanBuilder::Bindings& bindings,
                   const Scope& scope) {
  const Operand sum = argument(role), part = bindings[value.index];
  if (part.buffer == sum.buffer) return;
  if (begins(role))
    builder_.move(part, sum, scope);
  else
    builder_.add(sum, part, scope);
}

}  // namespace longshore::offload
