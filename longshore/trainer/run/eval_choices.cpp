#include "longshore/trainer/run/eval_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/data/text/choice_record.h"
#include "longshore/data/text/encode_choices.h"

namespace longshore::trainer {

EvalChoices read_eval_choices(const Config& config, int32_t opening,
                              const data::Tokenizer& tokenizer, int64_t sequences_per_row) {
  constexpr int64_t kMostTokens = int64_t{1} << 26;  // which stay in memory: 256 MiB
  const std::string key = location(config, "eval_choices_path");
  EvalChoices read;
  std::vector<data::ScoredSequence> sequences;
  int64_t tokens = 0;
  const auto add = [&](data::EncodedChoice choice, const std::string& place) {
    std::vector<int32_t>& ids = choice.sequence.tokens;
    tokens += std::ssize(ids);
    if (tokens > kMostTokens)
      throw ConfigError(
          fmt::format("{}: found more than {} tokens up to here, expected fewer; "
                      "nearest: the first questions in a file of their own",
                      place, kMostTokens));
    if (const int32_t largest = std::ranges::max(ids); largest >= config.model.vocabulary)
      throw ConfigError(fmt::format("{}: found the token {}, expected ids below {}, the vocab_size",
                                    place, largest, config.model.vocabulary));
    read.questions.back().choices.push_back(
        {.characters = choice.characters, .bytes = choice.bytes});
    read.cut += choice.is_cut;
    sequences.push_back(std::move(choice.sequence));
  };
  data::read_choices(config.eval_choices_path,
                     [&](const data::ChoiceRecord& record, const std::string& at) {
                       const std::string place = key + ": " + at;
                       read.questions.push_back({.choices = {}, .answer = record.answer});
                       try {
                         for (data::EncodedChoice& choice :
                              encode_choices(record, opening, tokenizer, config.max_target_length))
                           add(std::move(choice), place);
                       } catch (const DataError& error) {
                         throw DataError(place + ": " + error.what());
                       }
                     });
  if (read.questions.empty())
    throw ConfigError(key + ": " + path_text(config.eval_choices_path) +
                      ": found no question, expected some");
  read.rows = std::make_shared<const data::ScoredRows>(
      std::move(sequences), data::ScoredRowsOptions{.length = config.max_target_length,
                                                    .sequences_per_row = sequences_per_row});
  return read;
}

}  // namespace longshore::trainer
