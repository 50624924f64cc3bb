#include "longshore/trainer/config/config.h"

#include <algorithm>
#include <iterator>

#include "longshore/data/files/text_format.h"
#include "longshore/data/text/built_in_templates.h"
#include "longshore/trainer/config/data_paths.h"

namespace longshore::trainer {

bool is_toy(const Config& config) { return config.toy != Toy::none; }

void require_decoder(const Config& config) {
  if (is_toy(config))
    throw ConfigError(location(config, "model_type") +
                      ": found a toy, which is there for plan; expected a decoder");
}

int64_t tokens_per_step(const Config& config) {
  return config.per_device_batch_size * config.max_target_length *
         config.gradient_accumulation_steps;
}

std::vector<std::filesystem::path> data_files(const Config& config) {
  std::vector<std::filesystem::path> paths;
  for (const DatasetFile& entry : config.dataset_path)
    std::ranges::move(data_paths(entry.path, config.train_split), std::back_inserter(paths));
  for (const EvalDataset& set : config.eval_dataset_path)
    std::ranges::move(data_paths(set.path, config.eval_split), std::back_inserter(paths));
  return paths;
}

bool evaluates(const Config& config) {
  return config.dataset_type != DatasetType::synthetic &&
         (!config.eval_dataset_path.empty() || config.eval_fraction > 0);
}

bool asks_choices(const Config& config) {
  return config.dataset_type != DatasetType::synthetic && !config.eval_choices_path.empty();
}

bool samples(const Config& config) {
  return config.dataset_type != DatasetType::synthetic && config.sample_tokens > 0;
}

bool samples_prompts(const Config& config) {
  return samples(config) && !config.eval_prompts_path.empty();
}

namespace {

// What a chat template may write around a prompt, or bos and the like around one that is none's.
int64_t most_tokens_around_prompt(const Config& config) {
  constexpr int64_t kText = 2, kBuiltIn = 64, kOfFolder = 1024;  // with a system's turn of its own
  const std::vector<std::filesystem::path> paths = data_files(config);
  const bool may_have_messages = config.dataset_type == DatasetType::documents &&
                                 std::ranges::any_of(paths, [](const std::filesystem::path& path) {
                                   return data::has_records(path) || !data::is_text(path);
                                 });
  if (config.chat_template == data::kNoTemplate || !may_have_messages) return kText;
  return data::is_built_in(config.chat_template) ? kBuiltIn : kOfFolder;
}

}  // namespace

// A token for each of the prompt's bytes, which is more than it has, and what stands around it.
// Prompts of a file are as long as rows may be.
int64_t sample_capacity(const Config& config) {
  if (samples_prompts(config)) return config.max_target_length;
  const int64_t prompt = std::ssize(config.sample_prompt) + most_tokens_around_prompt(config);
  return std::min(config.max_target_length, prompt + config.sample_tokens);
}

bool evaluates_after(const Config& config, int64_t steps) {
  const bool has_any = evaluates(config) || asks_choices(config) || samples_prompts(config);
  return has_any && steps < config.steps && config.eval_interval &&
         steps % *config.eval_interval == 0;
}

KeepBest best_metric(const Config& config) {
  const bool stops_early = config.early_stopping_patience > 0;
  return config.keep_best == KeepBest::none && stops_early ? KeepBest::validation_loss
                                                           : config.keep_best;
}

data::ChatTemplateChoice chat_template_choice(const Config& config) {
  return {.name = config.chat_template,
          .kwargs = config.chat_template_kwargs,
          .date = config.chat_template_date};
}

std::optional<std::filesystem::path> text_file(const Config& config) {
  if (config.dataset_type == DatasetType::synthetic) return std::nullopt;
  const std::vector<std::filesystem::path> paths = data_files(config);
  const auto text = std::ranges::find_if(paths, data::is_text);
  return text == paths.end() ? std::nullopt : std::optional(*text);
}

std::string origin(const Config& config, const std::string& key) {
  auto found = config.origins.find(key);
  return found == config.origins.end() ? "default" : found->second;
}

std::string location(const Config& config, const std::string& key) {
  return origin(config, key) + " " + key;
}

}  // namespace longshore::trainer
