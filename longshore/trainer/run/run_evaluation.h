// A RunEvaluation shows how well a run's model does: its loss on validation text, and text of its
// own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "longshore/trainer/config/config.h"
#include "longshore/trainer/distributed/world.h"
#include "longshore/trainer/run/summary.h"
#include "longshore/trainer/run/training_data.h"
#include "longshore/trainer/step/training_plans.h"
#include "longshore/trainer/step/training_session.h"

namespace longshore::trainer {

class RunEvaluation {
 public:
  // Evaluates and samples as far as the plans do. All arguments must outlive this.
  RunEvaluation(const Config& config, const TrainingPlans& plans, const TrainingData& data,
                offload::Backend& backend, TrainingSession& session, World& world);

  bool evaluates() const { return validation_ || choices_; }
  // On all validation text and all questions; nothing where `stops`, asked before each batch, says
  // so. All processes call it.
  std::optional<Validation> evaluate(const std::function<bool()>& stops);

  bool samples() const { return decoding_ != nullptr; }
  // The prompt and what follows it.
  std::string sample();

  bool samples_prompts() const { return samples() && !data_.eval_prompts.empty(); }
  // A line of JSON for each of eval_prompts_path: the prompt and the `text` that follows, null
  // where the model gives no finite numbers. Nothing where `stops`, asked before each, says so. All
  // processes call it.
  std::optional<std::string> sample_prompts(const std::function<bool()>& stops);

 private:
  std::optional<ChoicesAccuracy> ask_choices(const std::function<bool()>& stops);
  // What follows the prompt, by random numbers of its own.
  std::vector<int32_t> continuation(const Prompt& prompt, size_t index);

  const Config& config_;
  const TrainingData& data_;
  offload::Backend& backend_;
  TrainingSession& session_;
  World& world_;
  std::unique_ptr<offload::Executable> validation_;
  std::unique_ptr<StepInputs> inputs_;  // of that
  std::unique_ptr<offload::Executable> choices_;
  std::unique_ptr<Decoding> decoding_;
};

}  // namespace longshore::trainer
