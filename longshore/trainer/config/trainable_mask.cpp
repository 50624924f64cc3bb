#include "longshore/trainer/config/trainable_mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/data/tokenizers/pcre2_expression.h"
#include "longshore/models/families/lora_config.h"
#include "longshore/offload/lowering/parameter_layout.h"
#include "longshore/trainer/config/key_values.h"
#include "longshore/trainer/config/model_keys.h"
#include "longshore/trainer/config/yaml.h"

namespace longshore::trainer {
namespace {

const std::string kKey = "trainable_parameters_mask";

class Expression {
 public:
  Expression(const Config& config, const std::string& text)
      : where_(location(config, kKey) + ": found " + excerpt(text)), expression_(compile(text)) {}

  bool is_found_in(const std::string& name) const {
    try {
      return expression_.is_found_in(name);
    } catch (const DataError& error) {
      refuse(error.what());
    }
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw ConfigError(where_ + ", " + what);
  }

 private:
  data::Pcre2Expression compile(const std::string& text) const {
    try {
      return data::Pcre2Expression(text);
    } catch (const DataError& error) {
      refuse(error.what());
    }
  }

  std::string where_;
  data::Pcre2Expression expression_;
};

// Of all tensors.
std::vector<std::string> names_of(const models::Model& model) {
  std::vector<std::string> names;
  for (const models::Stage& stage : model.stages)
    for (size_t layer = 0; layer < stage.layers.size(); ++layer) {
      const models::Program& program = stage.program(layer);
      for (models::ValueId id : program.inputs_from(models::Source::weight))
        std::ranges::move(saved_names(stage, static_cast<int>(layer), program[id]),
                          std::back_inserter(names));
    }
  return names;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (auto begin = text.begin(); begin != text.end();) {
    begin = std::find_if(begin, text.end(), is_word);
    auto end = std::find_if_not(begin, text.end(), is_word);
    if (begin != end) words.emplace_back(begin, end);
    begin = end;
  }
  return words;
}

// What is near to the first word of the expression that is in no name: "q_proj"; "" if nothing is.
std::string nearest_word(const std::string& expression, const std::vector<std::string>& names) {
  std::set<std::string> seen;
  for (const std::string& name : names)
    for (std::string& word : words_of(name)) seen.insert(std::move(word));
  std::vector<std::string> candidates(seen.begin(), seen.end());
  for (const std::string& word : words_of(expression))
    if (std::string close = seen.contains(word) ? "" : nearest(word, candidates); !close.empty())
      return close;
  return "";
}

// Updates are of whole blocks of elements.
void require_whole_blocks(const Config& config, const models::Model& model) {
  for (const models::Stage& stage : model.stages)
    for (size_t layer = 0; layer < stage.layers.size(); ++layer) {
      const models::Program& program = stage.program(layer);
      for (models::ValueId id : program.inputs_from(models::Source::weight)) {
        const auto slices = std::ssize(program[id].weight->trained_slices);
        if (slices == 0) continue;
        const int64_t elements = program[id].type.shape.count() / slices;
        if (elements % offload::kParameterAlignment != 0)
          throw ConfigError(
              fmt::format("{}: found some of the {} experts' matrices such as {}, of {} elements "
                          "each; expected all of them or none, or matrices whose elements are a "
                          "multiple of {}",
                          location(config, kKey), slices,
                          saved_names(stage, static_cast<int>(layer), program[id])[0], elements,
                          offload::kParameterAlignment));
      }
    }
}

// Nothing else would make anything of them.
void require_added_tokens(const Config& config, const std::set<std::string>& found) {
  if (config.lora_rank > 0 || config.added_rows.count == 0) return;
  for (const std::string& name : found)
    if (name.ends_with(std::string(models::kEmbeddingModule) + ".weight")) return;
  throw ConfigError(location(config, kKey) + ": found no " + models::kEmbeddingModule +
                    ".weight in it, expected it with " + described(config, "add_tokens") +
                    ", whose rows would not train");
}

// What single rows or an adapter train of, is frozen itself.
void require_other_than_adapted(const Config& config, const std::set<std::string>& found) {
  if (config.lora_rank == 0) return;
  auto require_none = [&](const char* module, const char* key) {
    for (const std::string& name : found)
      if (name.ends_with(std::string(module) + ".weight"))
        throw ConfigError(location(config, kKey) + ": found " + name +
                          " in it, expected none with " + described(config, key));
  };
  const std::vector<std::string> targets = lora_targets(config);
  if (!trained_tokens(config).empty())
    require_none(models::kEmbeddingModule,
                 config.trainable_token_indices.empty() ? "add_tokens" : "trainable_token_indices");
  if (std::ranges::find(targets, models::kHeadModule) != targets.end())
    require_none(models::kHeadModule, "lora_targets");
}

}  // namespace

void apply_mask(const Config& config, models::Model& model) {
  if (config.trainable_parameters_mask.empty()) return;
  const std::vector<std::string> names = names_of(model);
  std::set<std::string> found;
  for (const std::string& text : config.trainable_parameters_mask) {
    Expression expression(config, text);
    bool is_found = false;
    for (const std::string& name : names)
      if (expression.is_found_in(name)) {
        is_found = true;
        found.insert(name);
      }
    if (is_found) continue;
    std::vector<std::string> examples(names.begin(),
                                      names.begin() + std::min<ptrdiff_t>(4, std::ssize(names)));
    expression.refuse("expected what is found in the name of a parameter, as in " + join(examples) +
                      nearest_help(nearest_word(text, names)));
  }
  require_other_than_adapted(config, found);
  require_added_tokens(config, found);
  set_trainable(model, [&](const std::string& name) {
    return found.contains(name) || models::trains_with_adapters(lora_config(config), name);
  });
  require_whole_blocks(config, model);
}

}  // namespace longshore::trainer
