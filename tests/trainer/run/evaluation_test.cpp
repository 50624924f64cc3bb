// What a run evaluates while it trains, and what it makes of that.
#include <fmt/format.h>
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

#include "longshore/base/atomic_file.h"
#include "longshore/data/rows/token_file.h"
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
           {"time", "seconds", "tokens_per_second_per_device", "tflops_per_device", "mfu",
            "device_peak_bytes", "pinned_host_peak_bytes", "checkpoint_stall_seconds",
            "data_wait_seconds", "saving", "resumed"})
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
    std::erase_if(found, [](const json& one) { return !one.contains("loss"); });
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

// Removes what a process had not yet written that was killed while it saved the checkpoint after
// so many steps.
void as_if_killed(const fs::path& run, int64_t step) {
  fs::remove(run / kSummaryFile);
  for (const auto& entry : fs::directory_iterator(run / kCheckpointsFolder))
    if (entry.path().filename().string() > checkpoint_name(step)) fs::remove_all(entry.path());
}

// Texts of prompts are those that generate continues them with, and training knows nothing of them.
TEST_F(Evaluation, ContinuesPromptsOfAFile) {
  const std::string chat =
      folder
          .write("chat.jsonl",
                 R"({"messages": [{"role": "user", "content": "Where are the boats?"},)"
                 R"( {"role": "assistant", "content": "In port, and waiting."}]})"
                 "\n")
          .string();
  const std::vector<std::string> lines{R"({"prompt": "Where are the boats?"})", R"({"prompt": ""})",
                                       R"({"messages": [{"role": "system", "content": "Say it."},)"
                                       R"( {"role": "user", "content": "Where?"}]})"};
  folder.write("there.jsonl", lines[0] + "\n" + lines[1] + "\n" + lines[2] + "\n");
  folder.write("back.jsonl", lines[2] + "\n" + lines[1] + "\n" + lines[0] + "\n");
  const auto trained = [&](const std::string& name, const std::string& settings) {
    std::string command = tiny_train(folder / "", settings + " run_name=" + name, 96);
    for (const auto& [from, to] : std::map<std::string, std::string>{
             {"dataset_type=synthetic eval_dataset_path= ",
              "dataset_type=documents chat_template=chatml eval_dataset_path= dataset_path=" +
                  chat + " "},
             {"vocab_size=61", "vocab_size=512"},
             {"tokenizer_path=", "tokenizer_path=" LONGSHORE_SOURCE_DIR
                                 "/tests/goldens/tokenizers/bytelevel_bpe_qwen"},
             {"sample_tokens=0", ""}})
      command.replace(command.find(from), from.size(), to);
    const ProgramResult result = run_program(command);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return result.output;
  };
  const std::string base = "steps=6 learning_rate=0.02 optimizer_memory_host_offload=true ";
  const std::string sampled = base +
                              "sample_tokens=12 sample_temperature=0 eval_interval=4 "
                              "checkpoint_period=4 eval_prompts_path=";
  trained("none", base + "sample_tokens=0 eval_interval=-1");
  const std::string said = trained("there", sampled + (folder / "there.jsonl").string());
  trained("back", sampled + (folder / "back.jsonl").string());
  const fs::path samples = folder / "there/samples";
  EXPECT_THAT(
      said,
      HasSubstr("samples after 4 steps: " + (samples / "step-00000004.jsonl").string() + "\n"));
  EXPECT_THAT(said, HasSubstr("samples at the end: " + (samples / "step-00000006.jsonl").string()));
  for (const char* name : {"there", "back"}) EXPECT_EQ(records(name), records("none")) << name;

  const auto texts = [](const fs::path& file) {
    std::istringstream found(data::read_file(file));
    std::vector<json> texts;
    for (std::string line; std::getline(found, line);) texts.push_back(json::parse(line));
    return texts;
  };
  const std::vector<json> last = texts(samples / "step-00000006.jsonl");
  ASSERT_EQ(last.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    json prompt = last[i];
    EXPECT_NE(prompt["text"], "") << i;
    prompt.erase("text");
    EXPECT_EQ(prompt, json::parse(lines[i]));
  }
  // None knows of those before it.
  for (const char* file : {"step-00000004.jsonl", "step-00000006.jsonl"}) {
    std::vector<json> back = texts(folder / "back/samples" / file);
    std::ranges::reverse(back);
    EXPECT_EQ(back, texts(samples / file));
  }
  for (const size_t i : {0, 1}) {
    const ProgramResult generated =
        run_program("(" GENERATE_PROGRAM " --run " + (folder / "there").string() +
                    " --temperature 0 --max-tokens 12 dtype=float32 --prompt '" +
                    last[i]["prompt"].get<std::string>() + "' 2>/dev/null)");
    EXPECT_EQ(generated.output, last[i]["text"].get<std::string>() + "\n");
  }

  // A process that was stopped before it had them.
  const std::string before = data::read_file(samples / "step-00000004.jsonl");
  as_if_killed(folder / "there", 4);
  fs::remove_all(samples);
  trained("there", sampled + (folder / "there.jsonl").string());
  EXPECT_EQ(data::read_file(samples / "step-00000004.jsonl"), before);
  EXPECT_EQ(texts(samples / "step-00000006.jsonl"), last);
}

