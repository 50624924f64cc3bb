#include "trainer/weights/adapter_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/problem_list.h"
#include "base/text.h"
#include "data/strict_json.h"
#include "models/hf/json_reader.h"
#include "models/limits.h"

namespace longshore::trainer {
namespace {

using models::LoraConfig;
using nlohmann::json;

constexpr std::string_view kPrefix = "base_model.model.";
constexpr size_t kMaxAdapterConfigBytes = size_t{1} << 20;

// --- adapter_config.json

// Keys that change nothing: where the adapter comes from, and those that only matter where another
// key is set.
const std::set<std::string> kHarmless{
    "auto_mapping", "base_model_name_or_path", "inference_mode", "megatron_core", "parent_library",
    "peft_version", "qalora_group_size",       "revision",       "runtime_config"};

const std::set<std::string> kRead{"peft_type", "task_type",  "bias",         "init_lora_weights",
                                  "r",         "lora_alpha", "lora_dropout", "target_modules"};

bool is_off(const json& value) {
  return value.is_null() || value == false || value == json(0) || value == json(0.0) ||
         value == "" || ((value.is_array() || value.is_object()) && value.empty());
}

class ConfigReader {
 public:
  explicit ConfigReader(const json& object) : object_(object) {}

  LoraConfig read() {
    expect_one_of("peft_type", {"LORA"});
    expect_one_of("task_type", {"CAUSAL_LM", nullptr});
    expect_one_of("bias", {"none", nullptr});
    // The others change the base model's weights when peft loads the adapter.
    expect_one_of("init_lora_weights", {true, false, "gaussian", nullptr});
    LoraConfig config;
    read_rank(config);
    read_alpha(config);
    read_targets(config);
    dropout();
    for (const auto& [key, value] : object_.items())
      if (!kRead.contains(key) && !kHarmless.contains(key) && !is_off(value))
        problems_.add(data::json_quoted(key) + ": found " + models::shown(value) +
                      ", which is not supported");
    if (!problems_.empty()) throw DataError(problems_.text());
    return config;
  }

  // Of training alone.
  double dropout() {
    const json& value = at("lora_dropout");
    if (value.is_null()) return 0;
    const double dropout = value.is_number() ? value.get<double>() : -1;
    if (!(dropout >= 0 && dropout <= 1)) add_problem("lora_dropout", value, "a number from 0 to 1");
    return dropout;
  }

 private:
  const json& at(const std::string& key) const {
    static const json kNothing;
    auto found = object_.find(key);
    return found == object_.end() ? kNothing : *found;
  }

  void add_problem(const std::string& key, const json& value, const std::string& expected) {
    problems_.add(key + ": found " + models::shown(value) + ", expected " + expected);
  }

  void expect_one_of(const std::string& key, const json& choices) {
    const json& value = at(key);
    if (std::find(choices.begin(), choices.end(), value) == choices.end())
      add_problem(key, value, "one of " + choices.dump());
  }

  void read_rank(LoraConfig& config) {
    const json& rank = at("r");
    if (rank.is_number_integer() && rank >= 1 && rank <= models::kMaxLoraRank)
      config.rank = rank.get<int64_t>();
    else
      add_problem("r", rank, "an integer from 1 to " + std::to_string(models::kMaxLoraRank));
  }

  void read_alpha(LoraConfig& config) {
    const json& alpha = at("lora_alpha");
    const double number = alpha.is_number() ? alpha.get<double>() : 0;
    const double scale = number / static_cast<double>(std::max(int64_t{1}, config.rank));
    if (scale >= std::numeric_limits<float>::min() && scale <= std::numeric_limits<float>::max())
      config.alpha = number;
    else
      add_problem("lora_alpha", alpha,
                  "a number above 0 that is, divided by r, within what float32 can hold");
  }

  void read_targets(LoraConfig& config) {
    const json& value = at("target_modules");
    const std::vector<std::string> known(models::kLoraTargets.begin(), models::kLoraTargets.end());
    const std::string expected = "a list out of " + join(known);
    if (!value.is_array() || value.empty()) return add_problem("target_modules", value, expected);
    for (const json& item : value)
      if (std::find(known.begin(), known.end(), item) == known.end())
        add_problem("target_modules", item, expected);
      else
        config.targets.push_back(item.get<std::string>());
    config.targets = ordered_targets(config.targets);
  }

  const json& object_;
  ProblemList problems_;
};

}  // namespace

LoraConfig parse_adapter_config(std::string_view text) {
  if (text.size() > kMaxAdapterConfigBytes)
    throw DataError(fmt::format("found {} bytes, expected at most 1 MiB", text.size()));
  const json object = models::parse_object(text);
  return ConfigReader(object).read();
}

double adapter_dropout(std::string_view text) {
  const json object = models::parse_object(text);
  return ConfigReader(object).dropout();
}

std::string write_adapter_config(const LoraConfig& config, const std::string& base_model) {
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
  object["target_modules"] = ordered_targets(config.targets);
  object["task_type"] = "CAUSAL_LM";
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::vector<std::string> ordered_targets(std::span<const std::string> targets) {
  std::vector<std::string> ordered;
  for (std::string_view target : models::kLoraTargets)
    if (std::ranges::find(targets, target) != targets.end()) ordered.emplace_back(target);
  return ordered;
}

std::string peft_name(std::string_view weight) { return std::string(kPrefix).append(weight); }

void check_adapter_tensors(std::span<const data::SafetensorsTensor> tensors,
                           const std::map<std::string, std::vector<int64_t>>& expected) {
  ProblemList problems;
  std::set<std::string_view> found;
  for (const data::SafetensorsTensor& tensor : tensors) {
    found.insert(tensor.name);
    auto shape = expected.find(tensor.name);
    if (shape == expected.end())
      problems.add("not expected: " + tensor.name);
    else if (tensor.shape != shape->second)
      problems.add(fmt::format("{} is [{}], expected [{}]", tensor.name,
                               fmt::join(tensor.shape, ","), fmt::join(shape->second, ",")));
    else if (!data::is_floating_point(tensor.dtype))
      problems.add(fmt::format("{} is {}, expected F32, BF16, F16 or F64", tensor.name,
                               data::name(tensor.dtype)));
  }
  for (const auto& [name, shape] : expected)
    if (!found.contains(name)) problems.add("missing " + name);
  if (!problems.empty()) throw DataError(problems.text());
}

}  // namespace longshore::trainer
