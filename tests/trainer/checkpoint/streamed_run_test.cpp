// Runs whose files are opened as their rows are needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "tests/data/temporary_folder.h"
#include "tests/trainer/checkpoint/tiny_run.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using data::TemporaryFolder;
using testing::HasSubstr;
using testing::Not;

// Files of texts, which are all different, in rows of their own.
class StreamedRun : public testing::Test {
 protected:
  static constexpr int kRows = 6;  // of a file: three steps

  void write_file(int number, const std::string& last_line = "") const {
    std::ofstream file(shard(number));
    for (int i = 0; i < kRows; ++i)
      file << R"({"text": "the boats )" << number * kRows + i << " wait\"}\n";
    file << last_line;
  }
  fs::path shard(int number) const {
    return folder_ / ("shard-" + std::to_string(100 + number) + ".jsonl");
  }

  std::string command(const std::string& run, const std::string& settings) const {
    std::string text = tiny_train(folder_ / "runs", "run_name=" + run + " " + settings);
    auto replace = [&](const std::string& what, const std::string& by) {
      text.replace(text.find(what), what.size(), by);
    };
    replace("dataset_type=synthetic ", "dataset_type=documents packing=false 'dataset_path=" +
                                           (folder_ / "shard-*.jsonl").string() + "' ");
    replace("tokenizer_path= ",
            "tokenizer_path=" LONGSHORE_SOURCE_DIR "/tests/goldens/tokenizers/sp_bpe ");
    replace("vocab_size=61 ", "vocab_size=2048 ");
    return text;
  }
  ProgramResult train(const std::string& run, const std::string& settings) const {
    return run_program(command(run, settings));
  }
  fs::path run(const std::string& name) const { return folder_ / "runs" / name; }

  TemporaryFolder folder_;
};

std::set<std::string> files_read(const std::string& output) {
  std::set<std::string> files;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);)
    if (const size_t at = line.find(": reading it"); at != line.npos)
      files.insert(line.substr(0, at));
  return files;
}

// To the bit, over the end of an epoch, without the tokens of what was passed, and without making
// them again.
TEST_F(StreamedRun, GoesOnAsIfItHadNeverStopped) {
  for (int i = 0; i < 9; ++i) write_file(i);
  const std::string how = "shuffle_window=4 keep_tokens=false ";
  const ProgramResult straight = train("straight", how + "steps=34");
  ASSERT_EQ(straight.exit_code, 0) << straight.output;
  EXPECT_THAT(straight.output, HasSubstr("34 steps of 2 rows, from 9 files one after the other, "
                                         "shuffled in windows of 4 rows"));
  EXPECT_EQ(files_read(straight.output).size(), 9u);
  for (const int steps : {20, 22, 34}) {
    fs::remove_all(folder_ / "runs/tokens");
    const ProgramResult part = train("stopped", how + "steps=" + std::to_string(steps));
    ASSERT_EQ(part.exit_code, 0) << part.output;
    if (steps != 22) continue;
    EXPECT_THAT(part.output, HasSubstr("after 20 steps"));
    // Rows 40 to 43 are a window of two files; as many are opened ahead.
    EXPECT_LE(files_read(part.output).size(), 4u) << part.output;
  }
  EXPECT_EQ(losses(run("stopped")), losses(run("straight")));
  EXPECT_EQ(saved_files(run("stopped"), 34), saved_files(run("straight"), 34));
}

