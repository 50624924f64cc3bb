// A PromptWriter writes the prompts of a run as its documents are written, so that texts begin as
// those that the model learns.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "longshore/data/rows/token_file.h"
#include "longshore/data/text/chat_template.h"
#include "longshore/data/text/prompt_record.h"
#include "longshore/data/tokenizers/tokenizer.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/decoding/prompt.h"

namespace longshore::trainer {

// Whether the first document begins with the tokenizer's bos.
bool begins_with_bos(const data::TokenFile& file, const data::Tokenizer& tokenizer);

struct EvalPrompt {
  data::PromptRecord record;
  Prompt prompt;
};

class PromptWriter {
 public:
  // By the chat template, if there is one; else as texts begin: with bos, or behind the end of
  // another. All must outlive this.
  PromptWriter(const Config& config, bool has_bos, const data::Tokenizer& tokenizer,
               const std::optional<data::ChatTemplate>& chat_template);

  // What stands before a text that no template writes.
  int32_t opening() const { return opening_; }

  // Both throw ConfigError where a prompt has more tokens than there is room for, one that the
  // model does not know, or what the template does not allow.
  Prompt sample_prompt() const;
  // Those of eval_prompts_path. Also throws ConfigError where there are none, or too many, and
  // DataError, with file and line, for what is no prompt.
  std::vector<EvalPrompt> eval_prompts() const;

 private:
  Prompt of_text(const std::string& text, const std::string& place) const;
  Prompt of_record(const data::PromptRecord& record, const std::string& place) const;
  // With what else ends a text, if it is in order; `others` of its tokens are not the user's.
  Prompt checked(Prompt prompt, int64_t others, const std::string& place) const;

  const Config& config_;
  const data::Tokenizer& tokenizer_;
  const std::optional<data::ChatTemplate>& chat_template_;
  const int32_t opening_;
  std::vector<int32_t> eos_of_model_;  // of the folder of weights
};

}  // namespace longshore::trainer
