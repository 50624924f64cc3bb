#include "trainer/evaluate.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "offload/scan.h"
#include "trainer/read_floats.h"
#include "trainer/step.h"

namespace longshore::trainer {
namespace {

// An index drawn with probability proportional to exp(logit / temperature).
int32_t draw(const std::vector<float>& logits, double temperature, uint32_t random) {
  float largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> cumulative;
  double sum = 0;
  for (float logit : logits) {
    sum += std::exp((logit - largest) / temperature);
    cumulative.push_back(sum);
  }
  double at = sum * (random / 4294967296.0);
  auto found = std::upper_bound(cumulative.begin(), cumulative.end(), at);
  return static_cast<int32_t>(std::min<size_t>(found - cumulative.begin(), logits.size() - 1));
}

}  // namespace

double evaluate(offload::Executable& plan, const data::BatchSource& batches, int64_t count,
                offload::Backend& backend, offload::Arguments& arguments, offload::Ledger& ledger) {
  double loss = 0;
  int64_t weights = 0;
  for (int64_t i = 0; i < count; ++i) {
    data::Batch batch = batches(i);
    write_batch(batch, arguments);
    plan.run(ledger);
    backend.synchronize();
    float batch_loss;
    arguments.read(offload::host_name(offload::kLoss), &batch_loss, sizeof batch_loss);
    loss += batch_loss;
    weights += batch.total_weights;
  }
  return loss / weights;
}

std::string sample(offload::Executable& plan, const SampleOptions& options,
                   const data::Tokenizer& tokenizer, const models::DecoderConfig& model,
                   offload::Backend& backend, offload::Arguments& arguments,
                   offload::Ledger& ledger) {
  // As in training text, a document follows the end of another.
  std::vector<int32_t> text{std::max(tokenizer.eos_id(), 0)};
  for (int32_t token : tokenizer.encode(options.prompt)) text.push_back(token);
  data::Batch window{.shape = {model.batch, model.length}};
  window.targets.assign(model.batch * model.length, data::kIgnoredTarget);
  window.segments.assign(model.batch * model.length, data::kPadding);
  for (int64_t i = 0; i < model.batch * model.length; ++i)
    window.positions.push_back(static_cast<int32_t>(i % model.length));
  for (int64_t token = 0; token < options.tokens; ++token) {
    // The last tokens; what follows them in the window is not seen by causal attention.
    size_t seen = std::min<size_t>(text.size(), model.length);
    window.tokens.assign(text.end() - seen, text.end());
    window.tokens.resize(model.batch * model.length);
    write_batch(window, arguments);
    int32_t row = static_cast<int32_t>(seen - 1);
    arguments.write(offload::host_name("rows"), &row, sizeof row);
    plan.run(ledger);
    backend.synchronize();

    std::vector<float> logits =
        read_floats(arguments, offload::host_name("output.0"), {{model.vocabulary}, model.dtype});
    uint32_t random = philox(options.seed, RandomUse::kSampling, 0, token)[0];
    int32_t next = draw(logits, options.temperature, random);
    if (next == tokenizer.eos_id() || next >= tokenizer.vocab_size()) break;
    text.push_back(next);
  }
  return tokenizer.decode(text);
}

}  // namespace longshore::trainer
