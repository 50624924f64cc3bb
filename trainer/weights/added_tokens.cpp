#include "trainer/weights/added_tokens.h"

#include <algorithm>

#include "data/tokenizers/tokenizer.h"
#include "models/families/limits.h"

namespace longshore::trainer {

Config with_added_tokens(Config config) {
  if (config.add_tokens.empty()) return config;
  try {
    const int32_t first = data::Tokenizer(config.tokenizer_path).vocab_size();
    const data::Tokenizer extended(config.tokenizer_path, config.add_tokens);
    config.added_tokens.clear();
    for (const std::string& token : config.add_tokens)
      config.added_tokens.push_back(extended.id_of(token).value());
    config.added_rows = {.first = first, .count = extended.vocab_size() - first};
  } catch (const DataError& error) {
    throw ConfigError(location(config, "add_tokens") + ": " + error.what());
  }
  if (config.added_rows.count == 0) return config;
  config.model.vocabulary = std::max(config.model.vocabulary, config.added_rows.end());
  if (config.model.vocabulary > models::kMaxVocabulary)
    throw ConfigError(location(config, "add_tokens") + ": found a vocabulary of " +
                      std::to_string(config.model.vocabulary) + " with them, expected at most " +
                      std::to_string(models::kMaxVocabulary));
  return config;
}

}  // namespace longshore::trainer
