#include "longshore/trainer/run/prompt_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/data/text/encode_example.h"
#include "longshore/trainer/weights/text_files.h"

namespace longshore::trainer {
namespace {

constexpr size_t kMostPrompts = 10'000;
constexpr size_t kMostBytes = size_t{64} << 20;  // of all prompts as JSON, which stay in memory

}  // namespace

bool begins_with_bos(const data::TokenFile& file, const data::Tokenizer& tokenizer) {
  if (!file.has_documents() || file.document_count() == 0) return false;
  const bool is_absent = file.has_pairs() && file.document(0).count == 1;
  int32_t first;
  file.read(file.document(is_absent ? 1 : 0).first, {&first, 1});
  return first == tokenizer.bos_id();
}

PromptWriter::PromptWriter(const Config& config, bool has_bos, const data::Tokenizer& tokenizer,
                           const std::optional<data::ChatTemplate>& chat_template)
    : config_(config),
      tokenizer_(tokenizer),
      chat_template_(chat_template),
      opening_(has_bos ? tokenizer.bos_id() : std::max(tokenizer.eos_id(), 0)) {
  if (!config.load_parameters_path.empty()) eos_of_model_ = eos_ids(config.load_parameters_path);
}

Prompt PromptWriter::sample_prompt() const {
  Prompt prompt = of_text(config_.sample_prompt, location(config_, "chat_template"));
  const auto others =
      std::ssize(prompt.tokens) - std::ssize(tokenizer_.encode(config_.sample_prompt));
  return checked(std::move(prompt), others, location(config_, "sample_prompt"));
}

std::vector<EvalPrompt> PromptWriter::eval_prompts() const {
  const std::string key = location(config_, "eval_prompts_path");
  const std::string path = path_text(config_.eval_prompts_path);
  std::vector<EvalPrompt> prompts;
  size_t bytes = 0;
  data::read_prompts(config_.eval_prompts_path,
                     [&](data::PromptRecord record, const std::string& place) {
                       bytes += record.json().dump().size();
                       if (prompts.size() == kMostPrompts || bytes > kMostBytes)
                         throw ConfigError(
                             fmt::format("{}: {}: found more prompts, expected at most {}, of {} "
                                         "MiB together; nearest: its first ones in a file of their "
                                         "own",
                                         key, place, kMostPrompts, kMostBytes >> 20));
                       const std::string at = key + ": " + place;
                       Prompt prompt = checked(of_record(record, at), 0, at);
                       prompts.push_back({std::move(record), std::move(prompt)});
                     });
  if (prompts.empty()) throw ConfigError(key + ": " + path + ": found no prompt, expected some");
  return prompts;
}

Prompt PromptWriter::of_text(const std::string& text, const std::string& place) const {
  if (chat_template_) return chat_prompt(text, *chat_template_, tokenizer_, place);
  return {.tokens = data::prompt_tokens(text, opening_, tokenizer_),
          .end_tokens = {tokenizer_.eos_id()}};
}

Prompt PromptWriter::of_record(const data::PromptRecord& record, const std::string& place) const {
  if (const auto* text = std::get_if<std::string>(&record.prompt)) return of_text(*text, place);
  if (!chat_template_)
    throw ConfigError(place +
                      ": found messages, expected a prompt that is a text: no chat template has "
                      "written what is trained on");
  return chat_prompt(std::get<data::Conversation>(record.prompt), *chat_template_, tokenizer_,
                     place);
}

Prompt PromptWriter::checked(Prompt prompt, int64_t others, const std::string& place) const {
  std::ranges::copy(eos_of_model_, std::back_inserter(prompt.end_tokens));
  if (prompt.tokens.empty())
    throw ConfigError(place + ": found no token to go on from, expected some text");
  if (const int32_t largest = std::ranges::max(prompt.tokens); largest >= config_.model.vocabulary)
    throw ConfigError(fmt::format("{}: found the token {}, expected ids below {}, the vocab_size",
                                  place, largest, config_.model.vocabulary));
  if (std::ssize(prompt.tokens) > sample_capacity(config_))
    throw ConfigError(fmt::format("{}: found {}, expected at most {}, for max_target_length = {}",
                                  place, plural(std::ssize(prompt.tokens) - others, "token"),
                                  sample_capacity(config_) - others, config_.max_target_length));
  return prompt;
}

}  // namespace longshore::trainer
