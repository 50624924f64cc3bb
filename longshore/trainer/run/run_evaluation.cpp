#include "longshore/trainer/run/run_evaluation.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "longshore/base/progress.h"
#include "longshore/data/tokenizers/text_stream.h"
#include "longshore/trainer/config/objective.h"
#include "longshore/trainer/decoding/continuation.h"
#include "longshore/trainer/distributed/sum_over.h"
#include "longshore/trainer/run/evaluate.h"
#include "longshore/trainer/step/batch_arguments.h"

namespace longshore::trainer {

RunEvaluation::RunEvaluation(const Config& config, const TrainingPlans& plans,
                             const TrainingData& data, offload::Backend& backend,
                             TrainingSession& session, World& world)
    : config_(config), data_(data), backend_(backend), session_(session), world_(world) {
  if (plans.evaluate) {
    validation_ = session.executable(*plans.evaluate);
    inputs_ = session.inputs(plans.step);
    inputs_->set_sum_over_devices(sum_over(world));
  }
  if (plans.choices) choices_ = session.executable(*plans.choices);
  if (plans.sample) decoding_ = session.decoding(*plans.sample);
}

std::optional<Validation> RunEvaluation::evaluate(const std::function<bool()>& stops) {
  LossSum all;
  Validation validation{.loss = {},
                        .is_cross_entropy = config_.objective == Objective::sft,
                        .unigram_loss = data_.unigram_loss,
                        .sets = {},
                        .rewards = {},
                        .choices = {}};
  for (const ValidationSet& set : data_.validation) {
    const std::optional<LossSum> sum =
        trainer::evaluate(*validation_, *inputs_, set, backend_, session_.arguments(),
                          session_.ledger(), world_, stops);
    if (!sum) return std::nullopt;
    all.add(*sum);
    if (!set.name.empty()) validation.sets.push_back({set.name, sum->mean()});
  }
  if (validation_) validation.loss = all.mean();
  validation.rewards = all.rewards;
  if (!choices_) return validation;
  validation.choices = ask_choices(stops);
  return validation.choices ? std::optional(validation) : std::nullopt;
}

std::optional<ChoicesAccuracy> RunEvaluation::ask_choices(const std::function<bool()>& stops) {
  const OpenedChoices& choices = *data_.choices;
  const std::vector<data::ScoredRows::Place>& places = choices.asked.rows->places();
  std::vector<std::vector<size_t>> sequences(static_cast<size_t>(choices.asked.rows->count()));
  for (size_t i = 0; i < places.size(); ++i)
    sequences[static_cast<size_t>(places[i].row)].push_back(i);
  std::vector<double> log_likelihoods(places.size());
  Progress progress("asking questions", choices.count);
  for (int64_t i = 0; i < choices.count; ++i, progress.add()) {
    if (stops()) return std::nullopt;
    const data::Batch batch = choices.batches(i);
    const auto [rows, length] = batch.shape;
    write_batch(batch, session_.arguments());
    choices_->run(session_.ledger());
    backend_.synchronize();
    const std::vector<float> log_probs = read_log_probs(session_.arguments(), rows * length);
    const int64_t first = (i * world_.size() + world_.rank()) * rows;
    for (int64_t row = 0; row < rows && first + row < std::ssize(sequences); ++row)
      for (const size_t sequence : sequences[static_cast<size_t>(first + row)])
        log_likelihoods[sequence] =
            log_probs[static_cast<size_t>(row * length + places[sequence].segment - 1)];
  }
  sum_over(world_)(log_likelihoods);
  std::vector<ScoredQuestion> questions = choices.asked.questions;
  auto next = log_likelihoods.begin();
  for (ScoredQuestion& question : questions)
    for (ScoredChoice& choice : question.choices) choice.log_likelihood = *next++;
  return choices_accuracy(questions);
}

std::vector<int32_t> RunEvaluation::continuation(const Prompt& prompt, size_t index) {
  decoding_->restart();
  return continue_text(*decoding_, prompt,
                       {.max_tokens = config_.sample_tokens,
                        .vocabulary = data_.tokenizer->vocab_size(),
                        .end_tokens = prompt.end_tokens,
                        .sampling = {.temperature = config_.sample_temperature,
                                     .top_k = config_.sample_top_k,
                                     .top_p = config_.sample_top_p,
                                     .seed = static_cast<uint64_t>(config_.seed) + index}},
                       session_.ledger());
}

std::string RunEvaluation::sample() {
  std::vector<int32_t> text = data_.sample_prompt.tokens;
  const std::vector<int32_t> more = continuation(data_.sample_prompt, 0);
  text.insert(text.end(), more.begin(), more.end());
  return data_.tokenizer->decode(text);
}

std::optional<std::string> RunEvaluation::sample_prompts(const std::function<bool()>& stops) {
  std::string lines;
  Progress progress("continuing prompts", std::ssize(data_.eval_prompts));
  for (size_t i = 0; i < data_.eval_prompts.size(); ++i, progress.add()) {
    if (stops()) return std::nullopt;
    const EvalPrompt& prompt = data_.eval_prompts[i];
    nlohmann::ordered_json line = prompt.record.json();
    try {
      data::TextStream stream(*data_.tokenizer, prompt.prompt.tokens);
      std::string text;
      for (int32_t token : continuation(prompt.prompt, i)) text += stream.add(token);
      line["text"] = text + stream.finish();
    } catch (const NonFiniteLogit&) {  // which ends no training
      line["text"] = nullptr;
    }
    lines += line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }
  return lines;
}

}  // namespace longshore::trainer
