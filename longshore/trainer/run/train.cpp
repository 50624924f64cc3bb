#include "longshore/trainer/run/train.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/base/late_notice.h"
#include "longshore/base/printable.h"
#include "longshore/base/stop_signal.h"
#include "longshore/base/timing.h"
#include "longshore/data/rows/token_file_check.h"
#include "longshore/models/hf/config.h"
#include "longshore/trainer/checkpoint/same_run.h"
#include "longshore/trainer/config/backend_choice.h"
#include "longshore/trainer/config/config_text.h"
#include "longshore/trainer/config/device_mesh.h"
#include "longshore/trainer/config/hf_config.h"
#include "longshore/trainer/config/inputs.h"
#include "longshore/trainer/config/key_values.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/config/objective.h"
#include "longshore/trainer/config/rope_override.h"
#include "longshore/trainer/config/run_files.h"
#include "longshore/trainer/config/unused_keys.h"
#include "longshore/trainer/distributed/connect.h"
#include "longshore/trainer/distributed/same_config.h"
#include "longshore/trainer/planner/advice/choose_policy.h"
#include "longshore/trainer/planner/auto/auto_policy.h"
#include "longshore/trainer/run/agreed_plans.h"
#include "longshore/trainer/run/console.h"
#include "longshore/trainer/run/opened_run.h"
#include "longshore/trainer/run/plan_record.h"
#include "longshore/trainer/run/run.h"
#include "longshore/trainer/step/batch_arguments.h"
#include "longshore/trainer/step/training_plans.h"
#include "longshore/trainer/weights/folders_read.h"
#include "longshore/trainer/weights/load_parameters.h"

