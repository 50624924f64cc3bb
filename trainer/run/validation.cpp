#include "trainer/run/validation.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace longshore::trainer {
namespace {

std::string text_of_all(const Validation& validation) {
  if (!std::isfinite(validation.loss))
    return fmt::format("{}", without_sign_of_nan(validation.loss));
  const double below = validation.unigram_loss - validation.loss;
  return fmt::format("{:.4f}, {:.2f} nats {} the unigram cross-entropy of {:.4f}", validation.loss,
                     std::abs(below), below < 0 ? "above" : "below", validation.unigram_loss);
}

}  // namespace

double SetLoss::perplexity() const { return std::exp(loss); }

std::string text(const Validation& validation) {
  std::string text = text_of_all(validation), separator = "; ";
  for (const SetLoss& set : validation.sets) {
    text += fmt::format("{}{} {:.4f} (perplexity {:.4g})", separator, set.name,
                        without_sign_of_nan(set.loss), without_sign_of_nan(set.perplexity()));
    separator = ", ";
  }
  return text;
}

void add_to(nlohmann::ordered_json& record, const Validation& validation) {
  record[kValidationLoss] = validation.loss;
  for (const SetLoss& set : validation.sets) {
    record["validation_losses"][set.name] = set.loss;
    record["validation_perplexities"][set.name] = set.perplexity();
  }
}

}  // namespace longshore::trainer
