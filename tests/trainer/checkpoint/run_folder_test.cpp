// The train program in folders that others have made, or take away.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "longshore/base/file_descriptor.h"
#include "longshore/trainer/config/run_files.h"
#include "tests/data/temporary_folder.h"
#include "tests/trainer/checkpoint/tiny_run.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using data::TemporaryFolder;
using testing::AssertionFailure;
using testing::AssertionResult;
using testing::AssertionSuccess;

AssertionResult has(const std::string& text, const std::string& words) {
  if (text.find(words) != std::string::npos) return AssertionSuccess();
  return AssertionFailure() << "no \"" << words << "\" in\n" << text;
}

constexpr const char* kSettings = "steps=2 run_name=a ";

// A pipe would be waited for, hence the time limit.
ProgramResult train_in(const TemporaryFolder& folder, const std::string& settings = kSettings) {
  return run_program("timeout 60 " + tiny_train(folder / "", settings));
}

TEST(RunOfOthers, HoldsNoLinksAndNoPipes) {
  TemporaryFolder folder, outside;
  fs::create_directory(folder / "a");
  auto refused = [&](const fs::path& file, const std::string& kind) {
    const ProgramResult result = train_in(folder);
    EXPECT_EQ(result.exit_code, 1) << result.output;
    EXPECT_TRUE(
        has(result.output, file.string() + ": found " + kind + ", expected a regular file"));
    fs::remove(file);
  };
  outside.write("precious", "text");
  for (const char* name : {kLockFile, kConfigFile, kMetricsFile, kSummaryFile}) {
    fs::create_symlink(outside / "precious", folder / "a" / name);
    refused(folder / "a" / name, "a symbolic link");
    EXPECT_EQ(data::read_file(outside / "precious"), "text") << name;
  }
  for (const char* name : {kLockFile, kPlanFile, kMetricsFile, kTraceFile}) {
    ASSERT_EQ(mkfifo((folder / "a" / name).c_str(), 0600), 0);
    refused(folder / "a" / name, "a pipe");
  }
  // In which leftovers would be removed, and old checkpoints.
  outside.write("00000001.partial-1", "");
  fs::create_directory_symlink(outside / "", folder / "a" / kCheckpointsFolder);
  const ProgramResult of_folder = train_in(folder);
  EXPECT_EQ(of_folder.exit_code, 1) << of_folder.output;
  EXPECT_TRUE(has(of_folder.output, "checkpoints: found a symbolic link, expected a folder"));
  EXPECT_TRUE(fs::exists(outside / "00000001.partial-1"));
}

// As `cp -al` makes a copy: what is written in place is refused, the rest is replaced.
TEST(RunOfOthers, IsNotWrittenThroughHardLinks) {
  TemporaryFolder folder, outside;
  ASSERT_EQ(train_in(folder).exit_code, 0);
  std::map<fs::path, std::string> before;  // by the names outside
  for (const auto& entry : fs::recursive_directory_iterator(folder / "a"))
    if (entry.is_regular_file() && !entry.is_symlink()) {
      const fs::path other = outside / std::to_string(before.size());
      before[other] = data::read_file(entry.path());
      fs::create_hard_link(entry.path(), other);
    }
  ASSERT_GT(before.size(), 8u);
  for (const char* name : {kLockFile, kMetricsFile}) {
    const ProgramResult result = train_in(folder, "steps=4 run_name=a");
    EXPECT_EQ(result.exit_code, 1) << result.output;
    EXPECT_TRUE(has(result.output, (folder / "a" / name).string() + ": found a file with 2 names"));
    const std::string text = data::read_file(folder / "a" / name);
    fs::remove(folder / "a" / name);
    folder.write(fs::path("a") / name, text);
  }
  const ProgramResult result = train_in(folder, "steps=4 run_name=a");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(losses(folder / "a").size(), 4u);
  for (const auto& [other, text] : before) EXPECT_EQ(data::read_file(other), text) << other;
}

// Nor where the link comes in mid-run.
TEST(RunOfOthers, SavesNothingOutside) {
  TemporaryFolder folder, outside;
  const fs::path checkpoints = folder / "a" / kCheckpointsFolder;
  Process process(tiny_train(folder / "", "steps=1000000 run_name=a checkpoint_period=1000"),
                  folder / "log");
  ASSERT_TRUE(process.wait_for("completed step: 3"));
  fs::create_directory_symlink(outside / "", folder / "link");
  fs::create_directory(checkpoints);
  ASSERT_EQ(renameat2(AT_FDCWD, (folder / "link").c_str(), AT_FDCWD, checkpoints.c_str(),
                      RENAME_EXCHANGE),
            0);
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 1) << process.output();
  EXPECT_TRUE(has(process.output(), "checkpoints: found a symbolic link, expected a folder"));
  EXPECT_TRUE(fs::is_empty(outside / ""));
}

