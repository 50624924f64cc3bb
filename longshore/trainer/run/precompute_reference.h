// precompute_reference() finds, before the first step, what the model as training begins says of
// the answers that a preference compares, so that no step needs a reference.
#pragma once

#include <functional>
#include <optional>

#include "longshore/trainer/checkpoint/manifest.h"
#include "longshore/trainer/run/planned_run.h"
#include "longshore/trainer/step/reference_values.h"
#include "longshore/trainer/step/training_session.h"

namespace longshore::trainer {

// Of all answers to train on and to evaluate, by all processes together. What was found before by a
// model of these weights and settings is read from the folder of tokens, and what is found now is
// kept there; a run that goes on reads what its own folder has. Nothing where `stops`, asked before
// each batch, says so; what was found up to then is kept. `described` is describe_run() of the run.
// Throws DataError for a file that is damaged, and ConfigError where a run that goes on evaluates
// other answers than it did.
std::optional<ReferenceValues> precompute_reference(const PlannedRun& run, TrainingSession& session,
                                                    const Manifest& described,
                                                    const std::function<bool()>& stops);

}  // namespace longshore::trainer
