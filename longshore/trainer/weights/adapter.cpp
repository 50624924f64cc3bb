#include "longshore/trainer/weights/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/base/file_inside.h"
#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"
#include "longshore/base/round_up.h"
#include "longshore/base/text.h"
#include "longshore/data/files/small_file.h"
#include "longshore/data/safetensors/safetensors_float.h"
#include "longshore/data/safetensors/safetensors_writer.h"
#include "longshore/trainer/config/model_keys.h"
#include "longshore/trainer/config/run_files.h"
#include "longshore/trainer/config/validate.h"
#include "longshore/trainer/weights/adapter_format.h"
#include "longshore/trainer/weights/added_tokens.h"
#include "longshore/trainer/weights/hf_folder.h"
#include "longshore/trainer/weights/read_floats.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using models::LoraConfig;
using offload::Parameter;

constexpr const char* kAdapterConfigFile = "adapter_config.json";
constexpr const char* kTensorFile = "adapter_model.safetensors";
constexpr uint64_t kMostConfigMib = 4;  // targets may be listed module by module

// load_adapter_path, or where that is gone what a run that goes on has in its own folder.
fs::path adapter_folder(const Config& config) {
  const fs::path saved = config.base_output_directory / config.run_name / kAdapterFolder;
  const bool is_saved = !config.run_name.empty() && fs::exists(saved);
  if (!is_saved || fs::exists(config.load_adapter_path)) return config.load_adapter_path;
  require_regular_files(folder_inside(saved.parent_path(), kAdapterFolder));
  return saved;
}

// Throws where the weights are there in the format of older releases of peft alone.
fs::path tensor_file(const fs::path& folder) {
  constexpr const char* kOlder = "adapter_model.bin";
  std::error_code error;
  if (!fs::exists(folder / kTensorFile, error) && fs::exists(folder / kOlder, error))
    throw DataError(
        path_text(folder) + ": found no " + kTensorFile + ", but \"" + kOlder +
        "\", as older releases of peft write it: weights are read from safetensors alone; in that "
        "folder python3 -c 'import torch, safetensors.torch as s; s.save_file({k: "
        "v.contiguous() for k, v in torch.load(\"" +
        kOlder + "\", weights_only=True, map_location=\"cpu\").items()}, \"" + kTensorFile +
        "\")' makes one of it");
  return folder / kTensorFile;
}

bool has_same_elements(std::vector<std::string> a, std::vector<std::string> b) {
  std::ranges::sort(a);
  std::ranges::sort(b);
  return a == b;
}

// "3, 5", or "[]" of none.
std::string listed(const std::vector<std::string>& list) {
  return list.empty() ? "[]" : excerpt(join(list));
}

}  // namespace

std::vector<fs::path> adapter_files(const fs::path& folder) {
  return {folder / kAdapterConfigFile, folder / kTensorFile};
}

AdapterBase adapter_base(const models::DecoderConfig& model) {
  return {.family = model.family,
          .layers = static_cast<int>(model.layers),
          .experts = model.experts,
          .tower_layers = model.vision ? static_cast<int>(model.vision->layers) : 0,
          .has_dense_layers = models::layers_with_experts(model) < model.layers,
          .has_tied_embeddings = model.tied_embeddings,
          .vocabulary = model.vocabulary};
}

LoraConfig read_adapter_config(const fs::path& folder, const AdapterBase& base) {
  const fs::path file = folder / kAdapterConfigFile;
  if (std::error_code error; fs::is_directory(folder, error) && !fs::exists(file, error)) {
    const bool is_run = fs::exists(folder / kAdapterFolder / kAdapterConfigFile, error);
    throw ConfigError(path_text(folder) + ": found no " + kAdapterConfigFile +
                      ", expected a folder of an adapter" +
                      nearest_help(is_run ? path_text(folder / kAdapterFolder) : ""));
  }
  const std::string text = data::read_small_file(file, kMostConfigMib);
  try {
    return parse_adapter_config(text, base);
  } catch (const DataError& error) {
    throw DataError(path_text(file) + ": " + error.what());
  }
}

