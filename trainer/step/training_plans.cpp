#include "trainer/step/training_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "offload/alignment.h"
#include "offload/explain.h"
#include "trainer/config/device_mesh.h"
#include "trainer/config/label_fates.h"
#include "trainer/config/model_config.h"
#include "trainer/config/named_hardware.h"
#include "trainer/step/lookahead.h"
#include "trainer/weights/saved_state.h"

namespace longshore::trainer {
namespace {

using offload::Fate;
using offload::MemoryKind;
using offload::Plan;

OptimizerOptions optimizer_options(const Config& config) {
  return {.adamw = {.b1 = config.adam_b1,
                    .b2 = config.adam_b2,
                    .epsilon = config.adam_eps,
                    .weight_decay = config.adam_weight_decay},
          .clipping_threshold = config.gradient_clipping_threshold,
          .seed = static_cast<uint64_t>(config.seed),
          .lane = config.optimizer_compute == OptimizerCompute::host ? offload::Lane::host_compute
                                                                     : offload::Lane::compute};
}

// A slab is divided from its beginning, so that the last device is the first to have no part of
// any.
void require_part_for_each_device(const models::Model& model, offload::LayoutOptions options,
                                  const Config& config) {
  offload::MeshAxis &fsdp = options.mesh.fsdp, &data = options.mesh.data;
  auto last_trains = [&](int64_t devices) {
    fsdp.size = devices;
    fsdp.rank = devices - 1;
    data.rank = data.size - 1;
    return std::ranges::any_of(offload::lay_out(model, options).slabs, [](const offload::Slab& s) {
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
  if (config.weight_dtype == WeightDtype::bfloat16) options.weight_dtype = models::Dtype::bfloat16;
  if (config.moment_dtype == MomentDtype::bfloat16) options.moment_dtype = models::Dtype::bfloat16;
  if (config.moment_dtype == MomentDtype::block8) options.moment_dtype = models::Dtype::uint8;
  return options;
}

StepOptions step_options(const Config& config, const models::Model& model, models::Target target) {
  const models::Program& layer = scan_stage(model).programs[0];
  auto policy = [&](const std::map<std::string, Fate>& custom) {
    return with_origin(config, [&] { return make_policy(config.remat_policy, custom, layer); });
  };
  StepOptions options{.policy = policy(fates_in_first_layers(config)),
                      .transfers = {.layers_ahead = config.prefetch_layers},
                      .micro_batches = config.gradient_accumulation_steps};
  if (auto fates = fates_in_other_layers(config)) options.others = policy(*fates);
  if (config.offload_layers >= 0) options.offload_layers = static_cast<int>(config.offload_layers);
  // The gradients of toy_a are the result.
  if (config.model_type != ModelType::toy_a) options.optimizer = optimizer_options(config);
  if (config.prefetch_layers < 0)
    options.transfers.layers_ahead =
        choose_layers_ahead(model, layout_options(config), options, target,
                            named_hardware(config).value_or(offload::nominal_hardware(target)));
  return options;
}

std::vector<const Plan*> TrainingPlans::all() const {
  std::vector<const Plan*> plans = step.all();
  if (evaluate) plans.push_back(&*evaluate);
  if (sample)
    for (const Plan* plan : sample->all()) plans.push_back(plan);
  return plans;
}

TrainingPlans plan_training(const Config& config, models::Target target, int64_t rank) {
  TrainingPlans plans;
  plans.model = make_model(config, target);
  plans.layout = offload::lay_out(plans.model, layout_options(config, rank));
  plans.options = step_options(config, plans.model, target);
  require_part_for_each_device(plans.model, layout_options(config), config);
  plans.step = with_origin(
      config, [&] { return plan_step(plans.model, plans.layout, plans.options, target); });
  const offload::Transfers& transfers = plans.options.transfers;
  if (evaluates(config))
    plans.evaluate = plan_forward(plans.model, plans.layout, "evaluate", transfers, target);
  if (samples(config))
    plans.sample = plan_decoding(decoder_config(config, target), plans.layout,
                                 sample_capacity(config), {}, transfers, target);
  plans.has_snapshot = config.enable_checkpointing && config.async_checkpointing &&
                       config.checkpoint_period > 0 && config.checkpoint_period < config.steps &&
                       !given_arguments(plans.layout).empty();
  return plans;
}

MemoryByKind analyze(const TrainingPlans& plans) {
  MemoryByKind memory = analyze(plans.all());
  if (!plans.has_snapshot) return memory;
  offload::MemoryAnalysis& host = memory[MemoryKind::unpinned_host];
  for (const SavedArgument& one : given_arguments(plans.layout)) {
    const int64_t bytes = offload::align_up(one.bytes);
    host.by_category[one.category] += bytes;
    for (int64_t* total :
         {&host.argument_bytes, &host.peak_bytes, &host.live_bytes, &host.live_bytes_outputs_late})
      *total += bytes;
  }
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
  for (const Plan* plan : plans.all())
    result +=
        fmt::format("plan {}: {} instructions, temp {}\n", plan->name, plan->instructions.size(),
                    offload::bytes_text(plan->arena_bytes[MemoryKind::device]));
  result += "\nremat_policy " + plans.options.policy.name + "\n";
  if (has_transfers(plans.layout.homes, plans.layout.mesh, plans.options))
    result +=
        fmt::format("transfers run {:g} layers ahead\n", plans.options.transfers.layers_ahead);
  result += "\n";
  for (const offload::LayerPlan& layers : plans.step.layers)
    result += title(layers) + "\n" + text(*layers.partition) + "\n";
  return result;
}

}  // namespace longshore::trainer
