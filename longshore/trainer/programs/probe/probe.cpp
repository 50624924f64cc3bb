#include "longshore/trainer/programs/probe/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <span>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/base/print.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/data/safetensors/safetensors_writer.h"
#include "longshore/models/families/vision.h"
#include "longshore/models/ir/labels.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/execution/executor.h"
#include "longshore/trainer/config/backend_choice.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/config/config_text.h"
#include "longshore/trainer/config/help.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/config/trainable_mask.h"
#include "longshore/trainer/config/unused_keys.h"
#include "longshore/trainer/config/validate.h"
#include "longshore/trainer/planner/room.h"
#include "longshore/trainer/step/batch_arguments.h"
#include "longshore/trainer/step/inputs.h"
#include "longshore/trainer/step/memory_report.h"
#include "longshore/trainer/step/training_plans.h"
#include "longshore/trainer/weights/adapter.h"
#include "longshore/trainer/weights/adapter_format.h"
#include "longshore/trainer/weights/folder_model.h"
#include "longshore/trainer/weights/hf_folder.h"
#include "longshore/trainer/weights/load_parameters.h"
#include "longshore/trainer/weights/read_floats.h"
#include "longshore/trainer/weights/saved_tensors.h"
#include "longshore/trainer/weights/stored_as.h"
#include "longshore/trainer/weights/stored_formats.h"

namespace longshore::trainer {
namespace {

using models::DecoderConfig;
using offload::Copy;
using offload::Plan;

// Of the backward pass alone.
const std::vector<std::string>& keys_of_gradients() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> names{"trainable_parameters_mask", "remat_policy", "offload_layers"};
    for (const models::LabelInfo& label : models::kDecoderLabels) names.emplace_back(label.name);
    names.insert(names.end(), {offload::kUnlabelled, "gradient_memory_host_offload"});
    return names;
  }();
  return keys;
}

const std::vector<std::string>& overridable_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> names{"dtype", "backend", "frozen_weight_dtype",
                                   "frozen_weight_double_quantization"};
    std::ranges::copy(keys_of_gradients(), std::back_inserter(names));
    names.insert(names.end(), {"parameter_memory_host_offload", "parameter_layers_on_device",
                               "prefetch_layers", "allow_unknown_config_keys"});
    return names;
  }();
  return keys;
}

void require_keys_read(const Config& config, bool gradients) {
  for (const std::string& key : keys_of_gradients())
    if (!gradients && config.origins.contains(key))
      throw ConfigError(location(config, key) +
                        ": found a probe without --gradients, which alone read it");
}

Config default_config() {
  Config config;
  config.dtype = ComputeDtype::float32;  // what references are computed in
  return config;
}

// Nats at each position: log-sum-exp less the target's logit; 0 where nothing is trained.
std::vector<float> token_losses(const std::vector<float>& logits,
                                const std::vector<int32_t>& targets) {
  std::vector<float> losses(targets.size());
  size_t vocabulary = logits.size() / targets.size();
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == data::kIgnoredTarget) continue;
    std::span<const float> row(logits.data() + i * vocabulary, vocabulary);
    double largest = *std::ranges::max_element(row), sum = 0;
    for (float logit : row) sum += std::exp(logit - largest);
    losses[i] = static_cast<float>(largest + std::log(sum) - row[targets[i]]);
  }
  return losses;
}

std::string gradient_name(const offload::Parameter& parameter, const std::string& tensor) {
  return parameter.weight.of_adapter ? "grad_adapter." + peft_names(tensor)[0] : "grad." + tensor;
}

// A tensor of the file; its values are there after the run.
struct Result {
  models::Shape shape;
  std::function<std::vector<float>()> values;
};

class Probe {
 public:
  // `model` has the dtype that it computes in.
  Probe(const ProbeRequest& request, const Config& config, DecoderConfig model, ProbeInputs inputs,
        models::Target target)
      : model_(std::move(model)),
        inputs_(std::move(inputs)),
        gradients_(request.gradients),
        backend_(make_backend(target)),
        arguments_(*backend_, ledger_) {
    model_.batch = inputs_.batch.shape.rows;
    model_.length = inputs_.batch.shape.length;
    model_.segments = inputs_.batch.has(data::kSegments);
    if (model_.vision) model_.vision->images = inputs_.images;
    models::Model trained = models::decoder(model_);
    apply_mask(config, trained);
    if (!gradients_) set_trainable(trained, [](const std::string&) { return false; });
    Config storing = config;
    storing.stored_formats = stored_formats(request.model, model_);
    quantize_frozen(storing, model_.dtype, trained);
    layout_ = offload::lay_out(trained, layout_options(config));
    StepOptions options = step_options({config, target}, trained);
    options.optimizer.reset();
    if (gradients_) step_ = plan_step(trained, layout_, options, target);
    states_ = plan_forward(
        stored_as(layout_, models::decoder(model_, {.head = models::Head::hidden_states})), layout_,
        "states", options.transfers, target, offload::Carries::returned);
    if (std::string table = shortage(analyze(plans()), *backend_); !table.empty())
      throw PlanError(fmt::format("{} with {} does not fit on this machine:\n{}",
                                  path_text(request.model), path_text(request.inputs), table));
  }

