#include "longshore/trainer/run/validation.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "longshore/base/text.h"
#include "longshore/trainer/run/rewards.h"

namespace longshore::trainer {

std::string total_text(const Validation& validation) {
  const double loss = validation.loss.value();
  if (!std::isfinite(loss)) return fmt::format("{}", without_sign_of_nan(loss));
  std::string text = fmt::format("{:.4f}", loss);
  if (validation.rewards) text += ", " + rewards_text(*validation.rewards);
  if (!validation.unigram_loss) return text;
  const double below = *validation.unigram_loss - loss;
  return text + fmt::format(", {:.2f} nats {} the unigram cross-entropy of {:.4f}", std::abs(below),
                            below < 0 ? "above" : "below", *validation.unigram_loss);
}

double SetLoss::perplexity() const { return std::exp(loss); }

std::string text(const Validation& validation) {
  std::string text = total_text(validation), separator = "; ";
  for (const SetLoss& set : validation.sets) {
    text += fmt::format("{}{} {:.4f}", separator, set.name, without_sign_of_nan(set.loss));
    if (validation.is_cross_entropy)
      text += fmt::format(" (perplexity {:.4g})", without_sign_of_nan(set.perplexity()));
    separator = ", ";
  }
  return text;
}

std::string text(const ChoicesAccuracy& accuracy) {
  return fmt::format("{:.4f}, over characters {:.4f}, over bytes {:.4f}", accuracy.by_likelihood,
                     accuracy.by_characters, accuracy.by_bytes);
}

std::optional<double> number(const nlohmann::ordered_json& record, const std::string& key) {
  const auto found = record.find(key);
  if (found == record.end()) return std::nullopt;
  return found->is_null() ? std::numeric_limits<double>::quiet_NaN() : found->get<double>();
}

std::optional<double> number(const Validation& validation, const std::string& key) {
  nlohmann::ordered_json record;
  add_to(record, validation);
  return number(record, key);
}

void add_to(nlohmann::ordered_json& record, const Validation& validation) {
  if (validation.loss) record[kValidationLoss] = *validation.loss;
  for (const SetLoss& set : validation.sets) {
    record["validation_losses"][set.name] = set.loss;
    if (validation.is_cross_entropy) record["validation_perplexities"][set.name] = set.perplexity();
  }
  if (validation.rewards) add_to(record, *validation.rewards, "validation_");
  if (!validation.choices) return;
  record[kChoicesAccuracy] = validation.choices->by_likelihood;
  record["choices_accuracy_over_characters"] = validation.choices->by_characters;
  record["choices_accuracy_over_bytes"] = validation.choices->by_bytes;
}

}  // namespace longshore::trainer
