#include "trainer/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/bfloat16.h"
#include "base/error.h"
#include "base/nearest.h"
#include "data/atomic_file.h"
#include "data/file_mapping.h"
#include "data/safetensors_float.h"
#include "data/safetensors_writer.h"
#include "data/strict_json.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using models::LoraConfig;
using nlohmann::json;
using offload::Copy;
using offload::Parameter;

constexpr const char* kConfigFile = "adapter_config.json";
constexpr const char* kTensorFile = "adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.";
constexpr size_t kMostConfigBytes = size_t{1} << 20;
constexpr int64_t kMostRank = 1 << 14;

std::string file_name(const Parameter& parameter) {
  return std::string(kPrefix).append(parameter.name);
}

// --- adapter_config.json

// Keys that change nothing: where the adapter comes from, and what only matters where a key beside
// them is set.
const std::set<std::string> kHarmless{
    "auto_mapping", "base_model_name_or_path", "inference_mode", "megatron_core", "parent_library",
    "peft_version", "qalora_group_size",       "revision",       "runtime_config"};

std::string shown(const json& value) {
  // Printing what is nested recurses.
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  constexpr size_t kMostBytes = 80;
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() > kMostBytes ? text.substr(0, kMostBytes) + "..." : text;
}

[[noreturn]] void refuse(const std::string& key, const json& value, const std::string& expected) {
  throw DataError(key + ": found " + shown(value) + ", expected " + expected);
}

const json& at(const json& object, const std::string& key) {
  static const json kNothing;
  auto found = object.find(key);
  return found == object.end() ? kNothing : *found;
}

bool is_off(const json& value) {
  return value.is_null() || value == false || value == json(0) || value == json(0.0) ||
         value == "" || ((value.is_array() || value.is_object()) && value.empty());
}

void expect_one_of(const json& object, const std::string& key, const json& choices) {
  const json& value = at(object, key);
  if (std::find(choices.begin(), choices.end(), value) == choices.end())
    refuse(key, value, "one of " + choices.dump());
}

std::vector<std::string> read_targets(const json& value) {
  constexpr const char* kKey = "target_modules";
  std::vector<std::string> targets;
  std::vector<std::string> known(models::kLoraTargets.begin(), models::kLoraTargets.end());
  std::string expected = "a list out of " + join(known);
  if (!value.is_array() || value.empty()) refuse(kKey, value, expected);
  for (const json& item : value)
    if (std::find(known.begin(), known.end(), item) == known.end()) refuse(kKey, item, expected);
  for (const std::string& target : known)
    if (std::find(value.begin(), value.end(), target) != value.end()) targets.push_back(target);
  return targets;
}

// As the config key has it; of targets only the set counts.
std::vector<std::string> in_order(const std::vector<std::string>& targets) {
  std::vector<std::string> ordered;
  for (std::string_view target : models::kLoraTargets)
    if (std::ranges::find(targets, target) != targets.end()) ordered.emplace_back(target);
  return ordered;
}

