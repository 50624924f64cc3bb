#include "longshore/trainer/run/rewards.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "longshore/base/text.h"

namespace longshore::trainer {

std::string rewards_text(const Rewards& rewards) {
  if (rewards.pairs == 0)
    return fmt::format("rewards/chosen: {:.4f}, rewards/rejected: {:.4f}",
                       without_sign_of_nan(rewards.mean_chosen()),
                       without_sign_of_nan(rewards.mean_rejected()));
  return fmt::format("rewards/margins: {:.4f}, rewards/accuracies: {:.4f}",
                     without_sign_of_nan(rewards.margin()), rewards.accuracy());
}

void add_to(nlohmann::ordered_json& record, const Rewards& rewards, const std::string& prefix) {
  record[prefix + "rewards_chosen"] = rewards.mean_chosen();
  record[prefix + "rewards_rejected"] = rewards.mean_rejected();
  if (rewards.chosen_answers > 0 && rewards.rejected_answers > 0)
    record[prefix + "rewards_margins"] = rewards.margin();
  if (rewards.pairs > 0) record[prefix + "rewards_accuracies"] = rewards.accuracy();
  record[prefix + "logps_chosen"] = rewards.mean_chosen_log_probs();
  record[prefix + "logps_rejected"] = rewards.mean_rejected_log_probs();
}

}  // namespace longshore::trainer
