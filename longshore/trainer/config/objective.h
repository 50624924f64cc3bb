// What the config's objective means: the loss that a model's head computes, and what it is measured
// against.
#pragma once

#include <optional>

#include "longshore/data/rows/batch.h"
#include "longshore/data/text/example.h"
#include "longshore/models/families/decoder.h"
#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

// Whether data are pairs of answers.
bool is_preference(const Config& config);
// Whether a prompt's answer is learnt, and nothing of the prompt.
bool learns_answers(const Config& config);
// Whether the divergence from a reference is estimated, by answers to other prompts (kto).
bool estimates_kl(const Config& config);
data::ExampleKind example_kind(const Config& config);
// Whether a row has several sequences, which do not see each other.
bool has_segments(const Config& config);
// Whether the model has an adapter, of load_adapter_path also where its rank is not known yet; and
// whether weights that are none's train beside it.
bool has_adapter(const Config& config);
bool trains_beside_adapter(const Config& config);
// Whether the objective compares with another model.
bool has_reference(const Config& config);
// Which that is, where it is automatic: without adapter_off, adapter_start and frozen it is the
// model as training begins.
Reference reference_of(const Config& config);

// Whether its log-probabilities are kept from before the first step.
bool is_precomputed(const Config& config);

// What the mean of its loss is over.
data::Counted counted(const Config& config);

// Nothing where these are not learnt.
std::optional<models::PreferenceObjective> preference_objective(const Config& config);
std::optional<models::PolicyGradientOptions> policy_gradient_options(const Config& config);
std::optional<models::DistillationObjective> distillation_objective(const Config& config);

}  // namespace longshore::trainer
