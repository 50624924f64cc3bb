#include "longshore/trainer/step/training_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "longshore/data/rows/prefetched_batches.h"
#include "longshore/models/families/lora_config.h"
#include "longshore/models/families/vision.h"
#include "longshore/models/ops/update/adamw.h"
#include "longshore/models/ops/update/lion.h"
#include "longshore/models/ops/update/sgd.h"
#include "longshore/offload/lowering/explain.h"
#include "longshore/offload/memory/alignment.h"
#include "longshore/trainer/config/device_mesh.h"
#include "longshore/trainer/config/label_actions.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/config/objective.h"
#include "longshore/trainer/step/batch_arguments.h"
#include "longshore/trainer/step/prefetch.h"
#include "longshore/trainer/step/reference.h"
#include "longshore/trainer/step/short_step.h"
#include "longshore/trainer/weights/saved_state.h"

namespace longshore::trainer {
namespace {

using offload::Action;
using offload::MemoryKind;
using offload::Plan;

models::Optimizer optimizer_of(const Config& config) {
  switch (config.opt_type) {
    case OptType::adamw:
      return models::adamw({.b1 = config.adam_b1,
                            .b2 = config.adam_b2,
                            .epsilon = config.adam_eps,
                            .weight_decay = config.adam_weight_decay});
    case OptType::lion:
      return models::lion(
          {.b1 = config.lion_b1, .b2 = config.lion_b2, .weight_decay = config.lion_weight_decay});
    case OptType::sgd:
      break;
  }
  return models::sgd({.momentum = config.sgd_momentum,
                      .weight_decay = config.sgd_weight_decay,
                      .nesterov = config.sgd_nesterov});
}

bool is_of_lora_b(const offload::Parameter& parameter) { return models::is_lora_b(parameter.name); }

// LoRA+ (Hayou et al. 2024, arXiv 2402.12354) trains B faster than A.
bool has_lora_plus(const Config& config) {
  return config.lora_rank > 0 && config.loraplus_lr_ratio != 1;
}

std::vector<models::Optimizer> optimizers_of(const Config& config) {
  std::vector<models::Optimizer> optimizers{optimizer_of(config)};
  if (!has_lora_plus(config)) return optimizers;
  optimizers.insert(optimizers.begin(), optimizers[0]);
  optimizers[0].learning_rate_ratio = config.loraplus_lr_ratio;
  return optimizers;
}

OptimizerOptions optimizer_options(const Config& config) {
  return {.optimizers = optimizers_of(config),
          .clipping_threshold = config.gradient_clipping_threshold,
          .clipping_norm = config.gradient_clipping == GradientClipping::previous_global_norm
                               ? ClippingNorm::previous_global_norm
                               : ClippingNorm::global_norm,
          .seed = static_cast<uint64_t>(config.seed),
          .lane = config.optimizer_compute == OptimizerCompute::host ? offload::Lane::host_compute
                                                                     : offload::Lane::compute};
}

// A bucket is divided from its beginning, so that the last device is the first to have no part of
// any.
void require_part_for_each_device(const models::Model& model, offload::LayoutOptions options,
                                  const Config& config) {
  offload::MeshAxis &fsdp = options.mesh.fsdp, &data = options.mesh.data;
  auto last_trains = [&](int64_t devices) {
    fsdp.size = devices;
    fsdp.rank = devices - 1;
    data.rank = data.size - 1;
    return std::ranges::any_of(
        offload::lay_out(model, options).buckets, [](const offload::Bucket& s) {
          return s.trainable == models::Trainable::yes && !s.decay_ranges().empty();
        });
  };
  const int64_t devices = fsdp.size;
  const bool divides_again = options.shard_optimizer_over_data && data.size > 1;
  if ((devices == 1 && !divides_again) || last_trains(devices)) return;
  if (divides_again)
    throw ConfigError(fmt::format(
        "{}: found {} devices that share the optimizer state, of which the last would update "
        "nothing; expected fewer; nearest: shard_optimizer_over_data=false",
        location(config, "shard_optimizer_over_data"), devices * data.size));
  int64_t most = devices - 1;
  while (most > 1 && !last_trains(most)) --most;
  throw ConfigError(
      fmt::format("{}: found {} devices that share the parameters, of which the last would train "
                  "none; expected "
                  "at most {}; nearest: the others along ici_data_parallelism",
                  location(config, "ici_fsdp_parallelism"), devices, most));
}

double chosen_prefetch_layers(const RunSpec& spec, const models::Model& model,
                              const StepOptions& options) {
  if (spec.config().prefetch_layers) return *spec.config().prefetch_layers;
  return choose_prefetch_layers(model, layout_options(spec.config()), options, spec.target(),
                                spec.hardware_or_nominal());
}

// Of one run of a step's plans, apart from what callers give.
int64_t arena_bytes(const StepPlans& step) {
  int64_t most = 0;
  for (const Plan* plan : step.all()) most = std::max(most, plan->arena_bytes[MemoryKind::device]);
  return most;
}

// What the scanned layers of a step like this keep together on the device, at least.
int64_t kept_bytes(const models::Model& model, const offload::LayoutOptions& layout,
                   const StepOptions& options, models::Target target) {
  constexpr int kFewLayers = 2;
  std::map<std::string, int64_t> least;  // of a layer, by stage
  for (const offload::LayerPlan& layers :
       plan_short_step(model, kFewLayers, layout, options, target).layers)
    if (layers.is_scan) {
      const int64_t bytes = residual_bytes(*layers.partition, Action::keep);
      const auto [known, is_new] = least.try_emplace(layers.stage, bytes);
      known->second = std::min(known->second, bytes);
    }
  int64_t sum = 0;
  for (const models::Stage& stage : model.stages)
    if (stage.is_scan()) sum += least.at(stage.name) * std::ssize(stage.layers);
  return sum;
}

// Where values are few and states move, transfers that start at other times can make a step that
// computes values again take more device memory than one that keeps them all. Then these options
// keep them; nothing otherwise, and of policies that say of labels what is to happen. The first
// device's plans decide for all, whose shares may differ.
std::optional<StepOptions> keeping_all_in_less(const RunSpec& spec, const models::Model& model,
                                               const StepOptions& options,
                                               const StepPlans& step_of_first) {
  const Config& config = spec.config();
  const models::Target target = spec.target();
  const offload::LayoutOptions layout = layout_options(config);
  if (config.remat_policy == offload::kNone || config.remat_policy == offload::kCustom ||
      options.policy.offloads() || !has_transfers(layout.any_on_host(), layout.mesh, options))
    return std::nullopt;
  StepOptions keeping = options;
  keeping.policy.all = {.first = offload::keep_all(), .offload_layers = {}, .others = {}};
  keeping.policy.all.first.name = options.policy.all.first.name;
  const int64_t enough = arena_bytes(step_of_first);
  if (kept_bytes(model, layout, keeping, target) >= enough) return std::nullopt;
  keeping.transfers.prefetch_layers = chosen_prefetch_layers(spec, model, keeping);
  if (arena_bytes(plan_step(model, offload::lay_out(model, layout), keeping, target)) >= enough)
    return std::nullopt;
  return keeping;
}

// A prompt may be long, and there may be many: of some tokens at a time weights are read once.
std::vector<int64_t> prefill_lengths(const Config& config) {
  constexpr int64_t kTokens = 64;
  if (!samples_prompts(config)) return {};
  return {std::min(kTokens, sample_capacity(config))};
}

// Whether there may be saves while there are steps to come.
bool saves_on_the_way(const Config& config) {
  const bool saves_best =
      config.keep_best != KeepBest::none && config.eval_interval.value_or(0) < config.steps;
  const bool saves_each_period =
      config.checkpoint_period > 0 && config.checkpoint_period < config.steps;
  return saves_best || saves_each_period;
}

// Nothing drops out of what is only evaluated.
Config without_dropout(Config config) {
  config.lora_dropout = 0;
  return config;
}

}  // namespace

offload::LayoutOptions layout_options(const Config& config, int64_t rank) {
  auto home = [](bool is_offloaded) {
    return is_offloaded ? MemoryKind::pinned_host : MemoryKind::device;
  };
  offload::LayoutOptions options{.homes = {home(config.parameter_memory_host_offload),
                                           home(config.gradient_memory_host_offload),
                                           home(config.optimizer_memory_host_offload)},
                                 .mesh = device_mesh(config, rank),
                                 .shard_optimizer_over_data = config.shard_optimizer_over_data};
  options.layers_on_device = static_cast<int>(config.parameter_layers_on_device.value_or(0));
  if (config.weight_dtype == WeightDtype::bfloat16) options.weight_dtype = models::Dtype::bfloat16;
  // The gradients of toy_a are the result.
  if (config.toy != Toy::a)
    for (const models::Optimizer& optimizer : optimizers_of(config))
      options.optimizers.push_back({.states = states_of(optimizer, config.moment_dtype)});
  if (has_lora_plus(config)) options.optimizers[0].updates = is_of_lora_b;
  return options;
}

StepOptions step_options(const RunSpec& spec, const models::Model& model) {
  const Config& config = spec.config();
  const offload::LayerLabels labels(main_stage(model).programs);
  auto policy = [&](const std::map<std::string, Action>& custom) {
    return with_origin(config, [&] { return make_policy(config.remat_policy, custom, labels); });
  };
  offload::StagePolicy layers{
      .first = policy(actions_in_first_layers(config)), .offload_layers = {}, .others = {}};
  if (auto actions = actions_in_other_layers(config)) layers.others = policy(*actions);
  if (config.offload_layers) layers.offload_layers = static_cast<int>(*config.offload_layers);
  StepOptions options{.policy = std::move(layers),
                      .transfers = {},
                      .micro_batches = config.gradient_accumulation_steps};
  const auto tower = std::ranges::find(model.stages, models::kVisionStage, &models::Stage::name);
  if (tower != model.stages.end())
    options.policy.by_stage[tower->name] = {
        .first = offload::make_policy(config.remat_policy_for_vit, {}, tower->programs),
        .offload_layers = {},
        .others = {}};
  // The gradients of toy_a are the result.
  if (config.toy != Toy::a) options.optimizer = optimizer_options(config);
  options.transfers.prefetch_layers = chosen_prefetch_layers(spec, model, options);
  return options;
}

bool keeps_all_in_less(const StepOptions& options) {
  const offload::Policy& policy = options.policy.all.first;
  return policy.otherwise == Action::keep && policy.actions.empty() &&
         policy.name != offload::keep_all().name;
}

std::vector<const Plan*> TrainingPlans::all() const {
  std::vector<const Plan*> plans = step.all();
  if (precompute) plans.push_back(&*precompute);
  if (evaluate) plans.push_back(&*evaluate);
  if (choices) plans.push_back(&*choices);
  if (sample)
    for (const Plan* plan : sample->all()) plans.push_back(plan);
  return plans;
}

TrainingPlans plan_training(const RunSpec& spec, int64_t rank) {
  const Config& config = spec.config();
  const models::Target target = spec.target();
  TrainingPlans plans;
  plans.model = make_model(config, target);
  plans.layout = offload::lay_out(plans.model, layout_options(config, rank));
  plans.options = step_options(spec, plans.model);
  require_part_for_each_device(plans.model, layout_options(config), config);
  auto plan_as = [&](int64_t of_rank) {
    return with_origin(config, [&] {
      return plan_step(
          plans.model,
          of_rank == rank ? plans.layout : offload::lay_out(plans.model, layout_options(config)),
          plans.options, target);
    });
  };
  plans.step = plan_as(rank);
  if (auto keeping = keeping_all_in_less(spec, plans.model, plans.options,
                                         rank == 0 ? plans.step : plan_as(0))) {
    plans.options = *keeping;
    plans.step = plan_as(rank);
  }
  const offload::Transfers& transfers = plans.options.transfers;
  plans.step.preference = preference_objective(config);
  plans.step.policy_gradient = policy_gradient_options(config);
  if (auto reference =
          plan_reference(spec, plans.layout, layout_options(config, rank), transfers)) {
    plans.reference = std::move(reference->layout);
    plans.step.reference = std::move(reference->plan);
  }
  auto plan_log_probs = [&](const char* name) {
    return plan_forward(
        make_model(without_dropout(config), target, {.head = models::Head::log_probs}),
        plans.layout, name, transfers, target, offload::Carries::internal,
        plans.options.micro_batches);
  };
  if (estimates_kl(config)) plans.step.log_probs = plan_log_probs("log-probabilities");
  if (is_precomputed(config)) plans.precompute = plan_log_probs("reference");
  if (asks_choices(config)) plans.choices = plan_log_probs("choices");
  if (evaluates(config))
    plans.evaluate =
        plan_forward(make_model(without_dropout(config), target), plans.layout, "evaluate",
                     transfers, target, offload::Carries::internal, plans.options.micro_batches);
  if (samples(config))
    plans.sample =
        plan_decoding(decoder_config(config, target), plans.layout, sample_capacity(config),
                      prefill_lengths(config), transfers, target);
  plans.writes_checkpoints = config.enable_checkpointing && rank == 0 && !is_toy(config);
  plans.has_snapshot = config.enable_checkpointing && config.async_checkpointing &&
                       saves_on_the_way(config) && !given_arguments(plans.layout).empty();
  if (config.use_multimodal)
    plans.read_batch_bytes =
        (data::PrefetchedBatches::kReadyBatches + config.gradient_accumulation_steps) *
        data::bytes(
            batch_schema(plans.model, {config.per_device_batch_size, config.max_target_length}));
  return plans;
}

MemoryByKind analyze(const TrainingPlans& plans) {
  MemoryByKind memory = analyze(plans.all());
  offload::MemoryAnalysis& host = memory[MemoryKind::unpinned_host];
  auto add = [&](offload::Category category, int64_t bytes) {
    host.by_category[category] += bytes;
    for (int64_t* total :
         {&host.argument_bytes, &host.peak_bytes, &host.live_bytes, &host.live_bytes_outputs_late})
      *total += bytes;
  };
  if (plans.writes_checkpoints) add(offload::Category::saving, kSaveBytes);
  add(offload::Category::batch, plans.read_batch_bytes);
  if (plans.has_snapshot)
    for (const SavedArgument& one : given_arguments(plans.layout))
      add(one.category, offload::align_up(one.bytes));
  return memory;
}

std::vector<std::string> kernel_paths(const models::Model& model, models::Target target) {
  std::set<std::string> paths;
  for (const models::Stage& stage : model.stages)
    for (const models::Program& program : stage.programs)
      for (const models::Node& node : program.nodes)
        if (auto path = node.op->kernel(target).path)
          paths.insert(node.op->name + std::string(": ") +
                       path(node.attrs, program.types(node.in)));
  return {paths.begin(), paths.end()};
}

std::string text(const TrainingPlans& plans) {
  std::string result = text(analyze(plans));
  const std::vector<offload::PlanRuns> runs = plans.step.runs();
  for (const Plan* plan : plans.all()) {
    const auto found = std::ranges::find(runs, plan, &offload::PlanRuns::plan);
    const int64_t times = found == runs.end() ? 1 : found->times;
    result +=
        fmt::format("plan {}{}: {} instructions, temp {}\n", plan->name,
                    times > 1 ? fmt::format(", {} times", times) : "", plan->instructions.size(),
                    offload::bytes_text(plan->arena_bytes[MemoryKind::device]));
  }
  result += "\nremat_policy " + plans.options.policy.all.first.name +
            (keeps_all_in_less(plans.options) ? kKeepsAllInLess : "") + "\n";
  if (has_transfers(plans.layout.any_on_host(), plans.layout.mesh, plans.options))
    result +=
        fmt::format("transfers run {:g} layers ahead\n", plans.options.transfers.prefetch_layers);
  result += "\n";
  for (const offload::LayerPlan& layers : plans.step.layers)
    result += title(layers) + "\n" + text(*layers.partition) + "\n";
  return result;
}

}  // namespace longshore::trainer
