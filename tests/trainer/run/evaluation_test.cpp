// What a run evaluates while it trains, and what it makes of that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "data/rows/token_file.h"
#include "tests/data/safetensors_samples.h"
#include "tests/data/temporary_folder.h"
#include "tests/trainer/checkpoint/tiny_run.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kVocabulary = 61;

class Evaluation : public testing::Test {
 protected:
  // Each token is the one before it plus `step`.
  fs::path tokens(const std::string& name, int count, int step) {
    const fs::path path = folder / (name + ".tokens");
    data::TokenFileWriter writer(path, kVocabulary, 0);
    std::vector<int32_t> text;
    for (int i = 0; i < count; ++i) text.push_back(i * step % kVocabulary);
    writer.append(text);
    writer.finish();
    return path;
  }

  // Of a run on `text`.
  ProgramResult run(const std::string& settings) {
    std::string command = tiny_train(folder / "", settings);
    const std::string without = "dataset_type=synthetic eval_dataset_path= ";
    command.replace(command.find(without), without.size(),
                    "dataset_type=tokens dataset_path=" + text.string() + " ");
    return run_program(command);
  }

  // Its records, without what a clock or another plan decides.
  std::vector<json> records(const std::string& name) {
    std::istringstream lines(data::read_file(folder / name / kMetricsFile));
    std::vector<json> records;
    for (std::string line; std::getline(lines, line);) {
      json record = json::parse(line);
      for (const char* key :
           {"seconds", "tokens_per_second_per_device", "tflops_per_device", "mfu",
            "device_peak_bytes", "pinned_host_peak_bytes", "checkpoint_stall_seconds"})
        record.erase(key);
      records.push_back(std::move(record));
    }
    return records;
  }

  std::vector<json> evaluations(const std::string& name) {
    std::vector<json> found = records(name);
    std::erase_if(found, [](const json& one) { return !one.contains("validation_loss"); });
    return found;
  }

  std::vector<json> steps(const std::string& name) {
    std::vector<json> found = records(name);
    std::erase_if(found, [](const json& one) { return one.contains("validation_loss"); });
    return found;
  }

  json summary(const std::string& name) {
    return json::parse(data::read_file(folder / name / kSummaryFile));
  }

  data::TemporaryFolder folder;
  const fs::path text = tokens("text", 2000, 1);
};

TEST_F(Evaluation, LossesOfNamedSetsAreThoseOfEachAlone) {
  const std::string left = tokens("left", 100, 1).string(), right = tokens("b", 400, 2).string();
  const std::string base = "steps=4 learning_rate=0.01 ";
  const auto evaluated = [&](const std::string& name, const std::string& sets) {
    const ProgramResult result =
        run(base + "eval_interval=2 run_name=" + name + " eval_dataset_path=" + sets);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return result.output;
  };
  const std::string both = evaluated("both", "left=" + left + "," + right);
  EXPECT_THAT(evaluated("left", left), Not(HasSubstr("perplexity")));
  evaluated("named", "b=" + right);
  ASSERT_EQ(run(base + "run_name=none eval_dataset_path= eval_interval=-1").exit_code, 0);
  for (const char* name : {"both", "left", "named"}) EXPECT_EQ(steps(name), steps("none")) << name;

  const std::vector<json> of_both = evaluations("both"), of_left = evaluations("left"),
                          of_named = evaluations("named");
  ASSERT_EQ(of_both.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const double loss = of_left[i]["validation_loss"], other = of_named[i]["validation_loss"];
    EXPECT_NE(loss, other);
    EXPECT_EQ(of_left[i], (json{{"step", 2 * i + 1}, {"validation_loss", loss}}));
    EXPECT_EQ(of_named[i]["validation_losses"], (json{{"b", other}}));
    EXPECT_EQ(of_both[i]["validation_losses"], (json{{"left", loss}, {"b", other}}));
    EXPECT_EQ(of_both[i]["validation_perplexities"],
              (json{{"left", std::exp(loss)}, {"b", std::exp(other)}}));
    EXPECT_NEAR(of_both[i]["validation_loss"], (99 * loss + 399 * other) / 498, 1e-6);
  }
  for (const char* key : {"validation_loss", "validation_losses", "validation_perplexities"})
    EXPECT_EQ(summary("both")[key], of_both[1][key]);
  const double last = of_left[1]["validation_loss"];
  EXPECT_THAT(both, testing::ContainsRegex("validation loss at the end: .* nats [a-z]+ the unigram "
                                           "cross-entropy of [0-9.]+; left [0-9.]+ \\(perplexity "
                                           "[0-9.]+\\), b [0-9.]+ \\(perplexity"));
  EXPECT_GT(last, 0);
  // Evaluated again, with nothing to add.
  const std::string before = data::read_file(folder / "both" / kMetricsFile);
  evaluated("both", "left=" + left + "," + right);
  EXPECT_EQ(data::read_file(folder / "both" / kMetricsFile), before);
}

}  // namespace
}  // namespace longshore::trainer
