#include "longshore/trainer/weights/adapter_targets.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <optional>
#include <set>

#include "longshore/base/error.h"
#include "longshore/base/numbered.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/data/tokenizers/pcre2_expression.h"

namespace longshore::trainer {
namespace {

using data::Pcre2Expression;
using models::LoraConfig;
using models::LoraModule;

constexpr const char* kWeight = ".weight";

// A regular expression out of an adapter_config.json.
class NameExpression {
 public:
  NameExpression(const std::string& key, const std::string& text, const std::string& before = "",
                 const std::string& after = "")
      : key_(key), text_(text), expression_(compile(before + text + after)) {}

  // Of the whole name.
  bool matches(const std::string& name) const {
    try {
      return expression_.is_found_in(name);
    } catch (const DataError& error) {
      refuse(error.what());
    }
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw DataError(key_ + ": found " + in_quotes(text_) + ", " + what);
  }

 private:
  Pcre2Expression compile(const std::string& text) const {
    try {
      return Pcre2Expression("\\A(?:" + text + ")\\z");
    } catch (const DataError& error) {
      refuse(error.what());
    }
  }

  std::string key_, text_;
  Pcre2Expression expression_;
};

class NameMatcher {
 public:
  NameMatcher(const std::string& key, const ModuleNames& names) : names_(names) {
    if (!names.expression.empty()) expression_.emplace(key, names.expression);
  }

  bool matches(const std::string& module) const {
    if (expression_) return expression_->matches(module);
    return std::ranges::any_of(names_.list, [&](const std::string& name) {
      return module == name || module.ends_with("." + name);
    });
  }

 private:
  const ModuleNames& names_;
  std::optional<NameExpression> expression_;
};

// The first value whose expression matches a module.
template <class Value>
class ModulePattern {
 public:
  ModulePattern(const std::string& key, const std::vector<std::pair<std::string, Value>>& pattern) {
    for (const auto& [expression, value] : pattern)
      values_.emplace_back(NameExpression(key, expression, "(?:.*\\.)?(?:", ")"), value);
  }

  Value value(const std::string& module, Value otherwise) {
    for (size_t i = 0; i < values_.size(); ++i)
      if (values_[i].first.matches(module)) {
        used_.insert(i);
        return values_[i].second;
      }
    return otherwise;
  }

  void require_used() const {
    for (size_t i = 0; i < values_.size(); ++i)
      if (!used_.contains(i))
        values_[i].first.refuse(
            "which matches no module that has an adapter, or none that an "
            "earlier one does not");
  }

 private:
  std::set<size_t> used_;
  std::vector<std::pair<NameExpression, Value>> values_;
};

// Those of a decoder, by which others' expressions were meant, that are no projections of a layer.
std::vector<std::string> other_modules(const AdapterBase& base) {
  std::vector<std::string> modules{"model.embed_tokens", "model.norm"};
  if (!base.may_adapt_head()) modules.emplace_back(models::kHeadModule);
  for (int layer = 0; layer < base.layers; ++layer)
    for (const char* name :
         {"self_attn", "self_attn.q_norm", "self_attn.k_norm", "mlp", "input_layernorm",
          "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"})
      modules.push_back(models::lora_module_name(layer, name));
  return modules;
}

// Of what reads images.
std::vector<std::string> vision_modules(const AdapterBase& base) {
  if (!base.reads_images()) return {};
  std::vector<std::string> modules{"multi_modal_projector.linear"};
  for (int layer = 0; layer < base.tower_layers; ++layer)
    for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                             "self_attn.out_proj", "mlp.fc1", "mlp.fc2"})
      modules.push_back("vision_tower.vision_model.encoder.layers." + std::to_string(layer) + "." +
                        name);
  return modules;
}

// Whether layers_to_transform has the layer, whose list is "model.layers".
class LayerFilter {
 public:
  LayerFilter(const AdapterTargets& targets, const AdapterBase& base)
      : targets_(targets), lists_(peft_modules("model.layers", base.reads_images())) {
    for (const std::string& pattern : targets.layers_pattern)
      patterns_.emplace_back("layers_pattern", pattern, "(?:|.*?\\.)(?:", ")");
  }

  bool has(int layer) const {
    if (targets_.layers_to_transform.empty() || !targets_.target_modules.expression.empty())
      return true;
    const bool is_counted =
        patterns_.empty() || std::ranges::any_of(patterns_, [&](const NameExpression& pattern) {
          return std::ranges::any_of(
              lists_, [&](const std::string& list) { return pattern.matches(list); });
        });
    return is_counted && std::ranges::find(targets_.layers_to_transform, layer) !=
                             targets_.layers_to_transform.end();
  }

 private:
  const AdapterTargets& targets_;
  std::vector<std::string> lists_;
  std::vector<NameExpression> patterns_;
};

bool is_all_linear(const ModuleNames& names) {
  std::string word = names.expression;
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::tolower(c); });
  return word == "all-linear";
}

ModuleNames written_out(const ModuleNames& names, const AdapterBase& base) {
  if (!is_all_linear(names)) return names;
  ModuleNames all;
  for (const std::string& module : base.linear_modules())
    all.list.emplace_back(models::lora_target(module));
  return all;
}