TEST(RunOfOthers, ResumesFromNothingOutside) {
  TemporaryFolder folder, outside;
  ASSERT_EQ(train_in(folder).exit_code, 0);
  const fs::path checkpoint = folder / "a/checkpoints/00000002";
  auto refused = [&](const std::string& words) {
    const ProgramResult result = train_in(folder, "steps=4 run_name=a");
    EXPECT_EQ(result.exit_code, 1) << result.output;
    EXPECT_TRUE(has(result.output, words));
  };
  // Which would be written into the next checkpoint.
  fs::create_symlink("/etc/passwd", checkpoint / "model/LICENSE");
  refused("model/LICENSE: found a symbolic link, expected a regular file");
  fs::remove(checkpoint / "model/LICENSE");
  fs::rename(checkpoint / "optimizer.safetensors", outside / "moved");
  fs::create_symlink(outside / "moved", checkpoint / "optimizer.safetensors");
  refused("optimizer.safetensors: found a symbolic link, expected a regular file");
  fs::remove(checkpoint / "optimizer.safetensors");
  fs::rename(outside / "moved", checkpoint / "optimizer.safetensors");
  fs::rename(checkpoint, outside / "whole");
  fs::create_directory_symlink(outside / "whole", checkpoint);
  refused("00000002: found a symbolic link, expected a folder");
  fs::remove(checkpoint);
  fs::rename(outside / "whole", checkpoint);
  EXPECT_EQ(train_in(folder, "steps=4 run_name=a").exit_code, 0);
}

// In the middle of the run.
TEST(RunFolder, ThatIsTakenAwayEndsTheRun) {
  // Or its lock was removed, which may be seen before the folder is gone.
  for (const char* found : {"was removed", "it was moved", "another folder"}) {
    TemporaryFolder folder;
    const fs::path run = folder / "a";
    Process process(tiny_train(folder / "", "steps=1000000 run_name=a checkpoint_period=50"),
                    folder / "log");
    ASSERT_TRUE(process.wait_for("completed step: 3"));
    if (found == std::string("another folder")) {
      fs::create_directory(folder / "other");
      // At once, or the run might find that there is none.
      ASSERT_EQ(
          renameat2(AT_FDCWD, run.c_str(), AT_FDCWD, (folder / "other").c_str(), RENAME_EXCHANGE),
          0);
    } else if (found == std::string("it was moved")) {
      fs::rename(run, folder / "moved");
    } else {
      std::error_code error;
      do fs::remove_all(run, error);
      while (fs::exists(run) && !process.is_over());
    }
    EXPECT_EQ(process.wait(), 1) << process.output();
    EXPECT_TRUE(has(process.output(), "train: " + run.string() + ": found "));
    EXPECT_TRUE(has(process.output(), std::string(found) + ", expected the folder in which"));
    EXPECT_TRUE(!fs::exists(run) || fs::is_empty(run));
  }
}

// As less(1) and sleep(1) read. The pipe takes 64 KiB, some 400 lines.
TEST(Reader, ThatStandsStillStopsNoTraining) {
  TemporaryFolder folder;
  const fs::path errors = folder / "errors";
  const std::string train = tiny_train(folder / "", "steps=1500 run_name=a");
  const ProgramResult result = run_program(
      "{ " + train + " 2> " + errors.string() + "; echo $? > " + (folder / "code").string() +
      "; } | { sleep 60 & echo $! > " + (folder / "sleeper").string() + "; while ! test -s " +
      (folder / "code").string() + "; do sleep 0.1; done; kill $!; }");
  EXPECT_EQ(data::read_file(folder / "code"), "0\n") << data::read_file(errors);
  EXPECT_TRUE(has(data::read_file(errors), "standard output: nobody read it; "));
  EXPECT_EQ(losses(folder / "a").size(), 1500u);
  saved_files(folder / "a", 1500);
}

TEST(Reader, ThatStandsStillStopsNoSignal) {
  TemporaryFolder folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const FileDescriptor reader(open(pipe.c_str(), O_RDONLY | O_NONBLOCK));
  Process process(tiny_train(folder / "", "steps=10000000 run_name=a"), pipe);
  auto steps = [&] {
    std::ifstream file(folder / "a" / kMetricsFile);
    return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
  };
  while (steps() < 700 && !process.is_over()) usleep(10'000);
  process.send(SIGTERM);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(process.wait(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  saved_files(folder / "a", steps());
}

}  // namespace
}  // namespace longshore::trainer
