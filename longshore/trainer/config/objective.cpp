#include "longshore/trainer/config/objective.h"

namespace longshore::trainer {
namespace {

models::PreferenceLoss loss_kind(const Config& config) {
  using models::PreferenceLoss;
  switch (config.objective) {
    case Objective::ipo:
      return PreferenceLoss::squared;
    case Objective::orpo:
      return PreferenceLoss::odds_ratio;
    case Objective::kto:
      return PreferenceLoss::kto;
    case Objective::dpo:
      if (config.dpo_loss == DpoLoss::robust) return PreferenceLoss::robust;
      if (config.dpo_loss == DpoLoss::hinge) return PreferenceLoss::hinge;
      break;
    case Objective::sft:
    case Objective::distill:
    case Objective::simpo:
    case Objective::policy_gradient:
      break;
  }
  return PreferenceLoss::sigmoid;
}

bool normalizes_length(const Config& config) {
  if (config.preference_length_normalization != LengthNormalization::automatic)
    return config.preference_length_normalization == LengthNormalization::on;
  return config.objective == Objective::ipo || config.objective == Objective::orpo ||
         config.objective == Objective::simpo;
}

}  // namespace

bool is_preference(const Config& config) {
  return learns_answers(config) && config.objective != Objective::policy_gradient;
}

bool learns_answers(const Config& config) {
  return config.objective != Objective::sft && config.objective != Objective::distill;
}

bool estimates_kl(const Config& config) { return config.objective == Objective::kto; }

data::ExampleKind example_kind(const Config& config) {
  if (is_preference(config)) return data::ExampleKind::preference;
  return learns_answers(config) ? data::ExampleKind::rollout : data::ExampleKind::text;
}

bool has_segments(const Config& config) {
  return config.dataset_type == DatasetType::documents &&
         (config.packing || learns_answers(config));
}

bool has_reference(const Config& config) {
  return config.objective == Objective::dpo || config.objective == Objective::ipo ||
         config.objective == Objective::kto;
}

data::Counted counted(const Config& config) {
  if (const auto policy = policy_gradient_options(config))
    return policy->mean_over == models::PolicyUnit::token ? data::Counted::targets
                                                          : data::Counted::answers;
  if (!is_preference(config)) return data::Counted::targets;
  return config.objective == Objective::kto ? data::Counted::answers : data::Counted::pairs;
}

bool has_adapter(const Config& config) {
  return config.lora_rank > 0 || !config.load_adapter_path.empty();
}

bool trains_beside_adapter(const Config& config) {
  return has_adapter(config) &&
         (!config.modules_to_save.empty() || !config.trainable_parameters_mask.empty());
}

Reference reference_of(const Config& config) {
  if (config.reference != Reference::automatic) return config.reference;
  if (!has_adapter(config)) return Reference::frozen;
  const bool is_fresh = config.load_adapter_path.empty() && !trains_beside_adapter(config);
  return is_fresh ? Reference::adapter_off : Reference::adapter_start;
}

bool is_precomputed(const Config& config) {
  return has_reference(config) && reference_of(config) == Reference::precomputed;
}

std::optional<models::PreferenceObjective> preference_objective(const Config& config) {
  if (!is_preference(config)) return std::nullopt;
  const bool is_simpo = config.objective == Objective::simpo,
             is_orpo = config.objective == Objective::orpo;
  return models::PreferenceObjective{
      .loss = {.kind = loss_kind(config),
               .beta = config.preference_beta.value_or(is_simpo ? 2 : 0.1),
               .label_smoothing = config.preference_label_smoothing,
               .margin = is_simpo ? config.simpo_gamma : 0,
               .normalizes_length = normalizes_length(config),
               .chosen_weight = config.kto_desirable_weight,
               .rejected_weight = config.kto_undesirable_weight},
      .has_reference = has_reference(config),
      .sft_weight = config.preference_sft_weight.value_or(is_orpo ? 1 : 0),
      .sft_has_prompts = is_orpo};
}

std::optional<models::DistillationObjective> distillation_objective(const Config& config) {
  if (config.objective != Objective::distill) return std::nullopt;
  const bool is_forward = config.distill_loss == DistillLoss::forward_kl;
  return models::DistillationObjective{
      .loss = {.direction =
                   is_forward ? models::KlDirection::forward : models::KlDirection::reverse,
               .temperature = config.distill_temperature},
      .top_k = config.distill_top_k,
      .weight = config.distill_weight};
}

std::optional<models::PolicyGradientOptions> policy_gradient_options(const Config& config) {
  if (config.objective != Objective::policy_gradient) return std::nullopt;
  using models::PolicyUnit;
  const bool is_gspo = config.policy_loss == PolicyLoss::gspo,
             is_dapo = config.policy_loss == PolicyLoss::dapo;
  const double high = is_gspo ? 4e-4 : is_dapo ? 0.28 : 0.2;
  return models::PolicyGradientOptions{
      .ratio_of = is_gspo ? PolicyUnit::sequence : PolicyUnit::token,
      .mean_over = is_dapo ? PolicyUnit::token : PolicyUnit::sequence,
      .clip_low = config.policy_clip_low.value_or(is_gspo ? 3e-4 : 0.2),
      .clip_high = config.policy_clip_high.value_or(high),
      .kl_weight = config.policy_kl_weight};
}

}  // namespace longshore::trainer
