// A Validation is what an evaluation finds on the validation text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "longshore/trainer/run/choices_accuracy.h"
#include "longshore/trainer/step/answers.h"

namespace longshore::trainer {

struct SetLoss {
  std::string name;
  double loss = 0;

  double perplexity() const;  // where it is nats a token
};

struct Validation {
  // Nats a token, over all tokens of all sets, or the mean of pairs or answers; where there is text
  // held out.
  std::optional<double> loss;
  bool is_cross_entropy = true;            // it is nats a token
  std::optional<double> unigram_loss;      // of tokens alone
  std::vector<SetLoss> sets;               // that have names
  std::optional<Rewards> rewards;          // of answers
  std::optional<ChoicesAccuracy> choices;  // of eval_choices_path
};

// "4.6735, 1.83 nats below the unigram cross-entropy of 6.4988; wiki 4.4012 (perplexity 81.55)", or
// "0.6021, rewards/margins 0.2215, rewards/accuracies 0.7500". It has a loss.
std::string text(const Validation& validation);

// The same of all sets together.
std::string total_text(const Validation& validation);

// "0.6200, over characters 0.6400, over bytes 0.6400"
std::string text(const ChoicesAccuracy& accuracy);

inline constexpr const char* kValidationLoss = "validation_loss";
inline constexpr const char* kChoicesAccuracy = "choices_accuracy";

// A number of such a record, NaN where it has null; nothing where it has no such key. Throws
// nlohmann's exception where that is no number.
std::optional<double> number(const nlohmann::ordered_json& record, const std::string& key);
// The same of the record of a validation.
std::optional<double> number(const Validation& validation, const std::string& key);

// Gives a record the losses, and where sets have names each one's loss and perplexity; and the
// accuracies of choices.
void add_to(nlohmann::ordered_json& record, const Validation& validation);

}  // namespace longshore::trainer