std::string config_text(const LoraConfig& config, const std::string& base_model) {
  nlohmann::ordered_json object;
  object["base_model_name_or_path"] = base_model.empty() ? json() : json(base_model);
  object["bias"] = "none";
  object["fan_in_fan_out"] = false;
  object["inference_mode"] = true;
  object["init_lora_weights"] = true;
  bool is_integer = config.alpha == std::floor(config.alpha) && config.alpha < 1e15;
  object["lora_alpha"] = is_integer ? json(static_cast<int64_t>(config.alpha)) : json(config.alpha);
  object["lora_dropout"] = 0.0;
  object["modules_to_save"] = nullptr;
  object["peft_type"] = "LORA";
  object["r"] = config.rank;
  object["target_modules"] = in_order(config.targets);
  object["task_type"] = "CAUSAL_LM";
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

// --- adapter_model.safetensors

std::vector<const Parameter*> adapter_weights(const offload::ParameterLayout& layout) {
  std::vector<const Parameter*> weights;
  for (const auto& [name, location] : layout.by_name)
    if (models::is_lora_weight(name)) weights.push_back(&layout.parameter(location));
  return weights;
}

std::vector<int64_t> sizes(const models::Shape& shape) {
  std::vector<int64_t> sizes;
  for (int i = 0; i < shape.rank(); ++i) sizes.push_back(shape[i]);
  return sizes;
}

std::vector<std::string> problems_of(const data::SafetensorsFile& file,
                                     const std::vector<const Parameter*>& weights) {
  std::vector<std::string> problems;
  std::map<std::string, const Parameter*> expected;
  for (const Parameter* weight : weights) expected[file_name(*weight)] = weight;
  for (const auto& [name, weight] : expected) {
    if (!file.contains(name))
      problems.push_back("missing " + name);
    else if (const auto& found = file.at(name).shape; found != sizes(weight->type.shape))
      problems.push_back(fmt::format("{} is [{}], expected [{}]", name, fmt::join(found, ","),
                                     fmt::join(sizes(weight->type.shape), ",")));
  }
  for (const data::SafetensorsTensor& tensor : file.tensors())
    if (!expected.contains(tensor.name)) problems.push_back("not expected: " + tensor.name);
  return problems;
}

void read_values(const offload::ParameterLayout& layout, const Parameter& parameter,
                 const offload::Arguments& arguments, std::span<float> values) {
  const offload::Slab& slab = layout.slab(layout.by_name.at(parameter.name));
  Copy copy = slab.has(Copy::master) ? Copy::master : Copy::compute;
  std::string name = argument_name(slab, copy);
  int64_t bytes = models::size_bytes(dtype(slab, copy));
  if (dtype(slab, copy) == models::Dtype::float32) {
    arguments.read_part(name, parameter.offset * bytes, values.data(), std::ssize(values) * bytes);
    return;
  }
  std::vector<bfloat16> narrow(values.size());
  arguments.read_part(name, parameter.offset * bytes, narrow.data(), std::ssize(narrow) * bytes);
  std::ranges::transform(narrow, values.begin(), to_float);
}

}  // namespace

LoraConfig parse_adapter_config(std::string_view text) {
  if (text.size() > kMostConfigBytes) throw DataError("longer than 1 MiB");
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) throw DataError("expected a JSON object");
  expect_one_of(object, "peft_type", {"LORA"});
  expect_one_of(object, "task_type", {"CAUSAL_LM", nullptr});
  expect_one_of(object, "bias", {"none", nullptr});
  // The others change the base model's weights when peft loads the adapter.
  expect_one_of(object, "init_lora_weights", {true, false, "gaussian", nullptr});

  LoraConfig config;
  const json &rank = at(object, "r"), &alpha = at(object, "lora_alpha");
  if (!rank.is_number_integer() || rank < 1 || rank > kMostRank)
    refuse("r", rank, "an integer from 1 to " + std::to_string(kMostRank));
  if (!alpha.is_number() || !std::isfinite(alpha.get<double>()) || alpha <= 0)
    refuse("lora_alpha", alpha, "a number above 0");
  config.rank = rank.get<int64_t>();
  config.alpha = alpha.get<double>();
  config.targets = read_targets(at(object, "target_modules"));

  static const std::set<std::string> kRead{
      "peft_type", "task_type", "bias", "init_lora_weights", "r", "lora_alpha", "target_modules"};
  for (const auto& [key, value] : object.items())
    if (!kRead.contains(key) && !kHarmless.contains(key) && !is_off(value))
      throw DataError(data::json_quoted(key) + ": found " + shown(value) +
                      ", which is not supported");
  return config;
}

Config with_adapter(Config config) {
  if (config.load_adapter_path.empty()) return config;
  fs::path file = config.load_adapter_path / kConfigFile;
  LoraConfig adapter;
  data::FileMapping mapping(file, data::Access::from_front_to_back);
  try {
    adapter = parse_adapter_config(mapping.text());
  } catch (const DataError& error) {
    throw DataError(file.string() + ": " + error.what());
  }
  std::vector<std::string> differing;
  auto take = [&](const char* key, auto& here, const auto& there, const std::string& here_text,
                  const std::string& there_text) {
    if (!config.origins.contains(key)) {
      here = there;
      config.origins[key] = file.string();
    } else if (here != there) {
      differing.push_back(fmt::format("{}: {} ({}), {} in the adapter", key, here_text,
                                      config.origins.at(key), there_text));
    }
  };
  take("lora_rank", config.lora_rank, adapter.rank, std::to_string(config.lora_rank),
       std::to_string(adapter.rank));
  take("lora_alpha", config.lora_alpha, adapter.alpha, fmt::format("{}", config.lora_alpha),
       fmt::format("{}", adapter.alpha));
  config.lora_targets = in_order(config.lora_targets);
  take("lora_targets", config.lora_targets, adapter.targets, join(config.lora_targets),
       join(adapter.targets));
  if (!differing.empty())
    throw ConfigError(location(config, "load_adapter_path") + ": " +
                      config.load_adapter_path.string() +
                      " holds another adapter: " + join(differing, "; "));
  validate(config);
  return config;
}

