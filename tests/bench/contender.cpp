#include "tests/bench/contender.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "longshore/base/timing.h"
#include "longshore/trainer/config/load_config.h"

namespace longshore::bench {

Contender::Contender(const trainer::Config& config, offload::Backend& backend)
    : plans_(trainer::plan_training({config, backend.target()})),
      session_(plans_, backend, first_values(config, plans_, backend.target())) {
  data::BatchSource source =
      data::synthetic_batches({config.per_device_batch_size, config.max_target_length},
                              static_cast<int32_t>(config.model.vocabulary), 0);
  for (int64_t i = 0; i < config.gradient_accumulation_steps; ++i) batches_.push_back(source(i));
}

double Contender::step() {
  auto start = std::chrono::steady_clock::now();
  loss_ = session_.step().run(batches_, next(), session_.ledger()).loss;
  return seconds_since(start);
}

std::vector<offload::Event> Contender::record() {
  std::vector<offload::Event> events;
  session_.step().record(batches_, next(), session_.ledger(), events);
  return events;
}

trainer::StepScalars Contender::next() { return {.learning_rate = 1e-4, .number = ++number_}; }

trainer::Config llama(const Size& size, const std::string& dtype,
                      const std::vector<std::string>& keys) {
  std::string text = fmt::format(
      "base_emb_dim: {0}\nbase_num_decoder_layers: {1}\nbase_num_query_heads: {2}\n"
      "base_num_kv_heads: {3}\nhead_dim: 64\nbase_mlp_dim: {4}\nvocab_size: {5}\n"
      "max_target_length: {6}\nper_device_batch_size: {7}\ndtype: {8}\nbackend: cpu\n",
      size.width, size.layers, size.width / 64, std::max<int64_t>(1, size.width / 256), size.ffn,
      size.vocabulary, size.length, size.batch, dtype);
  if (size.experts > 0)
    text += fmt::format("model_type: mixtral\nnum_experts: {}\nnum_experts_per_tok: {}\n",
                        size.experts, size.experts_per_token);
  return trainer::load_config_text(text, "bench.yml", keys, trainer::default_configs_directory());
}

std::map<std::pair<offload::Lane, std::string>, double> seconds_by_op(
    const std::vector<offload::Event>& events) {
  std::map<std::pair<offload::Lane, std::string>, double> seconds;
  for (const offload::Event& event : events)
    seconds[{event.lane, event.op}] += event.span.end - event.span.begin;
  return seconds;
}

}  // namespace longshore::bench