namespace {

AdapterBase adapter_base(const Config& config) {
  return {.family = config.model.family,
          .layers = static_cast<int>(config.model.layers),
          .experts = config.model.experts,
          .tower_layers = config.use_multimodal ? static_cast<int>(config.vision.layers) : 0,
          .has_dense_layers = has_dense_layers(config),
          .has_tied_embeddings = config.model.tied_embeddings,
          .vocabulary = config.model.vocabulary};
}

// The sizes of adapters that rank_pattern and alpha_pattern say.
Config with_patterns(Config config) {
  if (config.lora_rank == 0 || (config.rank_pattern.empty() && config.alpha_pattern.empty()))
    return config;
  AdapterTargets targets{.rank_pattern = rank_pattern(config),
                         .alpha_pattern = alpha_pattern(config),
                         .patterns_must_match = true};
  for (const std::string& target : lora_targets(config))
    (models::is_expert_target(target) ? targets.target_parameters : targets.target_modules.list)
        .push_back(target);
  LoraConfig lora{.rank = config.lora_rank, .alpha = config.lora_alpha};
  try {
    set_targets(targets, adapter_base(config), lora);
  } catch (const DataError& error) {  // which begins with the key
    const std::string what = error.what();
    throw ConfigError(origin(config, what.substr(0, what.find(':'))) + " " + what);
  }
  config.lora_rank = lora.rank;
  config.lora_alpha = lora.alpha;
  config.lora_modules = lora.modules;
  return config;
}

// Throws where peft could not load the adapter that is made.
void require_known_to_peft(const Config& config) {
  if (config.lora_rank == 0) return;
  std::vector<std::string> targets = lora_targets(config);
  std::erase_if(targets, [&](const std::string& target) {
    return !is_named_as_experts(target, config.model.family->layer.experts);
  });
  if (targets.empty()) return;
  auto refuse = [&](const std::string& key, const std::string& found, const char* expected) {
    throw ConfigError(location(config, key) + ": found " + found + ", expected " + expected +
                      " with adapters on " + join(targets) +
                      ", which peft takes for experts'; nearest: lora_targets without them");
  };
  if (config.lora_dropout > 0) refuse("lora_dropout", fmt::format("{}", config.lora_dropout), "0");
  if (config.use_dora) refuse("use_dora", "true", "false");
}

Config with_loaded_adapter(Config config) {
  const fs::path folder = adapter_folder(config);
  const LoraConfig adapter = read_adapter_config(folder, adapter_base(config));
  std::vector<std::string> differing;
  auto take = [&](const char* key, auto& here, const auto& there, const std::string& here_text,
                  const std::string& there_text) {
    if (!config.origins.contains(key)) {
      here = there;
      config.origins[key] = path_text(folder / kAdapterConfigFile);
    } else if (here != there) {
      differing.push_back(fmt::format("{}: {} ({}), {} in the adapter", key, here_text,
                                      config.origins.at(key), there_text));
    }
  };
  const bool has_patterns = !config.rank_pattern.empty() || !config.alpha_pattern.empty();
  if (has_patterns) {
    // Of what the adapter has where the keys say nothing.
    if (!config.origins.contains("lora_rank")) config.lora_rank = adapter.rank;
    if (!config.origins.contains("lora_alpha")) config.lora_alpha = adapter.alpha;
    if (!config.origins.contains("lora_targets")) config.lora_targets = adapter.targets;
    config = with_patterns(std::move(config));
  }
  take("lora_rank", config.lora_rank, adapter.rank, std::to_string(config.lora_rank),
       std::to_string(adapter.rank));
  take("lora_alpha", config.lora_alpha, adapter.alpha, fmt::format("{}", config.lora_alpha),
       fmt::format("{}", adapter.alpha));
  config.lora_targets = ordered_targets(lora_targets(config));
  std::ranges::sort(config.modules_to_save);
  take("lora_targets", config.lora_targets, adapter.targets, listed(config.lora_targets),
       listed(adapter.targets));
  take("use_rslora", config.use_rslora, adapter.rank_stabilized,
       config.use_rslora ? "true" : "false", adapter.rank_stabilized ? "true" : "false");
  take("use_dora", config.use_dora, adapter.has_magnitudes, config.use_dora ? "true" : "false",
       adapter.has_magnitudes ? "true" : "false");
  take("modules_to_save", config.modules_to_save, adapter.saved_modules,
       listed(config.modules_to_save), listed(adapter.saved_modules));
  std::vector<std::string> tokens;
  for (const int64_t token : adapter.trained_tokens) tokens.push_back(std::to_string(token));
  // The order is that of the adapter's rows.
  std::vector<std::string> tokens_here;
  for (const int64_t token : trained_tokens(config)) tokens_here.push_back(std::to_string(token));
  if (has_same_elements(tokens_here, tokens)) config.trainable_token_indices = tokens;
  take("trainable_token_indices", config.trainable_token_indices, tokens,
       listed(config.trainable_token_indices), listed(tokens));
  // That belongs to training: an adapter may go on with another.
  if (!config.origins.contains("lora_dropout"))
    take("lora_dropout", config.lora_dropout, adapter.dropout, "", "");
  take("lora_per_expert", config.lora_per_expert, adapter.per_expert,
       config.lora_per_expert ? "true" : "false", adapter.per_expert ? "true" : "false");
  std::ranges::move(tokens_numbered_otherwise(config, folder), std::back_inserter(differing));
  if (has_patterns && config.lora_modules != adapter.modules)
    differing.push_back(
        "rank_pattern, alpha_pattern: other ranks and alphas of modules in the adapter");
  config.lora_modules = adapter.modules;
  if (!differing.empty())
    throw ConfigError(location(config, "load_adapter_path") + ": " + path_text(folder) +
                      " holds another adapter: " + join(differing, "; "));
  validate_but_remat(config);
  return config;
}

}  // namespace

