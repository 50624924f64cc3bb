// A Validation is what an evaluation finds on the validation text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trainer/step/answers.h"

namespace longshore::trainer {

struct SetLoss {
  std::string name;
  double loss = 0;

  double perplexity() const;  // where it is nats a token
};

struct Validation {
  double loss = 0;  // nats a token, over all tokens of all sets, or the mean of pairs or answers
  std::optional<double> unigram_loss;  // of tokens alone
  std::vector<SetLoss> sets;           // that have names
  std::optional<Rewards> rewards;      // of answers
};

// "4.6735, 1.83 nats below the unigram cross-entropy of 6.4988; wiki 4.4012 (perplexity 81.55)", or
// "0.6021, rewards/margins 0.2215, rewards/accuracies 0.7500"
std::string text(const Validation& validation);

inline constexpr const char* kValidationLoss = "validation_loss";

// Gives a record the losses, and where sets have names each one's loss and perplexity.
void add_to(nlohmann::ordered_json& record, const Validation& validation);

}  // namespace longshore::trainer
