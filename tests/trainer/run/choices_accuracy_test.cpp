// Against lm-evaluation-harness's scores of the same questions.
#include "longshore/trainer/run/choices_accuracy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "longshore/data/rows/batches.h"
#include "longshore/data/rows/scored_rows.h"
#include "longshore/models/families/decoder.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/execution/executor.h"
#include "longshore/offload/lowering/scan.h"
#include "longshore/trainer/step/batch_arguments.h"
#include "longshore/trainer/step/step_plans.h"
#include "longshore/trainer/weights/folder_model.h"
#include "longshore/trainer/weights/load_parameters.h"
#include "longshore/trainer/weights/read_floats.h"
#include "tests/data/temporary_folder.h"

namespace longshore::trainer {
namespace {

using nlohmann::json;

const std::filesystem::path kGolden = "tests/goldens/lm_eval";

json golden() { return json::parse(data::read_file(kGolden / "golden.json")); }

// Questions with the golden's log-likelihoods.
std::vector<ScoredQuestion> scored(const json& description) {
  std::vector<ScoredQuestion> questions;
  for (size_t i = 0; i < description["items"].size(); ++i) {
    ScoredQuestion& question = questions.emplace_back();
    question.answer = description["items"][i]["gold"];
    for (const json& choice : description["results"][i]["choices"])
      question.choices.push_back({.log_likelihood = choice["loglikelihood"],
                                  .characters = choice["characters"],
                                  .bytes = choice["bytes"]});
  }
  return questions;
}

TEST(ChoicesAccuracy, IsThatOfTheHarness) {
  const json description = golden();
  const std::vector<ScoredQuestion> questions = scored(description);
  const json& totals = description["totals"];
  const ChoicesAccuracy all = choices_accuracy(questions);
  EXPECT_EQ(all.by_likelihood, totals["acc"].get<double>());
  EXPECT_EQ(all.by_characters, totals["acc_norm"].get<double>());
  EXPECT_EQ(all.by_bytes, totals["acc_bytes"].get<double>());
  EXPECT_NE(all.by_characters, all.by_bytes);
  for (size_t i = 0; i < questions.size(); ++i) {
    const ChoicesAccuracy one = choices_accuracy({&questions[i], 1});
    const json& result = description["results"][i];
    EXPECT_EQ(one.by_likelihood, result["acc"].get<double>()) << i;
    EXPECT_EQ(one.by_characters, result["acc_norm"].get<double>()) << i;
    EXPECT_EQ(one.by_bytes, result["acc_bytes"].get<double>()) << i;
  }
  ScoredQuestion question{.choices = {{.log_likelihood = -1}, {.log_likelihood = -1}}};
  EXPECT_EQ(choices_accuracy({&question, 1}).by_likelihood, 1);  // the first of equal ones
  question.answer = 1;
  EXPECT_EQ(choices_accuracy({&question, 1}).by_likelihood, 0);
  question.choices[1].log_likelihood = NAN;
  EXPECT_EQ(choices_accuracy({&question, 1}).by_likelihood, 0);
}

// Log-likelihoods of sequences that are packed into rows, by the logits there.
TEST(ChoicesAccuracy, PackedSequencesHaveTheHarnesssLogLikelihoods) {
  const json description = golden();
  std::vector<data::ScoredSequence> sequences;
  std::vector<double> expected;
  for (size_t i = 0; i < description["items"].size(); ++i)
    for (size_t c = 0; c < description["items"][i]["choices"].size(); ++c) {
      data::ScoredSequence sequence{.tokens = description["items"][i]["context"]};
      sequence.context = std::ssize(sequence.tokens);
      for (const json& id : description["items"][i]["choices"][c]["ids"])
        sequence.tokens.push_back(id);
      sequences.push_back(std::move(sequence));
      expected.push_back(description["results"][i]["choices"][c]["loglikelihood"]);
    }
  models::DecoderConfig model = read_folder_model(kGolden, "");
  model.batch = 2;
  model.length = 32;
  model.segments = true;
  const auto rows = std::make_shared<const data::ScoredRows>(
      sequences, data::ScoredRowsOptions{.length = model.length, .sequences_per_row = 3});
  ASSERT_LT(rows->count(), std::ssize(sequences) / 2);
  const models::Model decoder = models::decoder(model, {.head = models::Head::hidden_states});
  const auto backend = offload::make_cpu_backend();
  const offload::ParameterLayout layout = offload::lay_out(decoder);
  const offload::Plan plan = plan_forward(decoder, layout, "states", {}, models::Target::cpu);
  offload::Ledger ledger;
  offload::Arguments arguments(*backend, ledger);
  load_weights({.folder = kGolden}, model, layout, arguments, Copies::compute);
  offload::Arenas arenas(*backend, {&plan});
  offload::Executable executable(plan, *backend, arguments, arenas);
  const data::BatchSchema schema = batch_schema(decoder, {model.batch, model.length});
  const data::BatchSource batches = data::sequential_batches(rows, schema);
  std::map<std::pair<int64_t, int32_t>, double> found;  // by row and segment
  for (int64_t i = 0; i < data::sequential_batch_count(*rows, schema.shape); ++i) {
    const data::Batch batch = batches(i);
    write_batch(batch, arguments);
    executable.run(ledger);
    backend->synchronize();
    const std::vector<float> logits =
        read_floats(arguments, offload::host_name("output.1"),
                    {{model.batch, model.length, model.vocabulary}, models::Dtype::float32});
    for (size_t at = 0; at < batch[data::kTargets].size(); ++at) {
      const int32_t target = batch[data::kTargets][at];
      if (target == data::kIgnoredTarget) continue;
      const auto row = std::span(logits).subspan(at * static_cast<size_t>(model.vocabulary),
                                                 static_cast<size_t>(model.vocabulary));
      double sum = 0;
      for (const float logit : row) sum += std::exp(double{logit});
      found[{i * model.batch + static_cast<int64_t>(at) / model.length,
             batch[data::kSegments][at]}] += row[static_cast<size_t>(target)] - std::log(sum);
    }
  }
  ASSERT_EQ(found.size(), sequences.size());
  const json& tolerance = description["tolerances"]["loglikelihood"];
  const double most = std::abs(std::ranges::min(expected));
  for (size_t i = 0; i < sequences.size(); ++i) {
    const data::ScoredRows::Place& place = rows->places()[i];
    EXPECT_NEAR(found.at({place.row, place.segment}), expected[i],
                tolerance["abs"].get<double>() + tolerance["rel"].get<double>() * most)
        << i;
  }
}

}  // namespace
}  // namespace longshore::trainer
