#include "longshore/trainer/config/unused_keys.h"

#include <algorithm>
#include <optional>

#include "longshore/base/integer.h"
#include "longshore/base/printable.h"
#include "longshore/models/families/vision_config.h"
#include "longshore/offload/policy/policy.h"
#include "longshore/trainer/config/key_values.h"
#include "longshore/trainer/config/model_keys.h"
#include "longshore/trainer/config/objective.h"
#include "longshore/trainer/config/yaml.h"

namespace longshore::trainer {
namespace {

// A key that turns off others, when it does so, and which others.
struct Switch {
  std::string key;
  bool (*is_off)(const Config&);
  std::vector<std::string> of;
};

bool is_synthetic(const Config& config) { return config.dataset_type == DatasetType::synthetic; }

// Judged by the policy's name, since the model's layers are not known here.
bool keeps_activations_on_device(const Config& config) {
  return !offload::may_offload(config.remat_policy);
}

bool moves_nothing(const Config& config) {
  const bool has_states_on_host =
      config.parameter_memory_host_offload || config.gradient_memory_host_offload ||
      config.optimizer_memory_host_offload || config.optimizer_compute == OptimizerCompute::host;
  const bool is_alone = config.ici_fsdp_parallelism == 1 && config.dcn_fsdp_parallelism == 1 &&
                        config.ici_data_parallelism == 1 && config.dcn_data_parallelism == 1;
  return keeps_activations_on_device(config) && !has_states_on_host && is_alone;
}

// And mm_tokens_per_image says something else.
bool has_row_for_each_patch(const Config& config) {
  const models::VisionFamily* vision = models::vision_family_of(*config.model.family);
  return config.use_multimodal && vision && !vision->pools &&
         config.vision.image_tokens != config.vision.patches();
}

const std::vector<Switch>& switches() {
  static const std::vector<Switch> list{
      {"backend",
       [](const Config& config) { return config.backend == BackendChoice::cpu; },
       {"deterministic"}},
      {"lora_rank",
       [](const Config& config) { return config.lora_rank == 0; },
       {"lora_alpha", "lora_targets", "use_rslora", "use_dora", "modules_to_save",
        "trainable_token_indices", "rank_pattern", "alpha_pattern", "lora_dropout",
        "loraplus_lr_ratio", "lora_per_expert"}},
      {"objective",
       [](const Config& config) { return !is_preference(config); },
       {"preference_beta", "preference_length_normalization", "preference_sft_weight"}},
      {"objective",
       [](const Config& config) { return config.objective != Objective::distill; },
       {"distill_loss", "distill_top_k", "distill_temperature", "distill_weight"}},
      {"objective",
       [](const Config& config) { return config.objective != Objective::policy_gradient; },
       {"policy_loss", "policy_clip_low", "policy_clip_high", "policy_kl_weight"}},
      {"objective",
       [](const Config& config) {
         return config.objective != Objective::dpo && config.objective != Objective::simpo;
       },
       {"preference_label_smoothing"}},
      {"objective",
       [](const Config& config) { return config.objective != Objective::dpo; },
       {"dpo_loss"}},
      {"dpo_loss",
       [](const Config& config) {
         return config.objective == Objective::dpo && config.dpo_loss == DpoLoss::hinge;
       },
       {"preference_label_smoothing"}},
      {"objective",
       [](const Config& config) { return config.objective != Objective::simpo; },
       {"simpo_gamma"}},
      {"objective",
       [](const Config& config) { return config.objective != Objective::kto; },
       {"kto_desirable_weight", "kto_undesirable_weight"}},
      {"objective",
       [](const Config& config) { return !has_reference(config); },
       {"reference", "reference_parameters_path", "reference_memory_host_offload",
        "reference_weight_dtype"}},
      {"reference",
       [](const Config& config) {
         return has_reference(config) && reference_of(config) != Reference::frozen;
       },
       {"reference_parameters_path", "reference_memory_host_offload", "reference_weight_dtype"}},
      {"num_epoch", [](const Config& config) { return config.num_epoch > 0; }, {"steps"}},
      {"opt_type",
       [](const Config& config) { return config.opt_type != OptType::adamw; },
       {"adam_b1", "adam_b2", "adam_eps", "adam_weight_decay"}},
      {"opt_type",
       [](const Config& config) { return config.opt_type != OptType::lion; },
       {"lion_b1", "lion_b2", "lion_weight_decay"}},
      {"opt_type",
       [](const Config& config) { return config.opt_type != OptType::sgd; },
       {"sgd_momentum", "sgd_nesterov", "sgd_weight_decay"}},
      {"num_experts",
       [](const Config& config) { return config.model.experts == 0; },
       {"load_balance_loss_weight", "router_z_loss_weight", "lora_per_expert"}},
      {"load_balance_loss_weight",
       [](const Config& config) { return config.load_balance_loss_weight == 0; },
       {"load_balance_loss_type"}},
      {"gradient_clipping_threshold",
       [](const Config& config) { return config.gradient_clipping_threshold == 0; },
       {"gradient_clipping"}},
      {"enable_checkpointing",
       [](const Config& config) { return !config.enable_checkpointing; },
       {"checkpoint_period", "async_checkpointing", "max_num_checkpoints_to_keep",
        "fall_back_to_earlier_checkpoint"}},
      {"early_stopping_patience",
       [](const Config& config) { return config.early_stopping_patience == 0; },
       {"early_stopping_threshold"}},
      {"remat_policy", keeps_activations_on_device, {"offload_layers"}},
      {"remat_policy", moves_nothing, {"prefetch_layers"}},
      {"parameter_memory_host_offload",
       [](const Config& config) {
         return !config.parameter_memory_host_offload && config.remat_policy != offload::kAuto;
       },
       {"parameter_layers_on_device"}},
      {"dataset_type",
       is_synthetic,
       {"dataset_path",
        "eval_dataset_path",
        "eval_fraction",
        "tokenizer_path",
        "chat_template",
        "chat_template_kwargs",
        "chat_template_date",
        "train_on",
        "train_data_columns",
        "shuffle_window",
        "keep_tokens",
        "packing",
        "excess_length_strategy",
        "skip_bad_lines",
        "verify_token_files",
        "add_bos_eos",
        "eval_interval",
        "eval_steps",
        "eval_prompts_path",
        "eval_choices_path",
        "sample_prompt",
        "sample_tokens",
        "sample_temperature",
        "sample_top_k",
        "sample_top_p"}},
      {"shuffle_window",
       [](const Config& config) { return config.shuffle_window == 0 && !is_synthetic(config); },
       {"keep_tokens"}},
      {"eval_dataset_path",
       [](const Config& config) { return !evaluates(config) && !is_synthetic(config); },
       {"eval_steps"}},
      {"sample_tokens",
       [](const Config& config) { return config.sample_tokens == 0 && !is_synthetic(config); },
       {"sample_prompt", "sample_temperature", "sample_top_k", "sample_top_p"}},
      {"profiler_steps",
       [](const Config& config) { return config.profiler_steps == 0; },
       {"skip_first_n_steps_for_profiler"}},
      {"steps",
       [](const Config& config) {
         return config.profiler_steps > 0 && config.skip_first_n_steps_for_profiler >= config.steps;
       },
       {"profiler_steps", "skip_first_n_steps_for_profiler"}},
      {"steps",
       [](const Config& config) {
         return std::ranges::all_of(config.memory_report_steps, [&](const std::string& step) {
           return integer<int64_t>(step).value_or(0) >= config.steps;
         });
       },
       {"memory_report_steps"}},
      {"use_multimodal",
       [](const Config& config) { return !config.use_multimodal; },
       {"max_num_images_per_example", "remat_policy_for_vit", "max_image_pixels"}},
      {"model_type", has_row_for_each_patch, {"mm_tokens_per_image"}},
      {"frozen_weight_dtype",
       [](const Config& config) { return config.frozen_weight_dtype != FrozenWeightDtype::nf4; },
       {"frozen_weight_double_quantization"}},
      {"rope_type",
       [](const Config& config) { return config.rope_type != RopeType::llama3; },
       {"rope_low_freq_factor", "rope_high_freq_factor"}},
      {"rope_type",
       [](const Config& config) { return config.rope_type != RopeType::yarn; },
       {"beta_fast", "beta_slow", "rope_truncate", "rope_attention_factor"}},
      {"rope_type",
       [](const Config& config) { return !original_length(rope_scaling(config)); },
       {"rope_original_max_position_embeddings"}},
      {"sliding_window_size",
       [](const Config& config) { return config.model.window == 0; },
       {"local_rope_max_timescale"}},
  };
  return list;
}

template <class IsCounted>
std::vector<std::string> unused_keys_where(const Config& config, IsCounted is_counted) {
  const Config defaults;
  std::vector<std::string> lines;
  for (const Switch& one : switches()) {
    if (!is_counted(one.key) || !one.is_off(config)) continue;
    for (const std::string& name : one.of) {
      const Key& key = *find_key(name);
      const std::string value = value_text(key, config);
      if (!config.origins.contains(name) || value == value_text(key, defaults)) continue;
      lines.push_back(location(config, name) + ": " + excerpt(value) + " has no effect with " +
                      described(config, one.key));
    }
  }
  return lines;
}

}  // namespace

std::vector<std::string> unused_keys(const Config& config) {
  return unused_keys_where(config, [](const std::string&) { return true; });
}

std::vector<std::string> unused_keys_of(const Config& config,
                                        const std::vector<std::string>& switches) {
  return unused_keys_where(config, [&](const std::string& key) {
    return std::ranges::find(switches, key) != switches.end();
  });
}

std::vector<std::string> unused_keys(const Config& config,
                                     const std::vector<std::string>& policies) {
  std::optional<std::vector<std::string>> fewest;
  for (const std::string& policy : policies) {
    Config one = config;
    one.remat_policy = policy;
    std::vector<std::string> lines = unused_keys(one);
    if (!fewest || lines.size() < fewest->size()) fewest = std::move(lines);
  }
  std::vector<std::string> result = fewest.value_or(std::vector<std::string>());
  // In a file it is what the others are compared with.
  if (origin(config, "remat_policy") == kCommandLine &&
      std::ranges::find(policies, config.remat_policy) == policies.end())
    result.push_back(location(config, "remat_policy") + ": " + excerpt(config.remat_policy) +
                     " has no effect with --policies");
  return result;
}

}  // namespace longshore::trainer
