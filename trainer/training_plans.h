// Everything a run will execute, planned before anything is allocated.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "models/llama.h"
#include "trainer/config.h"
#include "trainer/step.h"

namespace longshore::trainer {

struct TrainingPlans {
  models::LlamaConfig model;
  offload::ParameterLayout layout;
  StepOptions options;
  StepPlans step;
  std::optional<offload::Plan> evaluate;  // where there is validation text
  std::optional<offload::Plan> sample;    // logits of one position

  std::vector<const offload::Plan*> all() const;
};

// Throws ConfigError when the remat policy does not suit the model.
TrainingPlans plan_training(const Config& config, models::Target target);

bool evaluates(const Config& config);
bool samples(const Config& config);

// Of all plans together: arguments once, the largest arena.
offload::MemoryAnalysis analyze(const TrainingPlans& plans, offload::MemoryKind kind);

// The run directory's plan.txt.
std::string text(const TrainingPlans& plans);

// Throws PlanError when the backend cannot hold the plans: what they need and what is there by
// memory kind, and which keys would make it smaller, each tried.
void require_room(const Config& config, const TrainingPlans& plans, offload::Backend& backend);

}  // namespace longshore::trainer
