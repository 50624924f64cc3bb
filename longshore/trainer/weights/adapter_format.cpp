#include "longshore/trainer/weights/adapter_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>

#include "longshore/base/error.h"
#include "longshore/base/numbered.h"
#include "longshore/base/printable.h"
#include "longshore/base/problem_list.h"
#include "longshore/base/text.h"
#include "longshore/models/families/limits.h"
#include "longshore/models/hf/json_reader.h"
#include "longshore/trainer/weights/adapter_targets.h"

namespace longshore::trainer {
namespace {

using models::LoraConfig;
using json = nlohmann::ordered_json;  // of patterns, the first that matches counts

constexpr std::string_view kPrefix = "base_model.model.";
constexpr size_t kMaxAdapterConfigBytes = size_t{4} << 20;  // modules and tokens are listed

// --- adapter_config.json

// Keys that change nothing: where the adapter comes from, and those that only matter where another
// key is set.
const std::set<std::string> kHarmless{
    "auto_mapping", "base_model_name_or_path", "inference_mode", "megatron_core", "parent_library",
    "peft_version", "qalora_group_size",       "revision",       "runtime_config"};

const std::set<std::string> kRead{"peft_type",
                                  "task_type",
                                  "bias",
                                  "init_lora_weights",
                                  "r",
                                  "lora_alpha",
                                  "lora_dropout",
                                  "target_modules",
                                  "target_parameters",
                                  "use_rslora",
                                  "exclude_modules",
                                  "layers_to_transform",
                                  "layers_pattern",
                                  "rank_pattern",
                                  "alpha_pattern",
                                  "use_dora",
                                  "modules_to_save",
                                  "trainable_token_indices",
                                  "ensure_weight_tying"};

bool is_off(const json& value) {
  return value.is_null() || value == false || value == json(0) || value == json(0.0) ||
         value == "" || ((value.is_array() || value.is_object()) && value.empty());
}

const std::string kRank = "an integer from 1 to " + std::to_string(models::kMaxLoraRank);
constexpr const char* kAlpha = "a number above 0";
constexpr const char* kNames = "names of modules, or a regular expression for them";

bool is_rank(const json& value) {
  return value.is_number_integer() && value >= 1 && value <= models::kMaxLoraRank;
}

bool is_alpha(const json& value) {
  return std::isfinite(as_float64(value)) && as_float64(value) > 0;
}

json number(double value) {
  const bool is_integer = value == std::floor(value) && value < 1e15;
  return is_integer ? json(static_cast<int64_t>(value)) : json(value);
}

// The regular expression of that name and no other.
std::string escaped(const std::string& name) {
  std::string text;
  for (const char c : name) text += c == '.' ? "\\." : std::string(1, c);
  return text;
}

// Whether peft finds the embedding by that name: the whole one, or its end after a dot.
bool is_embedding(const std::string& name, const AdapterBase& base) {
  return std::ranges::any_of(
      peft_modules(std::string("model.") + models::kEmbeddingModule, base.reads_images()),
      [&](const std::string& whole) { return whole == name || whole.ends_with("." + name); });
}

class ConfigReader {
 public:
  explicit ConfigReader(const json& object) : object_(object) {}

  LoraConfig read(const AdapterBase& base) {
    expect_one_of("peft_type", {"LORA"});
    expect_one_of("task_type", {"CAUSAL_LM", nullptr});
    expect_one_of("bias", {"none", nullptr});
    // The others change the base model's weights when peft loads the adapter.
    expect_one_of("init_lora_weights", {true, false, "gaussian", nullptr});
    LoraConfig config;
    read_rank(config);
    read_alpha(config);
    config.rank_stabilized = read_flag("use_rslora");
    config.has_magnitudes = read_flag("use_dora");
    const AdapterTargets targets = read_targets();
    read_dropout(config);
    read_saved_modules(base, config);
    read_trained_tokens(base, config);
    for (const auto& [key, value] : object_.items())
      if (!kRead.contains(key) && !kHarmless.contains(key) && !is_off(value))
        problems_.add(in_quotes(key) + ": found " + shown(value) + ", which is not supported");
    if (!problems_.empty()) throw DataError(problems_.text());
    set_targets(targets, base, config);
    for (const char* key : {"lora_dropout", "use_dora"})
      if (!is_off(at(key)) && std::ranges::any_of(config.targets, models::is_expert_target))
        throw DataError(std::string(key) + ": found " + shown(at(key)) +
                        ", expected none with adapters on experts");
    const bool adapts_head =
        std::ranges::find(config.targets, models::kHeadModule) != config.targets.end();
    if (adapts_head && config.has_magnitudes)
      throw DataError("use_dora: found true, expected false with an adapter on lm_head");
    if (adapts_head &&
        std::ranges::find(config.saved_modules, models::kHeadModule) != config.saved_modules.end())
      throw DataError("modules_to_save: found lm_head, expected it only without an adapter on it");
    check_scales(config, base);
    return config;
  }

