#include "trainer/run/run_evaluation.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "data/tokenizers/text_stream.h"
#include "trainer/decoding/continuation.h"
#include "trainer/distributed/sum_over.h"
#include "trainer/run/evaluate.h"

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
  if (plans.sample) decoding_ = session.decoding(*plans.sample);
}

std::optional<Validation> RunEvaluation::evaluate(const std::function<bool()>& stops) {
  LossSum all;
  Validation validation{.unigram_loss = data_.unigram_loss, .sets = {}, .rewards = {}};
  for (const ValidationSet& set : data_.validation) {
    const std::optional<LossSum> sum =
        trainer::evaluate(*validation_, *inputs_,
                          {.batches = set.batches, .of_others = set.of_others, .count = set.count},
                          backend_, session_.arguments(), session_.ledger(), world_, stops);
    if (!sum) return std::nullopt;
    all.add(*sum);
    if (!set.name.empty()) validation.sets.push_back({set.name, sum->mean()});
  }
  validation.loss = all.mean();
  validation.rewards = all.rewards;
  return validation;
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
  for (size_t i = 0; i < data_.eval_prompts.size(); ++i) {
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
