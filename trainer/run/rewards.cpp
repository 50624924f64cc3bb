#include "trainer/run/rewards.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace longshore::trainer {

std::string rewards_text(const Rewards& rewards) {
  return fmt::format("rewards/margins: {:.4f}, rewards/accuracies: {:.4f}",
                     without_sign_of_nan(rewards.margin()), rewards.accuracy());
}

void add_to(nlohmann::ordered_json& record, const Rewards& rewards, const std::string& prefix) {
  record[prefix + "rewards_chosen"] = rewards.mean_chosen();
  record[prefix + "rewards_rejected"] = rewards.mean_rejected();
  record[prefix + "rewards_margins"] = rewards.margin();
  record[prefix + "rewards_accuracies"] = rewards.accuracy();
  record[prefix + "logps_chosen"] = rewards.mean_chosen_log_probs();
  record[prefix + "logps_rejected"] = rewards.mean_rejected_log_probs();
}

}  // namespace longshore::trainer