Config with_adapter(Config config) {
  config = config.load_adapter_path.empty() ? with_patterns(std::move(config))
                                            : with_loaded_adapter(std::move(config));
  require_known_to_peft(config);
  return config;
}

namespace {

// peft has the head that is the embedding a second time. Of the embedding's name the head's, of
// another "".
std::string tied_head(const offload::ParameterLayout& layout, const std::string& name) {
  const std::string ending = std::string("model.") + models::kEmbeddingModule + ".weight";
  if (!name.ends_with(ending)) return "";
  const std::string head =
      name.substr(0, name.size() - ending.size()) + models::kHeadModule + ".weight";
  return layout.by_name.contains(head) ? "" : peft_names(head)[0];
}

}  // namespace

Adapter::Adapter(const fs::path& folder, const offload::ParameterLayout& layout)
    : file_(tensor_file(folder)), tensors_(layout, SavedIn::adapter) {
  std::map<std::string, std::vector<int64_t>> expected;
  for (const SavedTensor& tensor : tensors_.all())
    expected[name_in_file(tensor.name)] = tensor.shape.sizes();
  for (const SavedTensor& tensor : tensors_.all())
    if (const std::string head = tied_head(layout, tensor.name); file_.contains(head))
      expected[head] = tensor.shape.sizes();
  // peft keeps what an adapter on the head is for, too.
  const std::string head = std::string(models::kHeadModule) + ".weight",
                    kept = peft_names(std::string(models::kHeadModule) + ".base_layer.weight")[0];
  if (const auto found = layout.by_name.find(head); found != layout.by_name.end() &&
                                                    file_.contains(kept) &&
                                                    layout.parameter(found->second).weight.adapter)
    expected[kept] = layout.parameter(found->second).tensor_shape().sizes();
  try {
    check_adapter_tensors(file_.tensors(), expected);
    for (const SavedTensor& tensor : tensors_.all())
      require_same(name_in_file(tensor.name), tied_head(layout, tensor.name));
  } catch (const DataError& error) {
    throw DataError(path_text(file_.path()) + ": is not this model's:\n  " + error.what());
  }
}

// peft trains a head that is the embedding by itself, unless it is told not to.
void Adapter::require_same(const std::string& embedding, const std::string& head) const {
  if (!file_.contains(head) || std::ranges::equal(file_.at(head).data, file_.at(embedding).data))
    return;
  throw DataError(in_quotes(head) + ": found other values than in " + in_quotes(embedding) +
                  ", expected the same: embedding and head are one in this model");
}

// The first of its spellings where the file has none.
std::string Adapter::name_in_file(const std::string& tensor) const {
  const std::vector<std::string> names = peft_names(tensor);
  const auto found =
      std::ranges::find_if(names, [&](const std::string& name) { return file_.contains(name); });
  return found == names.end() ? names[0] : *found;
}

