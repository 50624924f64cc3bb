#include "longshore/trainer/step/reference.h"

#include <algorithm>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/models/families/decoder.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/config/objective.h"
#include "longshore/trainer/step/step_plans.h"
#include "longshore/trainer/weights/initialize.h"
#include "longshore/trainer/weights/load_parameters.h"

namespace longshore::trainer {
namespace {

using offload::Bucket;
using offload::ParameterLayout;

constexpr const char* kPrefix = "reference.";
constexpr models::HeadOptions kLogProbs{.head = models::Head::log_probs};

// Of the same model, of which nothing trains, with no adapter.
Config frozen_config(Config config) {
  if (reference_of(config) == Reference::frozen) {
    config.frozen_weight_dtype = config.reference_weight_dtype;
    if (!config.reference_parameters_path.empty()) {
      config.load_parameters_path = config.reference_parameters_path;
      config.stored_formats = nullptr;
    }
  }
  config.lora_rank = 0;
  config.lora_modules.clear();
  config.modules_to_save.clear();
  config.trainable_token_indices.clear();
  config.rank_pattern.clear();
  config.alpha_pattern.clear();
  config.trainable_parameters_mask.clear();
  config.load_adapter_path.clear();
  return config;
}

models::Model frozen_model(const Config& config, models::Target target) {
  models::Model model = models::decoder(decoder_config(config, target), kLogProbs);
  set_trainable(model, [](const std::string&) { return false; });
  quantize_frozen(config, compute_dtype(config, target), model);
  return model;
}

void make_own(Bucket& bucket) {
  bucket.name = kPrefix + bucket.name;
  bucket.trainable = models::Trainable::no;
  bucket.weight_dtype = bucket.dtype;
  bucket.states.clear();
}

// That the arguments of one are those of the other.
void require_alike(const ParameterLayout& reference, const ParameterLayout& policy) {
  for (const Bucket& bucket : reference.buckets) {
    const auto same = std::ranges::find(policy.buckets, bucket.name, &Bucket::name);
    const bool is_alike =
        same != policy.buckets.end() &&
        bytes(*same, offload::Copy::compute) == bytes(bucket, offload::Copy::compute) &&
        std::ranges::equal(bucket.parameters, same->parameters,
                           [](const offload::Parameter& a, const offload::Parameter& b) {
                             return a.name == b.name && a.type == b.type && a.offset == b.offset;
                           });
    if (!is_alike)
      throw InternalError("the reference's " + bucket.name + " does not lie as the policy's");
  }
}

struct Laid {
  models::Model model;
  ParameterLayout layout;
};

// With its adapter, as a copy of what trains.
Laid adapter_start(const Config& config, models::Target target, const ParameterLayout& policy) {
  Config still = config;
  still.lora_dropout = 0;
  Laid laid{make_model(still, target, kLogProbs), policy};
  for (Bucket& bucket : laid.layout.buckets)
    if (bucket.trainable == models::Trainable::yes) make_own(bucket);
  return laid;
}

Laid adapter_off(const Config& config, models::Target target, const ParameterLayout& policy,
                 const offload::LayoutOptions& options) {
  Laid laid{frozen_model(frozen_config(config), target), {}};
  laid.layout = lay_out(laid.model, options);
  require_alike(laid.layout, policy);
  return laid;
}

Laid frozen(const Config& config, models::Target target, offload::LayoutOptions options) {
  Laid laid{frozen_model(frozen_config(config), target), {}};
  options.homes = {};
  if (config.reference_memory_host_offload)
    options.homes.parameters = offload::MemoryKind::pinned_host;
  options.layers_on_device = 0;
  laid.layout = lay_out(laid.model, options);
  for (Bucket& bucket : laid.layout.buckets) make_own(bucket);
  return laid;
}

}  // namespace

bool is_of_reference(const Bucket& bucket) { return bucket.name.starts_with(kPrefix); }

std::optional<PlannedReference> plan_reference(const RunSpec& spec, const ParameterLayout& policy,
                                               const offload::LayoutOptions& options,
                                               const offload::Transfers& transfers) {
  const Config& config = spec.config();
  const models::Target target = spec.target();
  const Reference kind = reference_of(config);
  if (!has_reference(config) || kind == Reference::precomputed) return std::nullopt;
  Laid laid = kind == Reference::adapter_start ? adapter_start(config, target, policy)
              : kind == Reference::adapter_off ? adapter_off(config, target, policy, options)
                                               : frozen(config, target, options);
  offload::Plan plan = plan_forward(laid.model, laid.layout, "reference", transfers, target,
                                    offload::Carries::internal, config.gradient_accumulation_steps);
  return PlannedReference{std::move(laid.layout), std::move(plan)};
}

std::string give_reference_values(const Config& config, const ParameterLayout& reference,
                                  models::Target target, offload::Arguments& arguments) {
  if (std::ranges::none_of(reference.buckets, is_of_reference)) return "";
  const bool is_frozen = reference_of(config) == Reference::frozen;
  const Config of_reference = is_frozen ? frozen_config(config) : config;
  if (of_reference.load_parameters_path.empty()) {
    initialize(reference, static_cast<uint64_t>(config.seed), arguments);
    return "";
  }
  return "reference " + load_parameters(of_reference, decoder_config(of_reference, target),
                                        reference, arguments, is_of_reference);
}

}  // namespace longshore::trainer