// The projections that have an adapter in every layer, all of one size; nothing where some differ.
std::optional<std::vector<std::string>> targets_of_all_layers(
    const std::map<std::string, LoraModule, std::less<>>& modules, const AdapterBase& base) {
  std::map<std::string, int> counts;
  for (const auto& [name, module] : modules) {
    if (module != modules.begin()->second) return std::nullopt;
    ++counts[std::string(models::lora_target(name))];
  }
  const std::vector<std::string> all = base.adaptable_modules();
  std::vector<std::string> targets;
  for (const std::string& target : base.lora_targets()) {
    const auto count = counts.find(target);
    if (count == counts.end()) continue;
    const auto of_layer = std::ranges::count_if(
        all, [&](const std::string& module) { return models::lora_target(module) == target; });
    if (count->second != base.layers * of_layer) return std::nullopt;
    targets.push_back(target);
  }
  if (counts.contains(models::kHeadModule)) targets.emplace_back(models::kHeadModule);
  return targets;
}

// Where each expert has modules of its own, all are alike.
void require_no_patterns(const AdapterTargets& targets) {
  for (const auto& [key, is_there] : {std::pair{"rank_pattern", !targets.rank_pattern.empty()},
                                      {"alpha_pattern", !targets.alpha_pattern.empty()},
                                      {"exclude_modules", !targets.exclude_modules.empty()}})
    if (is_there)
      throw DataError(std::string(key) +
                      ": found some with each expert's modules among the targets, expected none: "
                      "experts that have adapters by themselves have all the same");
}

// peft's names of what may be among target_parameters, in a layer.
std::vector<std::string> parameters_of(const std::string& module, const AdapterBase& base,
                                       int layer) {
  std::vector<std::string> names =
      peft_modules(models::lora_module_name(layer, module), base.reads_images());
  if (!models::is_expert_target(models::lora_target(module)))
    for (std::string& name : names) name += kWeight;
  return names;
}

// Whether it is the parameter of the module in some layer.
bool is_parameter_of(const std::string& parameter, const std::string& module,
                     const AdapterBase& base) {
  const ModuleNames names{.list = {parameter}, .expression = {}};
  const NameMatcher matcher("target_parameters", names);
  for (int layer = 0; layer < base.layers; ++layer)
    for (const std::string& name : parameters_of(module, base, layer))
      if (matcher.matches(name)) return true;
  return false;
}

// Throws where one is neither a parameter of experts nor a projection's weight.
void require_parameters(const AdapterTargets& targets, const AdapterBase& base) {
  const std::vector<std::string> modules = base.adaptable_modules();
  for (const std::string& parameter : targets.target_parameters)
    if (std::ranges::none_of(modules, [&](const std::string& module) {
          return is_parameter_of(parameter, module, base);
        })) {
      const std::vector<std::string> of_experts = models::expert_modules(base.family->layer);
      throw DataError(
          "target_parameters: found " + in_quotes(parameter) + ", expected " +
          (of_experts.empty() ? "" : "those of experts, " + join(of_experts) + ", or ") +
          "weights of projections, such as " + base.linear_modules()[0] + kWeight);
    }
}

// Whether adapters of all experts of a layer are one.
bool targets_joint_experts(const AdapterTargets& targets, const AdapterBase& base) {
  return std::ranges::any_of(targets.target_parameters, [&](const std::string& parameter) {
    return std::ranges::any_of(
        models::expert_modules(base.family->layer),
        [&](const std::string& module) { return is_parameter_of(parameter, module, base); });
  });
}

// Of a layer's experts: those of all that are among target_parameters, or, where each expert's are
// modules by themselves, those that are targets.
std::vector<std::string> expert_targets(const AdapterTargets& targets, const AdapterBase& base,
                                        int layer,
                                        const std::function<bool(const std::string&)>& is_target) {
  std::vector<std::string> found;
  const ModuleNames parameters{.list = targets.target_parameters, .expression = {}};
  const NameMatcher is_parameter("target_parameters", parameters);
  for (const std::string& module : models::expert_modules(base.family->layer))
    if (is_parameter.matches(models::lora_module_name(layer, module))) found.push_back(module);
  const models::ExpertTraits& experts = base.family->layer.experts;
  if (!found.empty() || !experts.are_numbered()) return found;
  auto is_first_target = [&](std::string_view module) {
    return is_target(models::lora_module_name(layer, numbered(module, 0)));
  };
  const bool gate = is_first_target(experts.gate), up = is_first_target(experts.up);
  if (gate != up)
    throw DataError("target_modules: found " + numbered(gate ? experts.gate : experts.up, 0) +
                    " among them and not " + numbered(gate ? experts.up : experts.gate, 0) +
                    ", expected both or neither");
  const std::vector<std::string> modules = models::expert_modules(base.family->layer);
  if (gate) found.push_back(modules[0]);
  if (is_first_target(experts.down)) found.push_back(modules[1]);
  return found;
}

}  // namespace