namespace longshore::trainer {
namespace {

// A model of random weights is saved with a config.json of its own; better to know that there is
// none before training than after it.
void require_savable(const Config& config, models::Target target) {
  const bool saves_adapter_alone = config.lora_rank > 0 && config.trainable_parameters_mask.empty();
  if (!config.enable_checkpointing || !config.load_parameters_path.empty() || saves_adapter_alone)
    return;
  const models::DecoderConfig model = decoder_config(config, target);
  try {
    models::write_hf_config(model);
  } catch (const ConfigError& error) {
    throw ConfigError(location(config, "enable_checkpointing") + ": found true, but " +
                      error.what() + "; expected a model that can be saved, or false");
  }
}

// A sample is a row, of the prompt and what follows.
std::vector<std::string> doubts_about_sample(const Config& config) {
  if (!samples(config) || config.sample_tokens < config.max_target_length) return {};
  return {fmt::format("{}: {} is more than there is room for with {}, where the sample ends",
                      location(config, "sample_tokens"), config.sample_tokens,
                      described(config, "max_target_length"))};
}

// What a run that begins with weights may have overlooked.
std::vector<std::string> doubts_about_weights(const Config& config) {
  std::vector<std::string> lines;
  if (!starts_from_weights(config)) return lines;
  if (config.dataset_type == DatasetType::synthetic)
    lines.push_back("the weights of load_parameters_path are trained on random tokens, with " +
                    described(config, "dataset_type"));
  const models::DecoderConfig there =
      read_hf_config(config.load_parameters_path, unknown_keys(config), images(config)).decoder;
  const models::DecoderConfig here = with_rope_override(config, there);
  if (here.rope_scaling != there.rope_scaling)
    lines.push_back(location(config, "rope_type") +
                    ": RoPE is scaled as these keys say, and not as config.json of " +
                    path_text(config.load_parameters_path) + " says; saved models say it too");
  const std::optional<int64_t> most = here.max_position_embeddings;
  if (most && config.max_target_length > *most)
    lines.push_back(
        fmt::format("{}: {} is more than the max_position_embeddings of {}, {}: the model was not "
                    "trained for it",
                    location(config, "max_target_length"), config.max_target_length,
                    path_text(config.load_parameters_path), *most));
  return lines;
}

// Of a run that goes on from its own checkpoint.
std::vector<std::string> doubts_about_start(const Config& config, const Manifest& saved) {
  constexpr const char* kStart = "load_full_state_path";
  const auto there = saved.config.find(kStart);
  if (config.load_full_state_path.empty() || there == saved.config.end() ||
      there->second == value_text(*find_key(kStart), config))
    return {};
  return {location(config, kStart) +
          " is not read: the run goes on from its own checkpoint, and did not begin there; another "
          "run_name begins with it"};
}

// The steps are those of the data, and so is whether a chat template has written it; a run that
// goes on keeps the schedule that it began with.
RunSpec begun(const RunSpec& spec, const OpenedRun& opened) {
  Config config = spec.config();
  config.steps = opened.data.steps;
  if (!opened.data.chat_template && config.dataset_type != DatasetType::synthetic)
    config.chat_template = data::kNoTemplate;
  return spec.with(opened.start ? with_schedule_of(*opened.start, config) : config);
}

// Files that are no longer those that a checkpoint is of say so where they were changed, rather
// than that this is another run.
void require_unchanged(const Config& config, const TrainingData& data) {
  if (config.verify_token_files) data::TokenFileCheck(data.files).finish(StopSignal::is_there);
}

// Which pages alone read: a disk that is full ends no training for it.
void write_plan_record(const nlohmann::ordered_json& record, const std::filesystem::path& folder,
                       Console& console) {
  try {
    write_file(folder / kPlanRecordFile, record.dump() + "\n", Links::refused);
  } catch (const FileError& error) {
    console.notice(std::string("warning: ") + error.what());
  }
}

}  // namespace

void train(const Config& given, Verbosity verbosity, const Onlooker& onlooker) {
  require_decoder(given);
  require_inputs(given);
  const StopSignal listening(StopSignal::First::ends);  // others may be waited for in vain
  const Launch launch = find_launch();
  const ChosenBackend chosen = choose_backend(given, launch.local_rank);
  require_dtype(given, chosen.target);
  const std::unique_ptr<World> world = connect(launch, chosen.target);
  StopSignal::note_from_now();
  require_same_config(given, chosen.target, *world);
  const Config config = with_devices(with_folders_read(given), world->size());
  require_savable(config, chosen.target);
  const RunSpec asked(config, chosen.target);

  Console console(*world, verbosity);
  console.line("backend: " + chosen.description);
  for (const std::string& line : unused_keys(config)) console.notice("warning: " + line);
  for (const std::string& line : doubts_about_sample(config)) console.notice("warning: " + line);
  for (const std::string& line : doubts_about_weights(config)) console.notice("warning: " + line);
  if (world->size() > 1) console.line("processes: " + text(launch) + "; " + mesh_text(config));
  const models::DecoderConfig model = decoder_config(config, chosen.target);
  if (starts_from_weights(config))
    require_weights(config, model,
                    offload::lay_out(make_model(config, chosen.target), layout_options(config)));
  std::optional<LateNotice> choosing;
  if (world->is_first())
    choosing.emplace("train: trying many plans, to choose among them", std::chrono::seconds(2));
  const auto [with_choices, account] = with_chosen_policy(asked);
  choosing.reset();
  if (!account.empty()) console.line(account);

  const std::unique_ptr<offload::Backend> backend = make_backend(
      chosen.target, chosen.device,
      connect_devices(*world, device_mesh(config, world->rank()), chosen.target, chosen.device));
  const auto begin = std::chrono::steady_clock::now();
  const TrainingPlans plans = agreed_plans(with_choices, *backend, *world);
  const double planning_seconds = seconds_since(begin);
  data::BatchSchema schema = batch_schema(
      plans.model, {with_choices.config().per_device_batch_size, config.max_target_length});
  schema.counted = counted(config);
  const OpenedRun opened(with_choices.config(), schema, *world, console.log());
  const RunSpec spec = begun(with_choices, opened);
  if (opened.start) {
    const Manifest here = describe_run(spec.config(), model.dtype, opened.data.identity,
                                       opened.start->manifest.frozen_weights);
    if (here.data != opened.start->manifest.data) require_unchanged(spec.config(), opened.data);
    require_same_run(spec.config(), here, *opened.start);
    if (opened.saved_step >= 0)
      for (const std::string& line : doubts_about_start(spec.config(), opened.start->manifest))
        console.notice("warning: " + line);
  }
  if (world->is_first()) {
    const std::filesystem::path& folder = opened.directory->path();
    write_resolved(spec.config(), folder / kConfigFile);
    write_file(folder / kPlanFile, account + text(plans), Links::refused);
    write_plan_record(plan_record(spec, plans, chosen.description, world->size()), folder, console);
    if (onlooker.begin) console.notice(onlooker.begin(folder));
  }
  run({.spec = spec,
       .plans = plans,
       .planning_seconds = planning_seconds,
       .opened = opened,
       .backend = *backend,
       .world = *world,
       .console = console});
}

}  // namespace longshore::trainer
