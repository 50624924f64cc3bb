#include "trainer/step/decoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "base/error.h"
#include "trainer/step/batch_arguments.h"
#include "trainer/step/step_plans.h"
#include "trainer/weights/read_floats.h"

namespace longshore::trainer {
namespace {

std::string input_name(const offload::Plan& plan, const std::string& input) {
  return offload::host_name(plan.name + "." + input);
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
    models::Model decoder = models::cached_decoder(model, capacity);
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

std::vector<float> Decoding::append(std::span<const int32_t> tokens, offload::Ledger& ledger) {
  if (std::ssize(tokens) > room())
    throw Error(fmt::format("a text of {} tokens: found {} more, expected at most {}", length_,
                            tokens.size(), room()));
  while (!tokens.empty()) {
    size_t fits = 0;
    while (plans_.runs[fits].tokens > std::ssize(tokens)) ++fits;
    const auto& [count, plan] = plans_.runs[fits];
    std::vector<int32_t> positions(static_cast<size_t>(count));
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(length_));
    auto write = [&](const char* input, std::span<const int32_t> values) {
      arguments_.write(input_name(plan, input), values.data(),
                       static_cast<int64_t>(values.size_bytes()));
    };
    const int32_t last = static_cast<int32_t>(count - 1);
    write("tokens", tokens.first(positions.size()));
    write("positions", positions);
    write("rows", {&last, 1});
    executables_[fits]->run(ledger);
    backend_.synchronize();
    tokens = tokens.subspan(positions.size());
    length_ += count;
  }
  return read_floats(arguments_, offload::host_name("output.0"),
                     {{plans_.model.vocabulary}, plans_.model.dtype});
}

}  // namespace longshore::trainer
