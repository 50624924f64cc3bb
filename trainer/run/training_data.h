// TrainingData holds what a run reads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/rows/batches.h"
#include "data/rows/streamed_rows.h"
#include "data/rows/token_file.h"
#include "data/tokenizers/tokenizer.h"
#include "trainer/config/config.h"
#include "trainer/decoding/prompt.h"

namespace longshore::trainer {

struct TrainingData {
  data::BatchSource training;
  // What `training` reads where files are opened as their rows are needed (shuffle_window); their
  // shards are numbered as `identity` is.
  std::vector<std::shared_ptr<data::StreamedRows>> streams;
  int64_t steps = 0;  // that a run on it takes: num_epoch's, or the config's
  // That are open from the start: of training, then of validation.
  std::vector<std::shared_ptr<const data::TokenFile>> files;
  std::vector<std::string> identity;  // of each file to train on: its tokens and its weight
  data::BatchSource validation;       // where there is text held out
  int64_t validation_batches = 0;
  std::optional<double> unigram_loss;  // where all training text is there before the first step
  // Where text is read or sampled, or tokens are added.
  std::shared_ptr<const data::Tokenizer> tokenizer;
  std::optional<data::ChatTemplate> chat_template;  // where one has written any of it
  Prompt sample_prompt;                             // where text is sampled
};

// Opens the data of the process `rank`, in batches of the schema. Text is tokenized into
// base_output_directory/tokens first, unless it is there already, which may take a while; with
// shuffle_window this is done file by file while training reads, and what is wrong with a file is
// thrown there. `log` gets lines on what is done and what was found, then also on other threads.
// Throws ConfigError and DataError.
TrainingData open_data(const Config& config, const data::BatchSchema& schema, const Log& log,
                       data::Rank rank = {});

// Of the shards that were opened up to now, by number.
std::vector<data::ShardRecord> shard_records(const TrainingData& data);

}  // namespace longshore::trainer
