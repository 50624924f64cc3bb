// Loss on held-out text, and text from the model: forward plans on the weights being trained.
#pragma once

#include <string>

#include "data/batches.h"
#include "data/tokenizer.h"
#include "models/decoder.h"
#include "offload/executor.h"

namespace longshore::trainer {

// Nats a token over the micro-batches [0, count) of `batches`.
double evaluate(offload::Executable& plan, const data::BatchSource& batches, int64_t count,
                offload::Backend& backend, offload::Arguments& arguments, offload::Ledger& ledger);

struct SampleOptions {
  std::string prompt;
  int64_t tokens = 0;  // at most; the text ends early at the tokenizer's end of document
  uint64_t seed = 0;
  double temperature = 0.8;
};

// The prompt and its continuation. The plan gives logits of one position; each token runs it over
// the whole batch, of which only the first row is read.
std::string sample(offload::Executable& plan, const SampleOptions& options,
                   const data::Tokenizer& tokenizer, const models::DecoderConfig& model,
                   offload::Backend& backend, offload::Arguments& arguments,
                   offload::Ledger& ledger);

}  // namespace longshore::trainer