bool is_named_as_experts(std::string_view target, const models::ExpertTraits& experts) {
  return experts.are_numbered() &&
         (target == models::lora_target(experts.gate) ||
          target == models::lora_target(experts.up) || target == models::lora_target(experts.down));
}

std::vector<std::string> peft_modules(std::string_view module, bool reads_images) {
  if (!reads_images) return {std::string(module)};
  constexpr std::string_view kModel = "model.";
  std::vector<std::string> names;
  if (module.starts_with(kModel))
    names.push_back("model.language_model." + std::string(module.substr(kModel.size())));
  names.push_back("language_model." + std::string(module));
  return names;
}

void set_targets(const AdapterTargets& said, const AdapterBase& base, LoraConfig& config) {
  require_parameters(said, base);
  AdapterTargets targets = said;
  targets.target_modules = written_out(said.target_modules, base);
  const std::vector<std::string> known = base.lora_targets();
  const NameMatcher target("target_modules", targets.target_modules),
      excluded("exclude_modules", targets.exclude_modules);
  ModulePattern<int64_t> ranks("rank_pattern", targets.rank_pattern);
  ModulePattern<double> alphas("alpha_pattern", targets.alpha_pattern);
  const LayerFilter filter(targets, base);
  const int layers = base.layers;
  auto is_target = [&](const std::string& name) {
    return target.matches(name) && (targets.exclude_modules.empty() || !excluded.matches(name));
  };
  const ModuleNames parameters{.list = targets.target_parameters, .expression = {}};
  const NameMatcher is_parameter("target_parameters", parameters);
  // The name by which peft finds the module.
  auto found_as = [&](const std::string& module) -> std::optional<std::string> {
    for (const std::string& name : peft_modules(module, base.reads_images()))
      if (is_target(name)) return name;
    return std::nullopt;
  };
  // Of a model with images a list names modules of its tower too.
  for (const std::string& module : vision_modules(base))
    if (is_target(module) || is_target("model." + module) || is_parameter.matches(module + kWeight))
      throw DataError("target_modules: found " + module +
                      " among them, expected only modules of the language model; adapters of what "
                      "reads images are not supported");
  const bool is_anywhere =
      targets.layers_to_transform.empty() || !targets.target_modules.expression.empty();
  if (is_anywhere)
    for (const std::string& module : other_modules(base))
      if (found_as(module))
        throw DataError("target_modules: found " + module + " among them, expected only " +
                        join(known) + " of layers");
  config.modules.clear();
  config.per_expert = false;
  const bool has_joint_experts = targets_joint_experts(targets, base);
  if (base.may_adapt_head() && is_anywhere && found_as(models::kHeadModule))
    config.modules[models::kHeadModule] = {
        .rank = ranks.value(models::kHeadModule, config.rank),
        .alpha = alphas.value(models::kHeadModule, config.alpha)};
  std::set<std::string, std::less<>> projections;
  auto add = [&](int layer, const std::string& module, const std::string& name) {
    config.modules[models::lora_module_name(layer, module)] = {
        .rank = ranks.value(name, config.rank), .alpha = alphas.value(name, config.alpha)};
    projections.emplace(models::lora_target(module));
  };
  for (int layer = 0; layer < layers; ++layer) {
    const bool is_counted = filter.has(layer);
    for (const std::string& linear : base.linear_modules()) {
      const std::string module = models::lora_module_name(layer, linear);
      const std::vector<std::string> weights = parameters_of(linear, base, layer);
      const auto weight = std::ranges::find_if(
          weights, [&](const std::string& name) { return is_parameter.matches(name); });
      if (weight != weights.end())  // of any layer
        add(layer, linear, *weight);
      else if (const auto name = is_counted ? found_as(module) : std::nullopt)
        add(layer, linear, *name);
    }
    const auto is_module = [&](const std::string& module) {
      return is_counted && found_as(module).has_value();
    };
    for (const std::string& module : expert_targets(targets, base, layer, is_module)) {
      config.per_expert = !has_joint_experts;
      add(layer, module,
          peft_modules(models::lora_module_name(layer, module), base.reads_images())[0]);
    }
  }
  if (config.modules.empty())
    throw DataError("target_modules: found no module of this model in it, expected some of " +
                    join(known) +
                    (base.family->layer.experts.are_numbered() ? ", those of experts of all" : ""));
  if (config.per_expert) require_no_patterns(said);
  if (said.patterns_must_match) {
    ranks.require_used();
    alphas.require_used();
  }
  if (const auto alike = targets_of_all_layers(config.modules, base)) {
    config.rank = config.modules.begin()->second.rank;
    config.alpha = config.modules.begin()->second.alpha;
    config.targets = *alike;
    config.modules.clear();
    return;
  }
  if (config.per_expert)
    throw DataError(
        "target_modules: found each expert's modules among them, and not all modules alike; "
        "expected one rank and alpha, and the same modules in all layers");
  for (const std::string& target : known)
    if (projections.contains(target)) config.targets.push_back(target);
  if (config.modules.contains(models::kHeadModule))
    config.targets.emplace_back(models::kHeadModule);
}

}  // namespace longshore::trainer
