// Preference losses, rewards and gradients against TRL's on transformers' models, by every kind of
// reference, packing and micro-batches.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <numeric>

#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/config/objective.h"
#include "longshore/trainer/step/batch_arguments.h"
#include "longshore/trainer/step/reference.h"
#include "longshore/trainer/step/training_session.h"
#include "longshore/trainer/weights/load_parameters.h"
#include "longshore/trainer/weights/read_floats.h"
#include "tests/trainer/golden.h"
#include "tests/trainer/target_here.h"

namespace longshore::trainer {
namespace {

using nlohmann::json;

struct Sequence {
  std::vector<int32_t> prompt, answer;
};

// Two pairs a row, of the longest of which all rows are.
constexpr int64_t kLength = 45;

void put(data::Batch& batch, int64_t row, int64_t at, int32_t segment, const Sequence& sequence) {
  std::vector<int32_t> tokens = sequence.prompt;
  tokens.insert(tokens.end(), sequence.answer.begin(), sequence.answer.end());
  std::vector<uint8_t> carries_loss(sequence.prompt.size(), 0);
  carries_loss.resize(tokens.size(), 1);
  data::Row(batch, row).put(at, segment, tokens, carries_loss);
}

Sequence sequence_of(const json& pair, const char* answer) {
  return {pair["prompt"], pair[answer]};
}

// Micro-batches of so many rows with pairs, of which a step has all.
std::vector<data::Batch> batches_of(const std::vector<std::array<Sequence, 2>>& pairs,
                                    const data::BatchSchema& schema, int64_t pairs_of_row,
                                    bool counts_answers) {
  std::vector<data::Batch> batches;
  int64_t row = schema.shape.rows, at = 0;
  int32_t segment = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (i % static_cast<size_t>(pairs_of_row) == 0) {
      if (++row >= schema.shape.rows) {
        batches.push_back(data::padding(schema));
        row = 0;
      }
      at = 0;
      segment = 0;
    }
    data::Batch& batch = batches.back();
    for (const Sequence& sequence : pairs[i]) {
      put(batch, row, at, ++segment, sequence);
      at += std::ssize(sequence.prompt) + std::ssize(sequence.answer) - 1;
    }
    batch.total_weights += counts_answers ? 2 : 1;
    const bool learns_prompts = batch.has(models::kNextTokens);
    batch.chosen_targets +=
        std::ssize(pairs[i][0].answer) + (learns_prompts ? std::ssize(pairs[i][0].prompt) - 1 : 0);
  }
  return batches;
}

std::vector<std::array<Sequence, 2>> pairs_of(const json& golden) {
  std::vector<std::array<Sequence, 2>> pairs;
  for (const json& pair : golden["pairs"])
    pairs.push_back({sequence_of(pair, "chosen"), sequence_of(pair, "rejected")});
  return pairs;
}

// The golden's, which has chosen answers first.
std::vector<std::array<Sequence, 2>> mismatched_of(const json& golden) {
  std::vector<std::array<Sequence, 2>> pairs;
  const json& all = golden["kl_pairs"];
  const size_t count = all.size() / 2;
  for (size_t i = 0; i < count; ++i)
    pairs.push_back({sequence_of(all[i], "completion"), sequence_of(all[count + i], "completion")});
  return pairs;
}

struct Found {
  double loss = 0, sft_loss = 0;
  Rewards rewards;
  std::map<std::string, std::vector<float>> gradients;  // by parameter
};

// A step without an update.
Found run_step(const std::string& keys, const json& golden, int64_t pairs_of_row, int64_t rows,
               int64_t micro_batches) {
  const std::filesystem::path configs = default_configs_directory();
  const Config config = load_config_text(
      keys + "dataset_type: documents\ndataset_path: pairs.tokens\ndtype: float32\n" +
          "max_target_length: " + std::to_string(kLength) +
          "\nper_device_batch_size: " + std::to_string(rows) +
          "\ngradient_accumulation_steps: " + std::to_string(micro_batches) + "\n",
      configs / "test.yml", {}, configs);
  const models::Target target = target_here();
  TrainingPlans plans = plan_training(RunSpec(config, target));
  plans.options.optimizer.reset();
  StepPlans step = plan_step(plans.model, plans.layout, plans.options, target);
  step.reference = plans.step.reference;
  step.log_probs = plans.step.log_probs;
  step.preference = plans.step.preference;
  plans.step = std::move(step);
  const auto backend = make_backend(target);
  TrainingSession session(plans, *backend, [&](offload::Arguments& arguments) {
    if (plans.reference) give_reference_values(config, *plans.reference, target, arguments);
    return load_parameters(config, decoder_config(config, target), plans.layout, arguments);
  });
  const data::BatchSchema schema = batch_schema(plans.model, {rows, kLength});
  const bool is_kto = config.objective == Objective::kto;
  const std::vector<data::Batch> batches =
      batches_of(pairs_of(golden), schema, pairs_of_row, is_kto);
  std::vector<data::Batch> mismatched;
  if (is_kto) mismatched = batches_of(mismatched_of(golden), schema, pairs_of_row, true);
  double weights = 0, chosen_targets = 0;
  for (const data::Batch& batch : batches) {
    weights += static_cast<double>(batch.total_weights);
    chosen_targets += static_cast<double>(batch.chosen_targets);
  }
  auto write = [&](const char* name, double value) {
    const auto narrow = static_cast<float>(value);
    if (session.arguments().has(offload::host_name(name)))
      session.arguments().write(offload::host_name(name), &narrow, sizeof narrow);
  };
  write(offload::kLossGradient, 1 / weights);
  write(offload::kSftLossGradient, 1 / chosen_targets);
  const auto inputs = session.inputs(plans.step);
  inputs->write(batches, mismatched, session.ledger());
  std::vector<std::unique_ptr<offload::Executable>> passes;
  for (const offload::PlanRuns& pass : plans.step.passes()) {
    passes.push_back(session.executable(*pass.plan));
    for (int64_t number = 0; number < pass.times; ++number)
      passes.back()->run(session.ledger(), number);
  }
  backend->synchronize();
  auto sum = [&](const char* name) {
    float value = 0;
    if (session.arguments().has(offload::host_name(name)))
      session.arguments().read(offload::host_name(name), &value, sizeof value);
    return static_cast<double>(value);
  };
  Found found{.sft_loss = sum(offload::kSftLoss) / chosen_targets,
              .rewards = inputs->rewards(batches).value()};
  found.loss = sum(offload::kLoss) / weights + found.sft_loss;
  for (const auto& [name, location] : plans.layout.by_name) {
    const offload::Bucket& bucket = plans.layout.bucket(location);
    const offload::Parameter& parameter = plans.layout.parameter(location);
    if (bucket.trainable == models::Trainable::yes)
      found.gradients[name] = read_floats(
          session.arguments(), argument_name(bucket, offload::Copy::gradient),
          {parameter.type.shape}, parameter.offset * static_cast<int64_t>(sizeof(float)));
  }
  return found;
}

double scalar(const Golden& golden, const std::string& name) {
  return floats(golden.tensors.at(name))[0];
}

double mean(const Golden& golden, const std::string& name) {
  const std::vector<float> values = floats(golden.tensors.at(name));
  return std::accumulate(values.begin(), values.end(), 0.) / static_cast<double>(values.size());
}

struct Case {
  const char* name;  // the golden's
  const char* keys;
  const char* rewards;    // the golden's; null: none
  const char* gradients;  // likewise
};

constexpr Case kCases[] = {
    {"dpo_sigmoid", "objective: dpo\n", "dpo", "grad_dpo"},
    {"dpo_label_smoothing", "objective: dpo\npreference_label_smoothing: 0.1\n", "dpo", nullptr},
    {"dpo_robust", "objective: dpo\ndpo_loss: robust\npreference_label_smoothing: 0.1\n", "dpo",
     nullptr},
    {"hinge", "objective: dpo\ndpo_loss: hinge\n", "dpo", nullptr},
    {"ipo", "objective: ipo\n", nullptr, nullptr},
    {"ipo_sum", "objective: ipo\npreference_length_normalization: false\n", nullptr, nullptr},
    {"simpo", "objective: simpo\n", "simpo", nullptr},
    {"orpo", "objective: orpo\n", "orpo", "grad_orpo"},
    {"kto", "objective: kto\n", nullptr, nullptr},
};

class Preferences : public testing::TestWithParam<Case> {};

TEST_P(Preferences, AreTrls) {
  const Golden golden("dpo");
  const Case& c = GetParam();
  const std::string keys =
      c.keys + ("load_parameters_path: " + (golden.folder / "policy").string()) +
      "\nreference_parameters_path: " + (golden.folder / "ref").string() + "\n";
  struct Way {
    int64_t pairs_of_row, rows, micro_batches;
    const char* more = "";
  };
  for (const Way& way :
       {Way{2, 2, 1}, Way{2, 1, 2}, Way{1, 1, 4},
        Way{2, 2, 1,
            "remat_policy: qkv_proj_offloaded\nparameter_memory_host_offload: true\n"
            "reference_memory_host_offload: true\n"}}) {
    SCOPED_TRACE(way.micro_batches);
    const Found found = run_step(keys + way.more, golden.description, way.pairs_of_row, way.rows,
                                 way.micro_batches);
    const double loss = scalar(golden, std::string("loss.") + c.name);
    EXPECT_NEAR(found.loss / loss, 1, 2e-5);
    if (std::string(c.name) == "orpo") {
      EXPECT_NEAR(found.sft_loss / scalar(golden, "loss.orpo_nll"), 1, 2e-5);
    }
    if (c.rewards) {
      const std::string kind = c.rewards;
      EXPECT_NEAR(found.rewards.margin(), mean(golden, "margins." + kind), 2e-5);
      EXPECT_NEAR(found.rewards.mean_chosen(), mean(golden, "rewards." + kind + "_chosen"), 2e-5);
      EXPECT_NEAR(found.rewards.accuracy(), scalar(golden, "accuracy." + kind), 1e-6);
    }
    if (!c.gradients) continue;
    const std::string group = c.gradients;
    for (const auto& [name, gradient] : found.gradients)
      golden.expect(group + "." + name, gradient, golden.tolerance(group));
  }
}

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

INSTANTIATE_TEST_SUITE_P(Of, Preferences, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

// The same adapter, against the base without it.
TEST(PreferencesOfAdapters, AreTrls) {
  const Golden golden("dpo_lora");
  const std::string keys = "load_parameters_path: " + golden.folder.string() +
                           "\nload_adapter_path: " + (golden.folder / "adapter").string() +
                           "\nlora_rank: 4\nlora_alpha: 8\nlora_targets: [q_proj, v_proj, "
                           "down_proj]\nreference: adapter_off\n";
  for (const auto& [objective, group] :
       {std::pair{"dpo", "grad_dpo"}, std::pair{"ipo", "grad_ipo"}})
    for (int64_t micro_batches : {1, 3}) {
      SCOPED_TRACE(objective);
      const Found found =
          run_step(keys + "objective: " + objective + "\n", golden.description,
                   micro_batches == 1 ? 2 : 1, micro_batches == 1 ? 2 : 1, micro_batches);
      const std::string name = std::string(objective) == "dpo" ? "loss.dpo_sigmoid" : "loss.ipo";
      EXPECT_NEAR(found.loss / scalar(golden, name), 1, 2e-5);
      for (const auto& [parameter, gradient] : found.gradients)
        golden.expect(std::string(group) + ".base_model.model." + parameter, gradient,
                      golden.tolerance(group));
    }
}

}  // namespace
}  // namespace longshore::trainer
