#include "trainer/training_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "offload/arena.h"
#include "trainer/model_config.h"

namespace longshore::trainer {
namespace {

using offload::bytes_text;
using offload::MemoryAnalysis;
using offload::MemoryKind;
using offload::Plan;

std::map<std::string, offload::Fate> custom_fates(const Config& config) {
  std::map<std::string, offload::Fate> fates;
  for (const auto& [label, fate] : config.label_fates)
    fates[label] = fate == "device"    ? offload::Fate::keep
                   : fate == "offload" ? offload::Fate::offload
                                       : offload::Fate::remat;
  return fates;
}

const models::Stage& decoder(const models::Model& model) {
  return *std::find_if(model.stages.begin(), model.stages.end(),
                       [](const models::Stage& stage) { return stage.name == "decoder"; });
}

std::string by_category(const MemoryAnalysis& analysis) {
  std::string text;
  for (offload::Category category : offload::kCategories)
    if (int64_t bytes = analysis.by_category[static_cast<size_t>(category)]; bytes > 0)
      text += (text.empty() ? "" : ", ") + std::string(offload::name(category)) + " " +
              bytes_text(bytes);
  return text;
}

int64_t total_peak_bytes(const TrainingPlans& plans) {
  int64_t bytes = 0;
  for (MemoryKind kind : offload::kMemoryKinds) bytes += analyze(plans, kind).peak_bytes;
  return bytes;
}

// Keys that would make the run smaller, with what it would then need.
std::string smaller_choices(const Config& config, models::Target target) {
  struct Choice {
    std::string setting;
    Config config;
  };
  std::vector<Choice> choices;
  auto add = [&](const std::string& setting, auto change) {
    Config changed = config;
    change(changed);
    choices.push_back({setting, changed});
  };
  if (config.remat_policy != "full")
    add("remat_policy=full", [](Config& c) {
      c.remat_policy = "full";
      c.label_fates.clear();
    });
  if (config.per_device_batch_size > 1)
    add("per_device_batch_size=1", [](Config& c) { c.per_device_batch_size = 1; });
  if (config.max_target_length >= 1024)
    add(fmt::format("max_target_length={}", config.max_target_length / 2),
        [](Config& c) { c.max_target_length /= 2; });
  if (config.gradient_accumulation_steps > 1)
    add("gradient_accumulation_steps=1", [](Config& c) { c.gradient_accumulation_steps = 1; });
  if (config.base_num_decoder_layers > 1)
    add(fmt::format("base_num_decoder_layers={}", config.base_num_decoder_layers / 2),
        [](Config& c) { c.base_num_decoder_layers /= 2; });
  std::string text;
  for (const Choice& choice : choices)
    text += fmt::format("  {:<32} {}\n", choice.setting,
                        bytes_text(total_peak_bytes(plan_training(choice.config, target))));
  return text;
}

}  // namespace

std::vector<const Plan*> TrainingPlans::all() const {
  std::vector<const Plan*> plans;
  for (const Plan& plan : step.plans) plans.push_back(&plan);
  if (evaluate) plans.push_back(&*evaluate);
  if (sample) plans.push_back(&*sample);
  return plans;
}

bool evaluates(const Config& config) {
  return config.dataset_type == DatasetType::tokens && !config.eval_dataset_path.empty();
}

bool samples(const Config& config) {
  return config.dataset_type == DatasetType::tokens && config.sample_tokens > 0;
}

TrainingPlans plan_training(const Config& config, models::Target target) {
  TrainingPlans plans;
  plans.model = llama_config(config, compute_dtype(config, target));
  models::Model model = models::llama(plans.model);
  plans.layout = offload::lay_out(model);
  plans.options = {.policy = offload::make_policy(config.remat_policy, custom_fates(config),
                                                  decoder(model).programs[0]),
                   .micro_batches = config.gradient_accumulation_steps,
                   .optimizer = {.adamw = {.b1 = config.adam_b1,
                                           .b2 = config.adam_b2,
                                           .epsilon = config.adam_eps,
                                           .weight_decay = config.adam_weight_decay},
                                 .clipping_threshold = config.gradient_clipping_threshold}};
  plans.step = plan_step(model, plans.layout, plans.options, target);
  if (evaluates(config))
    plans.evaluate = plan_forward(model, plans.layout, "evaluate", plans.options.transfers, target);
  if (samples(config))
    plans.sample = plan_forward(models::llama(plans.model, {.head = models::Head::logits}),
                                plans.layout, "sample", plans.options.transfers, target);
  return plans;
}

MemoryAnalysis analyze(const TrainingPlans& plans, MemoryKind kind) {
  MemoryAnalysis result;
  std::set<std::string> seen;
  for (const Plan* plan : plans.all()) {
    MemoryAnalysis one = offload::analyze(*plan, kind);
    result.temp_bytes = std::max(result.temp_bytes, one.temp_bytes);
    if (one.live_bytes > result.live_bytes) {
      result.live_bytes = one.live_bytes;
      result.by_category = one.by_category;
    }
    result.output_bytes = std::max(result.output_bytes, one.output_bytes);
    for (const offload::Buffer& buffer : plan->buffers)
      if (buffer.owner == offload::Owner::caller && buffer.kind == kind &&
          seen.insert(buffer.name).second)
        result.argument_bytes += offload::align_up(buffer.bytes);
  }
  result.alias_bytes = result.output_bytes;
  result.peak_bytes = result.argument_bytes + result.temp_bytes;
  return result;
}

std::string text(const TrainingPlans& plans) {
  std::string result;
  for (MemoryKind kind : offload::kMemoryKinds) {
    MemoryAnalysis a = analyze(plans, kind);
    result += fmt::format(
        "{}: peak {} = argument {} + temp {}; output {}, alias {}, total {}; alive at most {}: "
        "{}\n",
        offload::name(kind), bytes_text(a.peak_bytes), bytes_text(a.argument_bytes),
        bytes_text(a.temp_bytes), bytes_text(a.output_bytes), bytes_text(a.alias_bytes),
        bytes_text(a.total_bytes()), bytes_text(a.live_bytes), by_category(a));
  }
  for (const Plan* plan : plans.all())
    result += fmt::format("plan {}: {} instructions, temp {}\n", plan->name,
                          plan->instructions.size(), bytes_text(plan->arena(MemoryKind::device)));
  return result + "\nremat_policy " + plans.options.policy.name + "\n\n" + plans.step.layers;
}

void require_room(const Config& config, const TrainingPlans& plans, offload::Backend& backend) {
  bool fits = true;
  std::string table;
  int64_t total = 0;
  for (MemoryKind kind : offload::kMemoryKinds) {
    MemoryAnalysis a = analyze(plans, kind);
    int64_t available = backend.available_bytes(kind);
    total += a.peak_bytes;
    // The CPU backend's kinds share one memory, so they must fit together.
    int64_t needed = backend.target() == models::Target::cuda ? a.peak_bytes : total;
    fits = fits && needed <= available;
    table += fmt::format("  {:<12} needs {} ({}), available {}\n", offload::name(kind),
                         bytes_text(a.peak_bytes), by_category(a), bytes_text(available));
  }
  if (fits) return;
  throw PlanError(fmt::format(
      "{} does not fit on this machine:\n{}It would need, in all memory kinds together, {}; "
      "with\n{}",
      config.config_file, table, bytes_text(total), smaller_choices(config, backend.target())));
}

}  // namespace longshore::trainer