// The last of three files, after hours perhaps.
TEST_F(StreamedRun, SavesWhatItDidBeforeABadFile) {
  write_file(0);
  write_file(1);
  write_file(2, "broken\n");
  const ProgramResult bad = train("a", "shuffle_window=1 steps=9");
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.output, HasSubstr(shard(2).string() + ":7: no valid JSON at byte 1"));
  EXPECT_THAT(bad.output, HasSubstr("The last checkpoint is whole, and the run goes on from it: " +
                                    (run("a") / "checkpoints/00000006").string()));
  const ProgramResult skipping = train("a", "shuffle_window=1 steps=9 skip_bad_lines=true");
  ASSERT_EQ(skipping.exit_code, 0) << skipping.output;
  EXPECT_THAT(skipping.output, HasSubstr("after 6 steps"));
  EXPECT_THAT(skipping.output, Not(HasSubstr(shard(1).string() + ": 6 documents")));
  ASSERT_EQ(train("b", "shuffle_window=1 steps=9 skip_bad_lines=true").exit_code, 0);
  EXPECT_EQ(losses(run("a")), losses(run("b")));

  // The first file: nothing to save.
  write_file(0, "broken\n");
  const ProgramResult first = train("c", "shuffle_window=1 steps=9");
  EXPECT_EQ(first.exit_code, 1);
  EXPECT_THAT(first.output, HasSubstr(shard(0).string() + ":7: no valid JSON"));
  EXPECT_FALSE(fs::exists(run("c") / kCheckpointsFolder));
  // A fault of the config stays one.
  std::ofstream(shard(0)) << R"({"prompt": "the", "completion": " boats"})";
  std::string tokens = command("d", "shuffle_window=1 steps=9");
  const std::string documents = "dataset_type=documents packing=false";
  const ProgramResult config =
      run_program(tokens.replace(tokens.find(documents), documents.size(), "dataset_type=tokens"));
  EXPECT_EQ(config.exit_code, 2);
  EXPECT_THAT(config.output, HasSubstr("expected dataset_type=documents"));
}

// Of whose unigram loss nothing is known without all files.
TEST_F(StreamedRun, EvaluatesOnAFileOfItsOwn) {
  write_file(0);
  const fs::path eval = folder_.write("eval.jsonl", R"({"text": "the boats wait"})");
  std::string text = command("a", "shuffle_window=4 steps=2");
  const std::string none = "eval_dataset_path= ";
  const ProgramResult result = run_program(
      text.replace(text.find(none), none.size(), "eval_dataset_path=" + eval.string() + " "));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, testing::ContainsRegex("validation loss at the end: [0-9.]+\n"));
  const auto summary = nlohmann::json::parse(std::ifstream(run("a") / kSummaryFile));
  EXPECT_GT(summary.at("validation_loss"), 5.0);
  EXPECT_FALSE(summary.contains("validation_unigram_loss"));
}

TEST_F(StreamedRun, RefusesFilesThatWereChanged) {
  for (int i = 0; i < 4; ++i) write_file(i);
  ASSERT_EQ(train("a", "shuffle_window=1 steps=2").exit_code, 0);
  write_file(3, R"({"text": "one more"})");  // which was not read yet
  const ProgramResult changed = train("a", "shuffle_window=1 steps=4");
  EXPECT_EQ(changed.exit_code, 2);
  EXPECT_THAT(changed.output, HasSubstr("is of another run"));
  EXPECT_THAT(changed.output, HasSubstr(", with other tokens or weights"));
  write_file(3);
  const ProgramResult wider = train("a", "shuffle_window=2 steps=4");
  EXPECT_EQ(wider.exit_code, 2);
  EXPECT_THAT(wider.output, HasSubstr("shuffle_window: 2 here (command line), 1 there"));
  EXPECT_EQ(train("a", "shuffle_window=1 steps=4 keep_tokens=false").exit_code, 0);
}

// Which would take long to tokenize.
TEST_F(StreamedRun, ASignalStopsItWhileItWaitsForAFile) {
  write_file(0);
  std::string line = "{\"text\": \"";
  for (int i = 0; i < 20'000; ++i) line += "the boats wait ";
  line += "\"}\n";
  std::ofstream large(shard(1));
  for (int i = 0; i < 100; ++i) large << line;
  large.close();
  Process process(command("a", "shuffle_window=1 steps=9"), folder_ / "log");
  ASSERT_TRUE(process.wait_for("completed step: 2")) << process.output();
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << process.output();
  EXPECT_THAT(process.output(), HasSubstr("SIGTERM: stopped after 3 of 9 steps, which are saved"));
  EXPECT_EQ(open_checkpoint(run("a") / kCheckpointsFolder / checkpoint_name(3)).manifest.step, 3);
  for (const auto& entry : fs::directory_iterator(folder_ / "runs/tokens"))
    EXPECT_TRUE(entry.path().filename().string().starts_with("shard-100-")) << entry.path();
}

}  // namespace
}  // namespace longshore::trainer
