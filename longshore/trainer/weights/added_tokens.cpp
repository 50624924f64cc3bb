#include "longshore/trainer/weights/added_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "longshore/base/printable.h"
#include "longshore/data/tokenizers/tokenizer.h"
#include "longshore/models/families/limits.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const Config& config, const std::string& what) {
  throw ConfigError(location(config, "add_tokens") + ": " + what);
}

// That the tokenizer is the model's as long as none is added.
void require_tokenizer_of_model(const Config& config, const data::Tokenizer& tokenizer) {
  if (tokenizer.ordinary_vocab_size() > config.model.vocabulary)
    refuse(config, fmt::format("{} has token ids up to {} before any are added, but vocab_size is "
                               "{} ({}); expected the model's tokenizer",
                               path_text(tokenizer.path()), tokenizer.ordinary_vocab_size() - 1,
                               config.model.vocabulary, origin(config, "vocab_size")));
}

// That the folder of the weights has no rows for the tokens already, which training has made.
void require_new(const Config& config, const data::Tokenizer& tokenizer) {
  const fs::path& folder = config.load_parameters_path;
  if (folder.empty()) return;
  const std::optional<fs::path> file = data::tokenizer_file(folder);
  if (!file || *file == tokenizer.path()) return;
  const data::Tokenizer there(folder);
  for (const std::string& token : config.add_tokens)
    if (there.id_of(token) && !tokenizer.id_of(token))
      refuse(config, "found " + in_quotes(token) + ", which the tokenizer of " + path_text(folder) +
                         " has and that of tokenizer_path, " + path_text(tokenizer.path()) +
                         ", has not; nearest: tokenizer_path=" + path_text(folder));
}

}  // namespace

Config with_added_tokens(Config config) {
  if (config.add_tokens.empty()) return config;
  try {
    const data::Tokenizer tokenizer(config.tokenizer_path);
    const data::Tokenizer extended(config.tokenizer_path, config.add_tokens);
    require_tokenizer_of_model(config, tokenizer);
    require_new(config, tokenizer);
    config.added_tokens.clear();
    for (const std::string& token : config.add_tokens)
      config.added_tokens.push_back(extended.id_of(token).value());
    const int32_t first = tokenizer.vocab_size(), count = extended.vocab_size() - first;
    config.added_rows = count == 0 ? AddedRows{} : AddedRows{.first = first, .count = count};
  } catch (const DataError& error) {
    refuse(config, error.what());
  }
  config.model.vocabulary = std::max(config.model.vocabulary, config.added_rows.end());
  if (config.model.vocabulary > models::kMaxVocabulary)
    refuse(config, fmt::format("found a vocabulary of {} with them, expected at most {}",
                               config.model.vocabulary, models::kMaxVocabulary));
  for (size_t i = 0; i < config.added_tokens.size(); ++i)
    if (config.added_tokens[i] >= config.model.vocabulary)
      refuse(config,
             fmt::format("found {}, which is {} in the tokenizer, but vocab_size is {} ({}); "
                         "expected a tokenizer that lacks it, or one of a model with a row "
                         "for it",
                         in_quotes(config.add_tokens[i]), config.added_tokens[i],
                         config.model.vocabulary, origin(config, "vocab_size")));
  return config;
}

std::vector<std::string> tokens_numbered_otherwise(const Config& config, const fs::path& adapter) {
  if (config.added_tokens.empty() || !data::tokenizer_file(adapter)) return {};
  const data::Tokenizer there(adapter);
  std::vector<std::string> differing;
  for (size_t i = 0; i < config.added_tokens.size(); ++i) {
    const std::optional<int32_t> id = there.id_of(config.add_tokens[i]);
    if (id != config.added_tokens[i])
      differing.push_back(fmt::format("add_tokens: {} is {}, {} in the adapter",
                                      in_quotes(config.add_tokens[i]), config.added_tokens[i],
                                      id ? std::to_string(*id) : "none"));
  }
  return differing;
}

}  // namespace longshore::trainer
