#include "longshore/trainer/step/decoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "longshore/base/error.h"
#include "longshore/models/families/vision.h"
#include "longshore/trainer/step/batch_arguments.h"
#include "longshore/trainer/step/step_plans.h"
#include "longshore/trainer/weights/read_floats.h"
#include "longshore/trainer/weights/stored_as.h"

namespace longshore::trainer {
namespace {

std::string input_name(const offload::Plan& plan, const std::string& input) {
  return offload::host_name(plan.name + "." + input);
}

// Of each position the first and the last of its block, or twice itself where it is in none.
std::vector<int32_t> spans_of(const std::vector<int32_t>& blocks) {
  std::vector<int32_t> spans;
  for (size_t first = 0, end = 1; first < blocks.size(); first = end++) {
    while (blocks[first] > 0 && end < blocks.size() && blocks[end] == blocks[first]) ++end;
    for (size_t i = first; i < end; ++i)
      spans.insert(spans.end(), {static_cast<int32_t>(first), static_cast<int32_t>(end - 1)});
  }
  return spans;
}

}  // namespace

std::vector<const offload::Plan*> DecodingPlans::all() const {
  std::vector<const offload::Plan*> plans;
  for (const Run& run : runs) plans.push_back(&run.plan);
  return plans;
}

DecodingPlans plan_decoding(models::DecoderConfig model, const offload::ParameterLayout& layout,
                            int64_t capacity, std::span<const int64_t> lengths,
                            const offload::Transfers& transfers, models::Target target) {
  model.batch = 1;
  model.segments = false;
  DecodingPlans plans{.model = model, .capacity = capacity, .runs = {}};
  std::set<int64_t, std::greater<>> all(lengths.begin(), lengths.end());
  all.insert(1);
  for (int64_t tokens : all) {
    model.length = tokens;
    if (model.vision && tokens == 1) model.vision->images = 0;
    const models::Model decoder = stored_as(layout, models::cached_decoder(model, capacity));
    std::string name = tokens == 1 ? "decode" : fmt::format("prefill.{}", tokens);
    offload::Plan plan = plan_forward(decoder, layout, name, transfers, target);
    rename_batch(plan, decoder, [&](const std::string& input) { return input_name(plan, input); });
    plans.runs.push_back({tokens, std::move(plan)});
  }
  return plans;
}

Decoding::Decoding(const DecodingPlans& plans, offload::Backend& backend,
                   offload::Arguments& arguments, const offload::Arenas& arenas)
    : plans_(plans), backend_(backend), arguments_(arguments) {
  for (const DecodingPlans::Run& run : plans.runs)
    executables_.push_back(
        std::make_unique<offload::Executable>(run.plan, backend, arguments, arenas));
  // A cache's rows must hold numbers from the beginning.
  for (const offload::Buffer& buffer : plans.runs[0].plan.buffers)
    if (buffer.category == offload::Category::cache) arguments.write_zeros(buffer.name);
}

void Decoding::run(size_t index, std::span<const int32_t> tokens, const data::Batch& others,
                   offload::Ledger& ledger) {
  const offload::Plan& plan = plans_.runs[index].plan;
  data::Batch batch = others;
  batch[data::kTokens].assign(tokens.begin(), tokens.end());
  batch[data::kPositions].resize(tokens.size());
  std::iota(batch[data::kPositions].begin(), batch[data::kPositions].end(),
            static_cast<int32_t>(length_));
  batch["rows"] = {static_cast<int32_t>(tokens.size() - 1)};
  for (const auto& [input, held] : batch.inputs)
    if (const std::string name = input_name(plan, input); arguments_.has(name))
      std::visit(
          [&](const auto& values) {
            arguments_.write(name, values.data(),
                             static_cast<int64_t>(values.size() * sizeof values[0]));
          },
          held);
  executables_[index]->run(ledger);
  backend_.synchronize();
  length_ += std::ssize(tokens);
}

void Decoding::require_room(int64_t tokens) const {
  if (tokens > room())
    throw Error(fmt::format("a text of {} tokens: found {} more, expected at most {}", length_,
                            tokens, room()));
}

std::vector<float> Decoding::logits() const {
  return read_floats(arguments_, offload::host_name("output.0"),
                     {{plans_.model.vocabulary}, plans_.model.dtype});
}

std::vector<float> Decoding::append(std::span<const int32_t> tokens, offload::Ledger& ledger) {
  require_room(std::ssize(tokens));
  while (!tokens.empty()) {
    size_t fits = 0;
    while (plans_.runs[fits].tokens > std::ssize(tokens)) ++fits;
    const auto count = static_cast<size_t>(plans_.runs[fits].tokens);
    run(fits, tokens.first(count), {}, ledger);
    tokens = tokens.subspan(count);
  }
  return logits();
}

std::vector<float> Decoding::append_prompt(const data::Batch& prompt, offload::Ledger& ledger) {
  const std::vector<int32_t>& tokens = prompt[data::kTokens];
  require_room(std::ssize(tokens));
  if (length_ != 0 || std::ssize(tokens) != plans_.runs[0].tokens)
    throw InternalError("a prompt of another length than was planned");
  data::Batch inputs = prompt;
  inputs[models::kSpans] = spans_of(prompt[data::kBlocks]);
  run(0, tokens, inputs, ledger);
  return logits();
}

}  // namespace longshore::trainer