  // Says what it read.
  std::string run(const ProbeRequest& request) {
    std::string said = load_weights({.folder = request.model, .adapter = request.adapter}, model_,
                                    layout_, arguments_, Copies::compute);
    offload::Arenas arenas(*backend_, plans());
    for (const Plan* plan : plans()) {
      offload::Executable executable(*plan, *backend_, arguments_, arenas);
      write_inputs();
      executable.run(ledger_);
      backend_->synchronize();
    }
    return said;
  }

  double loss() const {
    float sum;
    arguments_.read(offload::host_name(offload::kLoss), &sum, sizeof sum);
    return static_cast<double>(sum) / static_cast<double>(inputs_.batch.total_weights);
  }

  std::map<std::string, Result> results() const {
    std::map<std::string, Result> results;
    models::Shape carry{model_.batch, model_.length, model_.width};
    auto add_carry = [&](const std::string& name, int layer) {
      results["hidden." + name] = {
          carry, [=, this] { return output(offload::carry_name("decoder", layer), carry); }};
    };
    add_carry("embed", 0);
    for (int layer = 0; layer < model_.layers; ++layer)
      add_carry("layers." + std::to_string(layer), layer + 1);
    results["hidden.final_norm"] = {carry, [=, this] { return output("output.0", carry); }};
    if (model_.vision) add_vision(*model_.vision, results);
    results["logits"] = {logits_shape(), [this] { return output("output.1", logits_shape()); }};
    if (inputs_.has_labels) {
      results["loss"] = {{}, [this] { return std::vector{static_cast<float>(loss())}; }};
      results["token_loss"] = {{model_.batch, model_.length}, [this] {
                                 return token_losses(output("output.1", logits_shape()),
                                                     inputs_.batch[data::kTargets]);
                               }};
    }
    if (gradients_) add_gradients(results);
    return results;
  }

 private:
  // The loss is of the last one that runs: with gradients that of the training step.
  std::vector<const Plan*> plans() const {
    std::vector<const Plan*> plans{&states_};
    if (gradients_) plans.push_back(&step_.plans[0]);
    return plans;
  }

  void add_vision(const models::VisionConfig& vision,
                  std::map<std::string, Result>& results) const {
    const models::Shape tower{vision.images, vision.patches(), vision.width},
        rows{vision.images, vision.image_tokens, model_.width};
    auto add = [&](const std::string& name, const std::string& argument,
                   const models::Shape& shape) {
      results["hidden." + name] = {shape, [=, this] { return output(argument, shape); }};
    };
    add("vision.embed", offload::carry_name(models::kVisionStage, 0), tower);
    for (int layer = 0; layer < vision.layers; ++layer)
      add("vision.layers." + std::to_string(layer),
          offload::carry_name(models::kVisionStage, layer + 1), tower);
    add("projector", "output.2", rows);
    add("vision.post_layernorm", "output.3", tower);
  }

  void write_inputs() {
    write_batch(inputs_.batch, arguments_);
    float mean = 1 / static_cast<float>(inputs_.batch.total_weights);
    if (arguments_.has(offload::host_name(offload::kLossGradient)))
      arguments_.write(offload::host_name(offload::kLossGradient), &mean, sizeof mean);
  }

  models::Shape logits_shape() const { return {model_.batch, model_.length, model_.vocabulary}; }

  std::vector<float> output(const std::string& name, const models::Shape& shape) const {
    return read_floats(arguments_, offload::host_name(name), {shape, model_.dtype});
  }

  void add_gradients(std::map<std::string, Result>& results) const {
    for (const SavedIn in : {SavedIn::model, SavedIn::adapter}) {
      const SavedTensors saved(layout_, in);
      for (const SavedTensor& tensor : saved.all())
        if (trains(tensor.parts[0]))
          results[gradient_name(*tensor.parts[0].parameter, tensor.name)] = {
              tensor.shape, [=, this] { return gradient(tensor); }};
    }
  }

  bool trains(const SavedPart& part) const {
    const offload::Parameter& parameter = *part.parameter;
    return bucket_of(parameter).trainable == models::Trainable::yes &&
           std::ranges::any_of(parameter.trained_ranges(), [&](const offload::ElementRange& range) {
             return range.first <= part.first && part.first < range.end();
           });
  }

