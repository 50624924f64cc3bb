#include "trainer/run/run_evaluation.h"

#include <vector>

#include "trainer/decoding/continuation.h"
#include "trainer/run/evaluate.h"

namespace longshore::trainer {

RunEvaluation::RunEvaluation(const Config& config, const TrainingPlans& plans,
                             const TrainingData& data, offload::Backend& backend,
                             TrainingSession& session, World& world)
    : config_(config), data_(data), backend_(backend), session_(session), world_(world) {
  if (plans.evaluate) validation_ = session.executable(*plans.evaluate);
  if (plans.sample) decoding_ = session.decoding(*plans.sample);
}

std::optional<Validation> RunEvaluation::evaluate(const std::function<bool()>& stops) {
  LossSum all;
  Validation validation{.unigram_loss = data_.unigram_loss, .sets = {}};
  for (const ValidationSet& set : data_.validation) {
    const std::optional<LossSum> sum =
        trainer::evaluate(*validation_, set.batches, set.count, backend_, session_.arguments(),
                          session_.ledger(), world_, stops);
    if (!sum) return std::nullopt;
    all.nats += sum->nats;
    all.tokens += sum->tokens;
    if (!set.name.empty()) validation.sets.push_back({set.name, sum->mean()});
  }
  validation.loss = all.mean();
  return validation;
}

std::string RunEvaluation::sample() {
  const data::Tokenizer& tokenizer = *data_.tokenizer;
  const ContinuationOptions options{.max_tokens = config_.sample_tokens,
                                    .vocabulary = tokenizer.vocab_size(),
                                    .end_tokens = data_.sample_prompt.end_tokens,
                                    .sampling = {.seed = static_cast<uint64_t>(config_.seed)}};
  std::vector<int32_t> text = data_.sample_prompt.tokens;
  const std::vector<int32_t> more =
      continue_text(*decoding_, data_.sample_prompt, options, session_.ledger());
  text.insert(text.end(), more.begin(), more.end());
  return tokenizer.decode(text);
}

}  // namespace longshore::trainer