void forget_evaluations_from(const fs::path& run, int64_t step) {
  std::istringstream lines(data::read_file(run / kMetricsFile));
  std::string kept;
  for (std::string line; std::getline(lines, line);)
    if (json::parse(line)["step"] < step - 1 || line.find("validation_loss") == std::string::npos)
      kept += line + "\n";
  write_file(run / kMetricsFile, kept);
}

// The model learns the text, and by that unlearns what the validation text has in common with it.
TEST_F(Evaluation, KeepsTheBestAndStopsAsARunThatNeverStopped) {
  const std::string settings =
      "learning_rate=0.01 eval_interval=2 checkpoint_period=3 keep_best=validation_loss "
      "max_num_checkpoints_to_keep=-1 eval_dataset_path=" +
      tokens("other", 300, 2).string() + "," + tokens("alike", 300, 1).string() + " run_name=";
  const std::string patient = " steps=40 early_stopping_patience=2";
  const ProgramResult straight = run(settings + "straight" + patient);
  ASSERT_EQ(straight.exit_code, 0) << straight.output;
  const std::vector<json> found = evaluations("straight");
  const auto best = std::ranges::min_element(
      found, {}, [](const json& one) { return one["validation_loss"].get<double>(); });
  const int64_t best_step = (*best)["step"].get<int64_t>() + 1,
                end = found.back()["step"].get<int64_t>() + 1;
  ASSERT_GT(best_step, 2);
  EXPECT_EQ(end, best_step + 4);
  ASSERT_LT(end, 40);
  EXPECT_EQ(steps("straight").size(), static_cast<size_t>(end));
  const std::string reason =
      "early stopping after " + std::to_string(end) + " steps: no better for 2 evaluations; best: ";
  EXPECT_THAT(straight.output, HasSubstr(reason + "validation_loss "));
  EXPECT_EQ(summary("straight")["steps"], end);
  EXPECT_EQ(summary("straight")["validation_loss"], found.back()["validation_loss"]);
  EXPECT_EQ(summary("straight")["best"], (json{{"metric", "validation_loss"},
                                               {"value", (*best)["validation_loss"]},
                                               {"steps", best_step}}));
  const auto best_link = [&](const std::string& name) {
    return fs::read_symlink(folder / name / "best").string();
  };
  EXPECT_EQ(best_link("straight"), "checkpoints/" + checkpoint_name(best_step));
  EXPECT_EQ(fs::read_symlink(folder / "straight/model").string(),
            "checkpoints/" + checkpoint_name(end) + "/model");

  // At a save of a period, at one of the best, and at the last one but the best.
  for (const int64_t step : {int64_t{9}, best_step, best_step + 2}) {
    const std::string name = "after-" + std::to_string(step);
    ASSERT_TRUE(fs::exists(folder / "straight/checkpoints" / checkpoint_name(step))) << step;
    fs::copy(folder / "straight", folder / name,
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    as_if_killed(folder / name, step);
    if (step == best_step) forget_evaluations_from(folder / name, step);
    const ProgramResult resumed = run(settings + name + patient);
    ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
    EXPECT_THAT(resumed.output, HasSubstr(reason));
    EXPECT_EQ(records(name), records("straight")) << name;
    EXPECT_EQ(best_link(name), best_link("straight")) << name;
    EXPECT_EQ(summary(name)["best"], summary("straight")["best"]) << name;
    for (const auto& entry : fs::directory_iterator(folder / "straight/checkpoints")) {
      const Manifest here = read_manifest(folder / name / "checkpoints" / entry.path().filename());
      const Manifest there = read_manifest(entry.path());
      EXPECT_EQ(here.best, there.best) << entry.path();
      EXPECT_EQ(here.files, there.files) << entry.path();
    }
  }

  // It has ended; more patience, and it goes on.
  const std::string before = data::read_file(folder / "straight" / kMetricsFile);
  const ProgramResult again = run(settings + "straight" + patient);
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr(reason));
  EXPECT_EQ(data::read_file(folder / "straight" / kMetricsFile), before);
  const ProgramResult more =
      run(settings + "straight steps=" + std::to_string(end + 2) + " early_stopping_patience=9");
  EXPECT_EQ(more.exit_code, 0) << more.output;
  EXPECT_EQ(steps("straight").size(), static_cast<size_t>(end + 2));
}

