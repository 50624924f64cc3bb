// A Validation is what an evaluation finds on the validation text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace longshore::trainer {

struct SetLoss {
  std::string name;
  double loss = 0;  // nats a token

  double perplexity() const;
};

struct Validation {
  double loss = 0, unigram_loss = 0;  // nats a token, over all tokens of all sets
  std::vector<SetLoss> sets;          // that have names
};

// "4.6735, 1.83 nats below the unigram cross-entropy of 6.4988; wiki 4.4012 (perplexity 81.55)"
std::string text(const Validation& validation);

inline constexpr const char* kValidationLoss = "validation_loss";

// Gives a record the losses, and where sets have names each one's loss and perplexity.
void add_to(nlohmann::ordered_json& record, const Validation& validation);

}  // namespace longshore::trainer
