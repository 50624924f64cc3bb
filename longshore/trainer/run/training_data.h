// TrainingData holds what a run reads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "longshore/base/log.h"
#include "longshore/data/rows/batches.h"
#include "longshore/data/rows/streamed_rows.h"
#include "longshore/data/rows/token_file.h"
#include "longshore/data/tokenizers/tokenizer.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/decoding/prompt.h"
#include "longshore/trainer/run/eval_choices.h"
#include "longshore/trainer/run/prompt_writer.h"

namespace longshore::trainer {

// Rows one after the other.
struct RowsInOrder {
  data::BatchSource batches;
  data::BatchSource of_others;  // the same with Answers::of_others; where answers are counted
  int64_t count = 0;            // of these batches, that are read
};

// Text that is held out, and evaluated by itself.
struct ValidationSet : RowsInOrder {
  std::string name;  // "" of one alone that was given none
};

// Questions of multiple choice, and the batches with their choices.
struct OpenedChoices {
  EvalChoices asked;
  data::BatchSource batches;
  int64_t count = 0;
};

struct TrainingData {
  data::BatchSource training;
  // The same rows with Answers::of_others; where answers are counted.
  data::BatchSource training_of_others;
  // The same rows, each once; where a reference is precomputed of them.
  std::optional<RowsInOrder> each_row;
  // What `training` reads where files are opened as their rows are needed (shuffle_window); their
  // shards are numbered as `identity` is.
  std::vector<std::shared_ptr<data::StreamedRows>> streams;
  int64_t steps = 0;  // that a run on it takes: num_epoch's, or the config's
  // That are open from the start: of training, then of validation.
  std::vector<std::shared_ptr<const data::TokenFile>> files;
  std::vector<std::string> identity;  // of each file to train on: its tokens and its weight
  std::vector<ValidationSet> validation;
  // Of all these sets together, where targets are counted and all training text is there before the
  // first step.
  std::optional<double> unigram_loss;
  // Where text is read or sampled, or tokens are added.
  std::shared_ptr<const data::Tokenizer> tokenizer;
  std::optional<data::ChatTemplate> chat_template;  // where one has written any of it
  Prompt sample_prompt;                             // where text is sampled
  std::vector<EvalPrompt> eval_prompts;             // of eval_prompts_path
  std::optional<OpenedChoices> choices;             // of eval_choices_path
};

// Opens the data of the process `rank`, in batches of the schema, as the objective reads them. Text
// is tokenized into base_output_directory/tokens first, unless it is there already, which may take
// a while; with shuffle_window this is done file by file while training reads, and what is wrong
// with a file is thrown there. `log` gets lines on what is done and what was found, then also on
// other threads. Throws ConfigError and DataError.
TrainingData open_data(const Config& config, const data::BatchSchema& schema, const Log& log,
                       data::Rank rank = {});

// Of the shards that were opened up to now, by number.
std::vector<data::ShardRecord> shard_records(const TrainingData& data);

}  // namespace longshore::trainer
