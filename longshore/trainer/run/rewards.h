// How lines and records of steps and validations say how answers are rated, by TRL's names.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "longshore/trainer/step/answers.h"

namespace longshore::trainer {

// "rewards/margins: 0.2215, rewards/accuracies: 0.7500"; of answers alone, without pairs,
// "rewards/chosen: 0.1120, rewards/rejected: -0.1093".
std::string rewards_text(const Rewards& rewards);

// Gives a record `rewards_chosen`, `rewards_margins` and so on, behind the prefix; no margins where
// one side has no answers, and no accuracies without pairs.
void add_to(nlohmann::ordered_json& record, const Rewards& rewards, const std::string& prefix = "");

}  // namespace longshore::trainer