 private:
  const json& at(const std::string& key) const {
    static const json kNothing;
    auto found = object_.find(key);
    return found == object_.end() ? kNothing : *found;
  }

  void add_problem(const std::string& key, const json& value, const std::string& expected) {
    problems_.add(key + ": found " + shown(value) + ", expected " + expected);
  }

  void expect_one_of(const std::string& key, const json& choices) {
    const json& value = at(key);
    if (std::find(choices.begin(), choices.end(), value) == choices.end())
      add_problem(key, value, "one of " + choices.dump());
  }

  void read_rank(LoraConfig& config) {
    const json& rank = at("r");
    if (is_rank(rank))
      config.rank = rank.get<int64_t>();
    else
      add_problem("r", rank, kRank);
  }

  void read_alpha(LoraConfig& config) {
    const json& alpha = at("lora_alpha");
    if (is_alpha(alpha))
      config.alpha = as_float64(alpha);
    else
      add_problem("lora_alpha", alpha, kAlpha);
  }

  void read_dropout(LoraConfig& config) {
    const json& value = at("lora_dropout");
    if (value.is_null()) return;
    config.dropout = value.is_number() ? value.get<double>() : -1;
    if (!(config.dropout >= 0 && config.dropout < 1))
      add_problem("lora_dropout", value, "a number from 0 to below 1");
  }

  // Of the embedding.
  void read_trained_tokens(const AdapterBase& base, LoraConfig& config) {
    const json& value = at("trainable_token_indices");
    if (is_off(value)) return;
    const bool is_by_module =
        value.is_object() && value.size() == 1 && is_embedding(value.items().begin().key(), base);
    const json& list = is_by_module ? value.items().begin().value() : value;
    const std::string expected_tokens = "a list of numbers of tokens below " +
                                        std::to_string(base.vocabulary) +
                                        ", each once, by itself or as embed_tokens'";
    std::unordered_set<int64_t> seen;
    if (!list.is_array()) return add_problem("trainable_token_indices", value, expected_tokens);
    for (const json& token : list) {
      const bool is_token = token.is_number_integer() && token >= 0 && token < base.vocabulary;
      const int64_t number = is_token ? token.get<int64_t>() : -1;
      if (!is_token || !seen.insert(number).second)
        return add_problem("trainable_token_indices", token, expected_tokens);
      config.trained_tokens.push_back(number);
    }
    if (std::ranges::find(config.saved_modules, models::kEmbeddingModule) !=
        config.saved_modules.end())
      add_problem("trainable_token_indices", value, "none with embed_tokens in modules_to_save");
  }

  // Names are ends of modules' names.
  void read_saved_modules(const AdapterBase& base, LoraConfig& config) {
    const json& value = at("modules_to_save");
    const bool are_tied = read_flag("ensure_weight_tying");
    if (is_off(value)) return;
    const std::string expected = std::string(R"(names of "embed_tokens" and "lm_head")");
    if (!value.is_array()) return add_problem("modules_to_save", value, expected);
    std::set<std::string> found;
    for (const std::string& name : read_texts("modules_to_save", value)) {
      const std::string word(name.substr(name.rfind('.') + 1));
      if (word != models::kEmbeddingModule && word != models::kHeadModule)
        add_problem("modules_to_save", name, expected);
      found.insert(word);
    }
    if (base.has_tied_embeddings && !are_tied && found.size() == 1)
      add_problem("modules_to_save", value,
                  "ensure_weight_tying: true beside it: embedding and head are one in this model");
    if (base.has_tied_embeddings) found = {models::kEmbeddingModule};
    config.saved_modules.assign(found.begin(), found.end());
  }

  bool read_flag(const std::string& key) {
    const json& value = at(key);
    if (!value.is_null() && !value.is_boolean()) add_problem(key, value, "true or false");
    return value == true;
  }

