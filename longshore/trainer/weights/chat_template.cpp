#include "longshore/trainer/weights/chat_template.h"

#include "longshore/base/error.h"
#include "longshore/base/printable.h"

namespace longshore::trainer {

std::optional<data::ChatTemplate> find_chat_template(const Config& config,
                                                     const data::Tokenizer& tokenizer) {
  try {
    return data::find_chat_template(chat_template_choice(config), tokenizer.path().parent_path(),
                                    tokenizer);
  } catch (const ConfigError& error) {
    throw ConfigError(location(config, "chat_template") + ": " + error.what());
  }
}

std::optional<data::ChatTemplate> find_chat_template(const RunWeights& weights,
                                                     const data::ChatTemplateChoice& choice,
                                                     const data::Tokenizer& tokenizer) {
  return data::find_chat_template(
      choice, weights.templates.empty() ? tokenizer.path().parent_path() : weights.templates,
      tokenizer);
}

}  // namespace longshore::trainer