  const offload::Bucket& bucket_of(const offload::Parameter& parameter) const {
    return layout_.bucket(layout_.by_name.at(parameter.name));
  }

  std::vector<float> gradient(const SavedTensor& tensor) const {
    std::vector<float> values;
    tensor.for_each_piece(
        tensor.shape.count(),
        [&](const offload::Parameter& parameter, int64_t first, int64_t count) {
          const offload::Bucket& bucket = bucket_of(parameter);
          const models::Type type{{count}, dtype(bucket, Copy::gradient)};
          return read_floats(arguments_, argument_name(bucket, Copy::gradient), type,
                             (parameter.offset + first) * models::size_bytes(type.dtype));
        },
        [&](const std::vector<float>& piece) {
          values.insert(values.end(), piece.begin(), piece.end());
        });
    return values;
  }

  DecoderConfig model_;
  ProbeInputs inputs_;
  bool gradients_;
  std::unique_ptr<offload::Backend> backend_;
  offload::ParameterLayout layout_;
  StepPlans step_;
  Plan states_;
  offload::Ledger ledger_;
  offload::Arguments arguments_;
};

void check_output(const ProbeRequest& request) {
  std::vector<std::filesystem::path> read = model_files(request.model);
  read.push_back(request.inputs);
  if (!request.adapter.empty())
    for (const std::filesystem::path& file : adapter_files(request.adapter)) read.push_back(file);
  require_no_input(request.out, read);
}

}  // namespace

void probe(const ProbeRequest& request) {
  Config config = override_config(default_config(), request.overrides, overridable_keys());
  require_keys_read(config, request.gradients);
  if (config.remat_policy == offload::kAuto)
    throw ConfigError(location(config, "remat_policy") +
                      ": found auto, expected a policy by name: it is values that are compared");
  validate_remat(config);
  models::Target target = choose_backend(config).target;
  require_dtype(config, target);
  DecoderConfig model =
      read_folder_model(request.model, request.adapter, unknown_keys(config),
                        has_images(request.inputs) ? models::Images::read : models::Images::ignore);
  model.dtype = compute_dtype(config, target);
  require_layers_on_device(config, request.model, model.layers);
  ProbeInputs inputs = read_probe_inputs(request.inputs, model);
  if (request.gradients && !inputs.has_labels)
    throw DataError(path_text(request.inputs) +
                    ": labels: found nothing, expected a tensor [B,T], as --gradients asks");
  check_output(request);
  for (const std::string& line : unused_keys(config)) print(stdout, "warning: " + line + "\n");
  Probe probe(request, config, model, inputs, target);

  std::map<std::string, Result> results = probe.results();
  std::vector<data::SafetensorsInfo> infos;
  for (const auto& [name, result] : results)
    infos.push_back({.name = name, .shape = result.shape.sizes()});
  infos = data::sorted_as_safetensors(std::move(infos));
  data::SafetensorsWriter writer(request.out, infos);  // a bad path shows before anything runs
  print(stdout, probe.run(request) + "\n");
  for (const data::SafetensorsInfo& tensor : infos) {
    std::vector<float> values = results.at(tensor.name).values();
    writer.append(tensor.name, std::as_bytes(std::span(values)));
  }
  writer.finish();
  print(stdout,
        fmt::format("{}: {}{}\n", path_text(request.out), plural(std::ssize(infos), "tensor"),
                    inputs.has_labels
                        ? fmt::format(", loss {:.6f} over {}", without_sign_of_nan(probe.loss()),
                                      plural(inputs.batch.total_weights, "target"))
                        : ""));
}

std::string probe_footer() {
  std::string text =
      "INPUTS holds input_ids [B,T], int64 or int32, and optionally labels (-100: not trained),\n"
      "attention_mask (padding on the right), segment_ids and position_ids, and for models that\n"
      "read images pixel_values and token_type_ids, as transformers has them. The output, in "
      "float32: hidden.embed, hidden.layers.N, hidden.final_norm, logits;\n"
      "with labels token_loss and loss; with --gradients grad.NAME, the gradients of loss;\n"
      "with --adapter all but the adapter is frozen, and its gradients are grad_adapter.NAME, as\n"
      "its file has the names.\n"
      "\nKeys, with what a probe takes by default; remat and offload keys concern --gradients,\n"
      "parameter_memory_host_offload both passes; parameter_layers_on_device is a number here:\n";
  return text + config_help(default_config(), overridable_keys()) + "\n" + policies_help();
}

}  // namespace longshore::trainer