  AdapterTargets read_targets() {
    AdapterTargets targets;
    targets.target_modules = read_names("target_modules");
    targets.exclude_modules = read_names("exclude_modules");
    if (const json& parameters = at("target_parameters"); parameters.is_array())
      targets.target_parameters = read_texts("target_parameters", parameters);
    else if (!is_off(parameters))
      add_problem("target_parameters", parameters, "a list of names of parameters");
    if (targets.target_modules.empty() && targets.target_parameters.empty() && problems_.empty())
      add_problem("target_modules", at("target_modules"), kNames);
    read_layers(targets);
    read_pattern("rank_pattern", kRank, is_rank, targets.rank_pattern);
    read_pattern("alpha_pattern", kAlpha, is_alpha, targets.alpha_pattern);
    return targets;
  }

  // A text, or a list of texts.
  ModuleNames read_names(const std::string& key) {
    const json& value = at(key);
    ModuleNames names;
    if (value.is_string()) names.expression = value.get<std::string>();
    if (value.is_array()) names.list = read_texts(key, value);
    if (!value.is_string() && !value.is_array() && !value.is_null())
      add_problem(key, value, kNames);
    return names;
  }

  std::vector<std::string> read_texts(const std::string& key, const json& list) {
    std::vector<std::string> texts;
    for (const json& item : list)
      if (item.is_string())
        texts.push_back(item.get<std::string>());
      else
        add_problem(key, item, kNames);
    return texts;
  }

  void read_layers(AdapterTargets& targets) {
    const std::string key = "layers_to_transform";
    const json& value = at(key);
    const json list = value.is_null()    ? json::array()
                      : value.is_array() ? value
                                         : json::array({value});
    for (const json& layer : list)
      if (layer.is_number_integer() && layer >= 0 && layer < models::kMaxLayers)
        targets.layers_to_transform.push_back(layer.get<int64_t>());
      else
        add_problem(key, layer, "the number of a layer, or a list of them");
    const ModuleNames pattern = read_names("layers_pattern");
    targets.layers_pattern = pattern.list;
    if (!pattern.expression.empty()) targets.layers_pattern = {pattern.expression};
  }

  template <class Value>
  void read_pattern(const std::string& key, const std::string& expected,
                    bool (*is_valid)(const json&),
                    std::vector<std::pair<std::string, Value>>& pattern) {
    const json& value = at(key);
    if (is_off(value)) return;
    if (!value.is_object()) return add_problem(key, value, "an object of names");
    for (const auto& [name, number] : value.items())
      if (is_valid(number))
        pattern.emplace_back(name, static_cast<Value>(as_float64(number)));
      else
        add_problem(key, number, expected);
  }

  // Products are scaled in float32.
  static void check_scales(const LoraConfig& config, const AdapterBase& base) {
    std::vector<std::string> names{models::kHeadModule};
    for (int layer = 0; layer < base.layers; ++layer)
      for (const std::string& name : base.adaptable_modules())
        names.push_back(models::lora_module_name(layer, name));
    for (const std::string& name : names) {
      const auto module = adapter_of(config, name);
      if (!module) continue;
      const double scale = config.scale(*module);
      if (!(scale >= std::numeric_limits<float>::min() &&
            scale <= std::numeric_limits<float>::max()))
        throw DataError(
            fmt::format("lora_alpha: found {} for rank {}, expected a scale within "
                        "what float32 can hold",
                        module->alpha, module->rank));
    }
  }

  const json& object_;
  ProblemList problems_;
};

bool is_parameter(std::string_view target, const AdapterBase& base) {
  return models::is_expert_target(target) ||
         is_named_as_experts(target, base.family->layer.experts);
}

// That of a module whose target is_parameter().
std::string parameter(const std::string& module) {
  return models::is_expert_target(models::lora_target(module)) ? module : module + ".weight";
}

// What peft calls targets: modules, and parameters. Where each expert has modules of its own, these
// are `experts`'.
struct PeftTargets {
  std::vector<std::string> modules, parameters;

  PeftTargets(const LoraConfig& config, const AdapterBase& base) {
    const models::ExpertTraits& experts = base.family->layer.experts;
    for (const std::string& target : ordered_targets(config.targets))
      if (config.per_expert && models::is_expert_target(target)) {
        if (target.ends_with(".down_proj"))
          add_each_expert(experts.down, base);
        else
          for (std::string_view module : {experts.gate, experts.up}) add_each_expert(module, base);
      } else if (models::is_expert_target(target)) {
        parameters.push_back(target);
      } else if (is_parameter(target, base)) {
        add_weights(target, base);
      } else {
        modules.push_back(target);
      }
  }