void Adapter::read(const Parameter& parameter, int64_t first, std::span<float> values) const {
  tensors_.for_each_run(parameter, first, values,
                        [&](const SavedRun& run, std::span<float> of_run) { read(run, of_run); });
}

void Adapter::read(const SavedRun& run, std::span<float> values) const {
  const std::string name = name_in_file(run.tensor.name);
  data::NonFinite odd = data::to_float32(file_.at(name), run.first, values, run.step);
  if (odd != data::NonFinite{})
    throw DataError(fmt::format("{}: {}: {} NaN and {} infinite, expected finite values",
                                path_text(file_.path()), name, odd.nan_count, odd.infinity_count));
}

void write_adapter(const fs::path& folder, const models::DecoderConfig& model,
                   const std::string& base_model, const offload::ParameterLayout& layout,
                   const offload::ArgumentReader& arguments) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw FileError(path_text(folder) + ": cannot be made: " + error.message());
  for (const char* file : {kAdapterConfigFile, kTensorFile})
    if (fs::exists(folder / file, error))
      throw DataError(path_text(folder) + ": holds an adapter already");

  const SavedTensors saved(layout, SavedIn::adapter);
  std::map<std::string, const SavedTensor*> by_name;
  std::vector<data::SafetensorsInfo> tensors;
  for (const SavedTensor& tensor : saved.all()) {
    auto add = [&](const std::string& name) {
      by_name[name] = &tensor;
      tensors.push_back(
          {.name = name, .dtype = data::SafetensorsDtype::float32, .shape = tensor.shape.sizes()});
    };
    add(peft_names(tensor.name)[0]);
    if (const std::string head = tied_head(layout, tensor.name); !head.empty()) add(head);
  }
  tensors = data::sorted_as_safetensors(std::move(tensors));
  data::SafetensorsWriter writer(folder / kTensorFile, tensors);
  for (const data::SafetensorsInfo& tensor : tensors) {
    by_name.at(tensor.name)
        ->for_each_piece(
            kWeightPieceElements,
            [&](const Parameter& parameter, int64_t first, int64_t count) {
              return read_weights(layout, parameter, arguments, {first, count});
            },
            [&](std::span<const float> values) {
              data::require_finite({tensor, std::as_bytes(values)});
              writer.append(tensor.name, std::as_bytes(values));
            });
  }
  writer.finish();
  write_file(folder / kAdapterConfigFile,
             write_adapter_config(model.lora, adapter_base(model), base_model));
}

std::vector<float> merged(std::span<const float> weight, const LoraPair& adapter, int64_t first) {
  const auto& [a, b, rank, scale, matrices, transposed, row_factors] = adapter;
  const int64_t of_a = std::ssize(a) / (matrices * rank), of_b = std::ssize(b) / (matrices * rank);
  const int64_t rows = transposed ? of_a : of_b, columns = transposed ? of_b : of_a;
  const int64_t end = first + std::ssize(weight);
  if (std::ssize(a) != matrices * rank * of_a || std::ssize(b) != matrices * rank * of_b ||
      end > matrices * rows * columns)
    throw InternalError(fmt::format("an adapter of rank {} with {} and {} elements does not fit {}",
                                    rank, a.size(), b.size(), weight.size()));
  std::vector<float> result(weight.size());
#pragma omp parallel for
  for (int64_t row = first / columns; row < ceil_div(end, columns); ++row) {
    const int64_t matrix = row / rows, within = row % rows, start = row * columns;
    const float* const own_a = a.data() + matrix * rank * of_a;
    const float* const own_b = b.data() + matrix * rank * of_b;
    const int64_t from = std::max(first, start) - start, to = std::min(end - start, columns);
    float* const sums = result.data() + (start - first);
    for (int64_t r = 0; r < rank; ++r)
      if (transposed)
        for (int64_t i = from; i < to; ++i)
          sums[i] += own_a[r * of_a + within] * own_b[i * rank + r];
      else
        for (int64_t i = from; i < to; ++i)
          sums[i] += own_b[within * rank + r] * own_a[r * of_a + i];
    const float* const before = weight.data() + (start - first);
    const float factor = row_factors.empty() ? 1 : row_factors[static_cast<size_t>(row)];
    for (int64_t i = from; i < to; ++i)
      sums[i] = factor * (before[i] + static_cast<float>(scale) * sums[i]);
  }
  return result;
}

}  // namespace longshore::trainer