Adapter::Adapter(const fs::path& folder, const offload::ParameterLayout& layout)
    : file_(folder / kTensorFile) {
  std::vector<std::string> problems = problems_of(file_, adapter_weights(layout));
  if (problems.empty()) return;
  constexpr size_t kMost = 50;
  size_t more = problems.size() - std::min(kMost, problems.size());
  problems.resize(problems.size() - more);
  if (more > 0) problems.push_back(fmt::format("and {} more", more));
  throw DataError(file_.path().string() + ": is not this model's:\n  " + join(problems, "\n  "));
}

void Adapter::read(const Parameter& parameter, std::span<float> values) const {
  data::NonFinite odd = data::to_float32(file_.at(file_name(parameter)), values);
  if (odd != data::NonFinite{})
    throw DataError(fmt::format("{}: {}: {} NaN and {} infinite, expected finite values",
                                file_.path().string(), file_name(parameter), odd.nan_count,
                                odd.infinity_count));
}

void write_adapter(const fs::path& folder, const LoraConfig& config, const std::string& base_model,
                   const offload::ParameterLayout& layout, const offload::Arguments& arguments) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw DataError(folder.string() + ": cannot be made: " + error.message());
  for (const char* file : {kConfigFile, kTensorFile})
    if (fs::exists(folder / file, error))
      throw DataError(folder.string() + ": holds an adapter already");

  std::map<std::string, const Parameter*> by_name;
  std::vector<data::SafetensorsInfo> tensors;
  for (const Parameter* weight : adapter_weights(layout)) {
    by_name[file_name(*weight)] = weight;
    tensors.push_back({.name = file_name(*weight),
                       .dtype = data::SafetensorsDtype::float32,
                       .shape = sizes(weight->type.shape)});
  }
  tensors = data::sorted_as_safetensors(std::move(tensors));
  data::SafetensorsWriter writer(folder / kTensorFile, tensors);
  for (const data::SafetensorsInfo& tensor : tensors) {
    std::vector<float> values(static_cast<size_t>(tensor.element_count()));
    read_values(layout, *by_name.at(tensor.name), arguments, values);
    writer.append(tensor.name, std::as_bytes(std::span(values)));
  }
  writer.finish();
  data::AtomicFile file(folder / kConfigFile);
  file.append(config_text(config, base_model));
  file.finish();
}

std::vector<float> merged(std::span<const float> weight, const LoraPair& adapter) {
  int64_t rank = adapter.rank, in = std::ssize(adapter.a) / rank,
          out = std::ssize(adapter.b) / rank;
  if (std::ssize(adapter.a) != rank * in || std::ssize(adapter.b) != out * rank ||
      std::ssize(weight) != out * in)
    throw InternalError(fmt::format("an adapter of rank {} with {} and {} elements does not fit {}",
                                    rank, adapter.a.size(), adapter.b.size(), weight.size()));
  std::vector<float> result(weight.size());
  float scale = static_cast<float>(adapter.scale);
#pragma omp parallel for
  for (int64_t row = 0; row < out; ++row) {
    float* to = result.data() + row * in;
    for (int64_t r = 0; r < rank; ++r) {
      float b = adapter.b[row * rank + r];
      const float* a = adapter.a.data() + r * in;
      for (int64_t i = 0; i < in; ++i) to[i] += b * a[i];
    }
    const float* from = weight.data() + row * in;
    for (int64_t i = 0; i < in; ++i) to[i] = from[i] + scale * to[i];
  }
  return result;
}

}  // namespace longshore::trainer