 private:
  // By their numbers where the last word is that of a module of other layers too.
  void add_each_expert(std::string_view module, const AdapterBase& base) {
    if (!base.has_dense_layers)
      modules.emplace_back(models::lora_target(module));
    else
      for (int64_t expert = 0; expert < base.experts; ++expert)
        modules.push_back(numbered(module, expert));
  }

  // "mlp.gate_proj.weight", which no single expert's ends with.
  void add_weights(const std::string& target, const AdapterBase& base) {
    for (const std::string& module : base.linear_modules())
      if (models::lora_target(module) == target) parameters.push_back(parameter(module));
  }
};

// A regular expression, since a name alone would be found in the tower too.
std::string of_language_model(std::span<const std::string> targets) {
  return fmt::format(R"(.*language_model.*\.layers\.\d+\..*\.({}))", fmt::join(targets, "|"));
}

// Module by module.
void write_modules(const LoraConfig& config, const AdapterBase& base, json& object) {
  json names = json::array(), parameters = json::array(), ranks = json::object(),
       alphas = json::object();
  for (const auto& [full_name, module] : config.modules) {
    std::string name = peft_modules(full_name, base.reads_images())[0];
    const bool is_by_parameter = is_parameter(models::lora_target(full_name), base);
    if (is_by_parameter) name = parameter(name);
    (is_by_parameter ? parameters : names).push_back(name);
    if (module.rank != config.rank) ranks[escaped(name)] = module.rank;
    if (module.alpha != config.alpha) alphas[escaped(name)] = number(module.alpha);
  }
  object["target_modules"] = names;
  if (!parameters.empty()) object["target_parameters"] = parameters;
  if (!ranks.empty()) object["rank_pattern"] = ranks;
  if (!alphas.empty()) object["alpha_pattern"] = alphas;
}

}  // namespace

LoraConfig parse_adapter_config(std::string_view text, const AdapterBase& base) {
  if (text.size() > kMaxAdapterConfigBytes)
    throw DataError(fmt::format("found {} bytes, expected at most 4 MiB", text.size()));
  const json object = models::parse_ordered_object(text);
  return ConfigReader(object).read(base);
}

std::string write_adapter_config(const LoraConfig& config, const AdapterBase& base,
                                 const std::string& base_model) {
  const PeftTargets targets(config, base);
  json object;
  object["base_model_name_or_path"] = base_model.empty() ? json() : json(base_model);
  object["bias"] = "none";
  if (!config.saved_modules.empty() && base.has_tied_embeddings)
    object["ensure_weight_tying"] = true;
  object["fan_in_fan_out"] = false;
  object["inference_mode"] = true;
  object["init_lora_weights"] = true;
  object["lora_alpha"] = number(config.alpha);
  object["lora_dropout"] = config.dropout;
  if (config.saved_modules.empty())
    object["modules_to_save"] = nullptr;
  else
    object["modules_to_save"] = config.saved_modules;
  object["peft_type"] = "LORA";
  object["r"] = config.rank;
  object["target_modules"] =
      base.reads_images() ? json(of_language_model(targets.modules)) : json(targets.modules);
  if (!targets.parameters.empty()) object["target_parameters"] = targets.parameters;
  if (!config.modules.empty()) write_modules(config, base, object);
  object["task_type"] = "CAUSAL_LM";
  if (!config.trained_tokens.empty()) object["trainable_token_indices"] = config.trained_tokens;
  if (config.rank_stabilized) object["use_rslora"] = true;
  if (config.has_magnitudes) object["use_dora"] = true;
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::vector<std::string> ordered_targets(std::span<const std::string> targets) {
  std::vector<std::string> ordered;
  for (const std::string& target : models::all_lora_targets())
    if (std::ranges::find(targets, target) != targets.end()) ordered.push_back(target);
  return ordered;
}

std::vector<std::string> peft_names(std::string_view weight) {
  const std::string_view within = models::within_text_model(weight);
  std::vector<std::string> names = peft_modules(within, within != weight);
  for (std::string& name : names) name.insert(0, kPrefix);
  return names;
}

void check_adapter_tensors(std::span<const data::SafetensorsTensor> tensors,
                           const std::map<std::string, std::vector<int64_t>>& expected) {
  ProblemList problems;
  std::set<std::string_view> found;
  for (const data::SafetensorsTensor& tensor : tensors) {
    found.insert(tensor.name);
    auto shape = expected.find(tensor.name);
    if (shape == expected.end())
      problems.add("not expected: " + excerpt(tensor.name));
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