// Packed, and one in a row; with a validation loss, and alone. What is learnt by heart is answered.
TEST_F(Evaluation, AsksQuestionsOfMultipleChoice) {
  std::string learnt, questions;
  for (int i = 0; i < 8; ++i) {
    const std::string boat = "boat " + std::to_string(i * 13),
                      says = i % 2 == 0 ? " sails" : " waits";
    learnt += R"({"text": ")" + boat + says + "\"}\n";
    questions += R"({"prompt": ")" + boat + R"(", "choices": [" sails", " waits"], "answer": )" +
                 std::to_string(i % 2) + "}\n";
  }
  const std::string file = folder.write("learnt.jsonl", learnt).string();
  auto ask = [&](const std::string& name, const std::string& more) {
    std::string command =
        tiny_train(folder / "", "steps=60 learning_rate=0.02 run_name=" + name + " " + more);
    auto replace = [&](const std::string& what, const std::string& by) {
      command.replace(command.find(what), what.size(), by);
    };
    replace("dataset_type=synthetic ", "dataset_type=documents dataset_path=" + file + " ");
    replace("tokenizer_path= ", "tokenizer_path=tests/goldens/tokenizers/sp_bpe ");
    replace("vocab_size=61 ", "vocab_size=2048 ");
    const ProgramResult result = run_program(command);
    ASSERT_EQ(result.exit_code, 0) << result.output;
  };
  const std::string path = "eval_choices_path=" + folder.write("choices.jsonl", questions).string();
  ask("alone", path + " eval_interval=20 keep_best=choices_accuracy");
  ask("unpacked", path + " packing=false");
  ask("without", "");
  EXPECT_EQ(steps("alone"), steps("without"));
  for (const char* name : {"alone", "unpacked"}) {
    const json last = summary(name);
    EXPECT_EQ(last["choices_accuracy"], 1) << name;
    EXPECT_FALSE(last.contains("validation_loss"));
  }
  const json best = summary("alone")["best"];
  EXPECT_EQ(best["metric"], "choices_accuracy");
  EXPECT_EQ(best["value"], 1);
  std::vector<json> found = records("alone");
  std::erase_if(found, [](const json& one) { return !one.contains("choices_accuracy"); });
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[2]["step"], 59);
}

TEST_F(Evaluation, TheBestCheckpointStaysBesideTheNewest) {
  const std::string settings =
      "steps=12 learning_rate=0.03 eval_interval=2 checkpoint_period=1 keep_best=validation_loss "
      "max_num_checkpoints_to_keep=1 async_checkpointing=false eval_dataset_path=" +
      tokens("other", 300, 2).string() + " run_name=a";
  const ProgramResult result = run(settings);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const int64_t best = summary("a")["best"]["steps"];
  ASSERT_LT(best, 12);
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder / "a/checkpoints"))
    left.push_back(entry.path().filename());
  EXPECT_THAT(left, testing::UnorderedElementsAre(checkpoint_name(best), checkpoint_name(12)));
  EXPECT_THAT(result.output,
              HasSubstr("\n  best/           validation_loss " +
                        fmt::format("{:.4f}", summary("a")["best"]["value"].get<double>()) +
                        " after " + std::to_string(best) + " steps\n"));
  // What a copy by cp -rL has in its place is nobody's.
  const fs::path link = folder / "a/best";
  fs::remove(link);
  fs::create_directories(link / "model");
  EXPECT_EQ(run(settings).exit_code, 0);
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(fs::exists(folder / "a/best.before/model"));
}

}  // namespace
}  // namespace longshore::trainer
