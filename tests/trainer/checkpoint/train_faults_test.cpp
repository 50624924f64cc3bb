// The train program where something goes wrong, or someone wants it to stop.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <new>
#include <set>

#include "longshore/base/error.h"
#include "longshore/base/refusals.h"
#include "longshore/data/rows/token_file.h"
#include "longshore/offload/memory/memory.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/run_files.h"
#include "longshore/trainer/run/faults.h"
#include "longshore/trainer/run/run_directory.h"
#include "longshore/trainer/step/inputs.h"
#include "longshore/trainer/step/training_plans.h"
#include "tests/data/temporary_folder.h"
#include "tests/trainer/checkpoint/kill_test.h"
#include "tests/trainer/checkpoint/tiny_run.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using data::TemporaryFolder;
using testing::AssertionFailure;
using testing::AssertionResult;
using testing::AssertionSuccess;

ProgramResult run_tiny(const TemporaryFolder& folder, const std::string& settings,
                       const std::string& before = "") {
  return run_program(before + tiny_train(folder / "", settings));
}

AssertionResult has(const std::string& text, const std::string& words) {
  if (text.find(words) != std::string::npos) return AssertionSuccess();
  return AssertionFailure() << "no \"" << words << "\" in\n" << text;
}

TEST(Killed, EndsAsTheUndisturbedRun) { kill_and_resume(8, 2); }

TEST(Signals, SaveWithinTheStepAndExit) {
  for (int signal : {SIGTERM, SIGUSR1, SIGINT, SIGHUP}) {
    TemporaryFolder folder;
    // Updates that the next step would have made are in the checkpoint, too.
    const std::string slow = "gradient_accumulation_steps=8 ",
                      deferring = "optimizer_memory_host_offload=true ";
    Process process(tiny_train(folder / "", slow + deferring + "steps=100000 run_name=a"),
                    folder / "log");
    ASSERT_TRUE(process.wait_for("completed step: 2"));
    process.send(signal);
    EXPECT_EQ(process.wait(), 0) << process.output();
    EXPECT_TRUE(has(process.output(), ": stopped after "));
    const int64_t done = static_cast<int64_t>(losses(folder / "a").size());
    saved_files(folder / "a", done);  // which throws if there is none
    EXPECT_TRUE(half_written(folder / "a").empty());

    if (signal != SIGTERM) continue;
    const std::string more = slow + "steps=" + std::to_string(done + 3) + " run_name=";
    ASSERT_EQ(run_tiny(folder, more + "a remat_policy=full").exit_code, 0);
    ASSERT_EQ(run_tiny(folder, more + "b").exit_code, 0);
    EXPECT_EQ(losses(folder / "a"), losses(folder / "b"));
    EXPECT_EQ(saved_files(folder / "a", done + 3), saved_files(folder / "b", done + 3));
  }
}

// Which signals each of a process's threads blocks, a bit for each.
std::vector<uint64_t> blocked_by_threads(pid_t process) {
  std::vector<uint64_t> blocked;
  for (const auto& thread : fs::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
    std::ifstream status(thread.path() / "status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("SigBlk:")) blocked.push_back(std::stoull(line.substr(7), nullptr, 16));
  }
  return blocked;
}

// A handler would run on the stack of a thread that computes, which some of oneDNN's kernels lay
// into the heap.
TEST(Signals, DisturbNoThreadThatComputes) {
  TemporaryFolder folder;
  Process process("env OMP_NUM_THREADS=3 " + tiny_train(folder / "", "steps=100000 run_name=a"),
                  folder / "log");
  ASSERT_TRUE(process.wait_for("completed step: 1"));
  const std::vector<uint64_t> blocked = blocked_by_threads(process.id());
  EXPECT_GE(blocked.size(), 4u);
  for (int signal : {SIGTERM, SIGUSR1, SIGINT, SIGHUP})  // all but the one that waits for them
    EXPECT_EQ(std::ranges::count_if(
                  blocked, [&](uint64_t bits) { return !(bits & (uint64_t{1} << (signal - 1))); }),
              1)
        << signal;
}

// As timeout(1) sends them: to the process, and then to its group.
TEST(Signals, TheSameRequestMayComeTwice) {
  TemporaryFolder folder;
  Process process(tiny_train(folder / "", "steps=100000 run_name=a"), folder / "log");
  ASSERT_TRUE(process.wait_for("completed step: 2"));
  for (int i = 0; i < 2; ++i) process.send(SIGTERM);
  usleep(2000);
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << process.output();
  EXPECT_TRUE(has(process.output(), "SIGTERM: stopped after "));
}

// As a shell has it of SIGINT for what it starts in the background, and nohup(1) of SIGHUP.
TEST(Signals, ThoseThatWereIgnoredStaySo) {
  TemporaryFolder folder;
  Process process(
      "sh -c 'trap \"\" INT HUP; exec " + tiny_train(folder / "", "steps=100000 run_name=a") + "'",
      folder / "log");
  ASSERT_TRUE(process.wait_for("completed step: 2"));
  process.send(SIGINT);
  process.send(SIGHUP);
  ASSERT_TRUE(process.wait_for(fmt::format("completed step: {}", losses(folder / "a").size() + 2)));
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << process.output();
  EXPECT_TRUE(has(process.output(), "SIGTERM: stopped after "));
}

// As where tee(1) got the same signal.
TEST(Signals, WhoReadsTheOutputMayBeGone) {
  TemporaryFolder folder;
  const std::string train = tiny_train(folder / "", "steps=40 run_name=a");
  const fs::path code = folder / "code";
  run_program("{ " + train + "; echo $? > " + code.string() + "; } | head -n 1");
  EXPECT_EQ(data::read_file(code), "0\n");
  EXPECT_EQ(losses(folder / "a").size(), 40u);
  saved_files(folder / "a", 40);
}

TEST(Streams, ThatAreClosedAreNoFilesOfTheRun) {
  TemporaryFolder folder;
  const ProgramResult result =
      run_program("{ " + tiny_train(folder / "", "steps=3 run_name=a") + " <&- >&- 2>&- ; }");
  EXPECT_EQ(result.exit_code, 1);  // what was printed went nowhere
  EXPECT_EQ(losses(folder / "a").size(), 3u);
  const std::string lock = data::read_file(folder / "a/lock");
  EXPECT_EQ(lock.find_first_not_of("0123456789"), std::string::npos) << lock;
}

// Both come within a step: the process stands still between them, so that none is too fast.
TEST(Signals, ASecondSignalEndsTheRunAtOnce) {
  TemporaryFolder folder;
  Process process(
      tiny_train(folder / "", "steps=3 run_name=a gradient_accumulation_steps=20", 4096),
      folder / "log");
  ASSERT_TRUE(process.wait_for("completed step: 0"));
  usleep(100'000);  // so that the next is begun
  process.send(SIGTERM);
  usleep(100'000);  // so that it is taken
  process.send(SIGSTOP);
  usleep(1'100'000);
  process.send(SIGUSR1);
  process.send(SIGCONT);
  EXPECT_EQ(process.wait(), 128 + SIGUSR1);
  EXPECT_TRUE(has(process.output(), "SIGUSR1 after SIGTERM: ends at once"));
  EXPECT_FALSE(fs::exists(folder / "a" / kCheckpointsFolder)) << process.output();
}

TEST(Signals, BeforeTheFirstStepThereIsNothingToSave) {
  TemporaryFolder folder;
  Process process(tiny_train(folder / "", "steps=100000 run_name=a"), folder / "log");
  ASSERT_TRUE(process.wait_for("backend: "));
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << process.output();
  EXPECT_TRUE(has(process.output(), "SIGTERM: stopped"));
  EXPECT_TRUE(half_written(folder / "a").empty());
}

// Also where several begin within a second.
TEST(RunDirectory, IsANewOneWithoutAName) {
  TemporaryFolder folder;
  Config config;
  config.config_file = "a.yml";
  config.base_output_directory = folder / "";
  const RunDirectory one(config), two(config), three(config);
  EXPECT_EQ(folder.file_count(), 3u);
}

// What rm -rf leaves where a file is made anew behind its back.
TEST(RunDirectory, IsNoLongerThereWithoutItsLock) {
  TemporaryFolder folder;
  Config config;
  config.base_output_directory = folder / "";
  config.run_name = "a";
  const RunDirectory directory(config);
  directory.require_there();
  fs::remove(folder / "a/lock");
  EXPECT_THROW(directory.require_there(), FileError);
}

TEST(RunDirectory, IsOfOneProcessAtATime) {
  TemporaryFolder folder;
  Process process(tiny_train(folder / "", "steps=100000 run_name=a"), folder / "log");
  ASSERT_TRUE(process.wait_for("completed step: 0"));
  const ProgramResult second = run_tiny(folder, "steps=100000 run_name=a");
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_TRUE(has(second.output, "process " + std::to_string(process.id()) + " trains there"));
  process.send(SIGKILL);
  process.wait();
  EXPECT_EQ(run_tiny(folder, "steps=2 run_name=a").exit_code, 0) << "the lock is gone with it";
}

TEST(Resume, GoesOnFromMetricsThatWereCutOff) {
  TemporaryFolder folder;
  const std::string settings = "steps=6 checkpoint_period=2 max_num_checkpoints_to_keep=-1 ";
  // Updates that the next step would have made are in the checkpoints, too.
  for (const char* run : {"a optimizer_memory_host_offload=true", "b"})
    ASSERT_EQ(run_tiny(folder, settings + "run_name=" + run).exit_code, 0);
  fs::remove_all(folder / "a/checkpoints/00000006");
  std::ofstream(folder / "a/metrics.jsonl", std::ios::app) << R"({"step":6,"los)";
  fs::create_directories(folder / "a/checkpoints/00000006.partial-1/model");
  const ProgramResult again = run_tiny(folder, settings + "run_name=a");
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_TRUE(has(again.output, "after 4 steps"));
  EXPECT_EQ(losses(folder / "a").size(), 6u);
  EXPECT_EQ(losses(folder / "a"), losses(folder / "b"));
  EXPECT_EQ(saved_files(folder / "a", 6), saved_files(folder / "b", 6));
  EXPECT_TRUE(half_written(folder / "a").empty());

  // In a folder of its own, from another run's checkpoint.
  ASSERT_EQ(run_tiny(folder, settings + "run_name=c load_full_state_path=" +
                                 (folder / "a/checkpoints/00000002").string())
                .exit_code,
            0);
  auto expected = losses(folder / "b");
  expected.erase(0);
  expected.erase(1);
  EXPECT_EQ(losses(folder / "c"), expected);
  EXPECT_EQ(saved_files(folder / "c", 6), saved_files(folder / "b", 6));
  // Said where it is another than that in which the run began.
  for (const char* run : {"b", "c"})
    EXPECT_EQ(has(run_tiny(folder, settings + "run_name=" + run + " load_full_state_path=" +
                                       (folder / "a/checkpoints/00000002").string())
                      .output,
                  "load_full_state_path is not read"),
              run == std::string("b"))
        << run;
}

std::string target_of(const fs::path& link) { return fs::read_symlink(link).string(); }

TEST(Resume, MendsLinksThatLeadToAnEarlierCheckpoint) {
  TemporaryFolder folder;
  const std::string settings = "steps=4 checkpoint_period=2 run_name=a ";
  ASSERT_EQ(run_tiny(folder, settings).exit_code, 0);
  const fs::path link = folder / "a/model";
  const std::string newest = target_of(link);
  EXPECT_EQ(newest, "checkpoints/00000004/model");
  fs::remove(link);
  fs::create_directory_symlink("checkpoints/00000002/model", link);  // as after a kill
  EXPECT_EQ(run_tiny(folder, settings).exit_code, 0);
  EXPECT_EQ(target_of(link), newest);

  // What is no link, as in a copy of a run, makes way for the new weights and is kept.
  fs::remove(link);
  fs::create_directories(link / "mine");
  const ProgramResult more =
      run_tiny(folder, "steps=8 checkpoint_period=2 max_num_checkpoints_to_keep=1 run_name=a");
  EXPECT_EQ(more.exit_code, 0) << more.output;
  EXPECT_TRUE(has(more.output, "weights, as Hugging Face's libraries read them"));
  EXPECT_EQ(target_of(link), "checkpoints/00000008/model");
  EXPECT_TRUE(fs::exists(folder / "a/model.before/mine"));
  EXPECT_FALSE(fs::exists(folder / "a/checkpoints/00000006"));
}

// As a scheduler starts a job again that had done its work.
TEST(Resume, KeepsTheSummaryOfARunThatHasEnded) {
  TemporaryFolder folder;
  const std::string settings = "steps=2 run_name=a";
  ASSERT_EQ(run_tiny(folder, settings).exit_code, 0);
  auto summary = [&] {
    std::ifstream file(folder / "a/summary.json");
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string before = summary();
  const ProgramResult again = run_tiny(folder, settings);
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_TRUE(has(again.output, "all its steps are done"));
  EXPECT_EQ(summary(), before);
  fs::remove(folder / "a/summary.json");  // as where it was killed before it wrote that
  EXPECT_EQ(run_tiny(folder, settings).exit_code, 0);
  EXPECT_NE(summary(), "");

  const ProgramResult wrong =
      run_tiny(folder, "steps=4 load_full_state_path=" + (folder / "a").string());
  EXPECT_EQ(wrong.exit_code, 2) << wrong.output;
  EXPECT_TRUE(has(wrong.output, "load_full_state_path: "));
  EXPECT_TRUE(has(wrong.output, "nearest: " + (folder / "a/checkpoints/00000002").string()));
}

// Also one that is not in the parts by which a resumed run recognises its files.
TEST(TokenFiles, AChangedTokenEndsTheRun) {
  TemporaryFolder folder;
  const fs::path text = folder / "text.tokens";
  data::TokenFileWriter writer(text, 61, 0);
  writer.append(std::vector(10 << 20, 7));
  writer.finish();
  auto run = [&](const std::string& settings) {
    std::string command = tiny_train(folder / "", "run_name=a " + settings);
    const std::string synthetic = "dataset_type=synthetic ";
    command.replace(command.find(synthetic), synthetic.size(),
                    "dataset_type=tokens dataset_path=" + text.string() + " ");
    return run_program(command);
  };
  ASSERT_EQ(run("steps=2").exit_code, 0);
  const std::string identity = data::TokenFile(text).identity();
  std::fstream(text).seekp(150 << 10).put(8);
  ASSERT_EQ(data::TokenFile(text).identity(), identity);
  const ProgramResult changed = run("steps=4");
  EXPECT_EQ(changed.exit_code, 1);
  EXPECT_TRUE(has(changed.output, text.string() + ": changed since it was written"));
  EXPECT_FALSE(fs::exists(folder / "a/checkpoints/00000004"));
  EXPECT_EQ(run("steps=4 verify_token_files=false").exit_code, 0);
}

// Of which the part with the changed token tells apart this run's files from another's.
TEST(TokenFiles, AChangedTokenOfASmallFileIsSaidToBeOne) {
  TemporaryFolder folder;
  const fs::path text = folder / "text.tokens";
  data::TokenFileWriter writer(text, 61, 0);
  for (int32_t token = 0; token < 61; ++token) writer.append(std::vector(10, token));
  writer.finish();
  auto run = [&](const std::string& settings) {
    std::string command = tiny_train(folder / "", "run_name=a " + settings);
    const std::string synthetic = "dataset_type=synthetic ";
    command.replace(command.find(synthetic), synthetic.size(),
                    "dataset_type=tokens dataset_path=" + text.string() + " ");
    return run_program(command);
  };
  ASSERT_EQ(run("steps=2").exit_code, 0);
  const std::string whole = data::read_file(text);
  for (const auto& [place, what] : {std::pair{100, "its contents have"}, {40, "its header has"}}) {
    std::fstream(text).seekp(place).put(60);
    const ProgramResult changed = run("steps=4");
    EXPECT_EQ(changed.exit_code, 1);
    EXPECT_TRUE(has(changed.output, text.string() + ": changed since it was written: " + what))
        << changed.output;
    EXPECT_FALSE(has(changed.output, "another run"));
    std::ofstream(text) << whole;
  }
  std::fstream(text).seekp(100).put(60);
  const ProgramResult other = run("steps=4 verify_token_files=false");
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_TRUE(has(other.output, "is of another run")) << other.output;
}

// One that comes after a save, when the process was stopped or killed between them.
TEST(Resume, MakesUpForAnEvaluation) {
  TemporaryFolder folder;
  const fs::path text = folder / "text.tokens";
  data::TokenFileWriter writer(text, 61, 0);
  for (int32_t token = 0; token < 61; ++token) writer.append(std::vector(10, token));
  writer.finish();
  auto run = [&](const std::string& settings) {
    std::string command = tiny_train(folder / "", settings);
    const std::string without = "dataset_type=synthetic eval_dataset_path= ";
    command.replace(command.find(without), without.size(),
                    "dataset_type=tokens dataset_path=" + text.string() +
                        " eval_dataset_path=" + text.string() + " eval_interval=2 ");
    return run_program(command);
  };
  auto evaluations = [&](const char* name) {
    std::set<std::string> lines;
    std::ifstream file(folder / name / "metrics.jsonl");
    for (std::string line; std::getline(file, line);)
      if (nlohmann::json record = nlohmann::json::parse(line); record.contains("validation_loss")) {
        record.erase("time");
        lines.insert(record.dump());
      }
    return lines;
  };
  // Also of updates that the next step would have made.
  const std::string resumed = " run_name=resumed optimizer_memory_host_offload=true";
  for (const std::string& settings :
       {std::string("steps=6 run_name=straight"), "steps=2" + resumed})
    ASSERT_EQ(run(settings).exit_code, 0);
  ASSERT_EQ(evaluations("straight").size(), 3u);
  ASSERT_EQ(evaluations("resumed").size(), 1u);
  const fs::path metrics = folder / "resumed/metrics.jsonl";
  std::string steps;
  std::ifstream before(metrics);
  for (std::string line; std::getline(before, line);)
    if (line.find("validation_loss") == std::string::npos) steps += line + "\n";
  std::ofstream(metrics) << steps;
  EXPECT_EQ(run("steps=6" + resumed).exit_code, 0);
  EXPECT_EQ(evaluations("resumed"), evaluations("straight"));
}

TEST(Resume, LeavesNoSummaryOfFewerSteps) {
  TemporaryFolder folder;
  ASSERT_EQ(run_tiny(folder, "steps=2 run_name=a").exit_code, 0);
  EXPECT_TRUE(fs::exists(folder / "a/summary.json"));
  Process process(tiny_train(folder / "", "steps=100000 run_name=a"), folder / "log");
  ASSERT_TRUE(process.wait_for("completed step: 3"));
  EXPECT_FALSE(fs::exists(folder / "a/summary.json"));
  process.send(SIGKILL);
  process.wait();
}

TEST(Resume, RefusesAnotherRunAndNamesBothValues) {
  TemporaryFolder folder;
  ASSERT_EQ(run_tiny(folder, "steps=2 run_name=a").exit_code, 0);
  const std::string config = data::read_file(folder / "a/config.yml");
  const ProgramResult other =
      run_tiny(folder,
               "steps=1 run_name=a seed=5 learning_rate=0.1 trainable_parameters_mask=norm "
               "gradient_accumulation_steps=2 moment_dtype=8bit remat_policy=full");
  EXPECT_EQ(other.exit_code, 2);
  for (const char* words :
       {"seed: 5 here (command line), 0 there", "learning_rate: 0.1 here (command line), 0.002",
        "gradient_accumulation_steps: 2 here", "moment_dtype: 8bit here (command line), float32",
        "trainable_parameters_mask: ", "steps: 1 here (command line), 2 done there"})
    EXPECT_TRUE(has(other.output, words));
  EXPECT_FALSE(has(other.output, "remat_policy:"));
  EXPECT_EQ(saved_files(folder / "a", 2).size(), 3u);
  EXPECT_EQ(data::read_file(folder / "a/config.yml"), config);
}

TEST(Damage, IsNamedAndNeverPassedOverInSilence) {
  TemporaryFolder folder;
  const std::string settings = "steps=4 checkpoint_period=2 run_name=a ";
  ASSERT_EQ(run_tiny(folder, settings).exit_code, 0);
  const auto expected = losses(folder / "a");
  const fs::path file = folder / "a/checkpoints/00000004/optimizer.safetensors";
  fs::resize_file(file, fs::file_size(file) - 1);
  const ProgramResult refused = run_tiny(folder, settings);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(has(refused.output, file.string() + ": found "));
  const ProgramResult earlier = run_tiny(folder, settings + "fall_back_to_earlier_checkpoint=true");
  EXPECT_EQ(earlier.exit_code, 0) << earlier.output;
  EXPECT_TRUE(has(earlier.output, "the damaged checkpoint is now "));
  EXPECT_TRUE(has(earlier.output, "resumes from " + (folder / "a/checkpoints/00000002").string()));
  EXPECT_EQ(losses(folder / "a"), expected);
  saved_files(folder / "a", 4);
}

// The moments do not fit: every save fails, and training goes on.
TEST(DiskFull, EndsNoTraining) {
  TemporaryFolder folder;
  const std::string settings = "steps=5 checkpoint_period=2 run_name=";
  ASSERT_EQ(run_tiny(folder, settings + "b").exit_code, 0);
  const uintmax_t weights = fs::file_size(folder / "b/model/model.safetensors");
  const ProgramResult full =
      run_tiny(folder, settings + "a",
               "trap '' XFSZ; ulimit -f " + std::to_string((weights + weights / 2) / 512) + "; ");
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_TRUE(has(full.output, "checkpoint after 2 steps failed: "));
  EXPECT_TRUE(has(full.output, "optimizer.safetensors"));
  EXPECT_TRUE(has(full.output, "cannot write: File too large"));
  EXPECT_TRUE(has(full.output, "the last save, after 5 steps, failed"));
  EXPECT_EQ(losses(folder / "a"), losses(folder / "b"));
  EXPECT_FALSE(fs::exists(folder / "a/model"));
  EXPECT_TRUE(half_written(folder / "a").empty());

  const ProgramResult with_room = run_tiny(folder, settings + "a");
  EXPECT_EQ(with_room.exit_code, 0) << with_room.output;
  EXPECT_EQ(losses(folder / "a"), losses(folder / "b"));
  EXPECT_EQ(saved_files(folder / "a", 5), saved_files(folder / "b", 5));
}

// Training goes on without its records, but does not end as if they were there.
TEST(DiskFull, LosesNoRecordInSilence) {
  TemporaryFolder folder;
  const ProgramResult full =
      run_tiny(folder, "steps=100 run_name=a enable_checkpointing=false", "ulimit -f 32; ");
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_TRUE(has(full.output, "completed step: 99"));
  EXPECT_TRUE(has(full.output, "train: " + (folder / "a/metrics.jsonl").string() +
                                   ": cannot be written: File too large"));
  EXPECT_FALSE(fs::exists(folder / "a/summary.json"));
}

// A small file system, where root may have one.
class SmallDisk {
 public:
  explicit SmallDisk(fs::path path) : path_(std::move(path)) {
    fs::create_directory(path_);
    is_there_ = mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=1m") == 0;
  }
  ~SmallDisk() {
    if (is_there_) umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool is_there() const { return is_there_; }
  bool remount(unsigned long flags, const char* options) {
    return mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT | flags, options) == 0;
  }

 private:
  fs::path path_;
  bool is_there_ = false;
};

TEST(DiskFull, LeavesTheLastCheckpoint) {
  TemporaryFolder folder;
  SmallDisk disk(folder / "disk");
  if (!disk.is_there()) GTEST_SKIP() << "this takes a tmpfs, which only root may mount";
  const std::string settings = "steps=5 checkpoint_period=1 max_num_checkpoints_to_keep=-1 ";
  ASSERT_EQ(run_tiny(folder, settings + "run_name=b").exit_code, 0);
  const std::string there = tiny_train(folder / "disk", settings + "run_name=a");
  const ProgramResult full = run_program(there);
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_TRUE(has(full.output, "No space left on device"));
  EXPECT_TRUE(has(full.output, "completed step: 4"));
  saved_files(folder / "disk/a", 1);
  EXPECT_TRUE(half_written(folder / "disk/a").empty());

  ASSERT_TRUE(disk.remount(MS_RDONLY, "size=1m"));
  const ProgramResult read_only = run_program(there);
  EXPECT_EQ(read_only.exit_code, 1);
  EXPECT_TRUE(has(read_only.output, "Read-only file system"));
  EXPECT_TRUE(has(read_only.output, (folder / "disk/a").string()));

  ASSERT_TRUE(disk.remount(0, "size=100m"));
  const ProgramResult again = run_program(there);
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_TRUE(has(again.output, "resumes from "));
  EXPECT_EQ(losses(folder / "disk/a"), losses(folder / "b"));
  EXPECT_EQ(saved_files(folder / "disk/a", 5), saved_files(folder / "b", 5));
}

// A learning rate that no weights survive: the gradients of the second step are NaN.
const std::string kDiverging = "learning_rate=1e30 warmup_steps_fraction=0 ";

TEST(NonFinite, StopsAndKeepsTheBatchAndTheCheckpoint) {
  TemporaryFolder folder;
  const ProgramResult stopped = run_tiny(folder, kDiverging +
                                                     "steps=5 checkpoint_period=1 "
                                                     "run_name=a");
  EXPECT_EQ(stopped.exit_code, 1);
  EXPECT_TRUE(has(stopped.output, "train: step 1: loss "));
  const fs::path checkpoint = folder / "a/checkpoints/00000001",
                 dump = folder / "a/non-finite-step-1.safetensors";
  EXPECT_TRUE(has(stopped.output, "goes on from it: " + checkpoint.string()));
  saved_files(folder / "a", 1);
  EXPECT_FALSE(fs::exists(folder / "a/checkpoints/00000002"));

  EXPECT_TRUE(has(stopped.output, dump.string()));
  const ProbeInputs inputs = read_probe_inputs(dump, {.vocabulary = 61});
  const data::Batch batch = data::synthetic_batches({2, 32}, 61, 0)(1);
  EXPECT_EQ(inputs.batch.total_weights, batch.total_weights);
  for (int64_t row = 0; row < 2; ++row)
    for (int64_t i = 0; i < 32; ++i) {
      EXPECT_EQ(inputs.batch["tokens"][row * 33 + i], batch["tokens"][row * 32 + i]);
      EXPECT_EQ(inputs.batch["targets"][row * 33 + i], batch["targets"][row * 32 + i]);
      EXPECT_EQ(inputs.batch["positions"][row * 33 + i], batch["positions"][row * 32 + i]);
    }
}

TEST(NonFinite, KeepsEachMicroBatch) {
  TemporaryFolder folder;
  const ProgramResult stopped =
      run_tiny(folder, kDiverging + "steps=5 gradient_accumulation_steps=2 run_name=a");
  EXPECT_EQ(stopped.exit_code, 1);
  for (int64_t i = 0; i < 2; ++i) {
    const fs::path dump = folder / fmt::format("a/non-finite-step-1-micro-batch-{}.safetensors", i);
    EXPECT_TRUE(has(stopped.output, dump.string()));
    const std::vector<int32_t> found = read_probe_inputs(dump, {.vocabulary = 61}).batch["tokens"],
                               expected = data::synthetic_batches({2, 32}, 61, 0)(2 + i)["tokens"];
    EXPECT_TRUE(std::equal(found.begin(), found.begin() + 32, expected.begin())) << dump;
  }
}

TEST(NonFinite, IsSkippedWithoutATrace) {
  for (const char* place :
       {"", "optimizer_memory_host_offload=true optimizer_compute=host moment_dtype=8bit"}) {
    TemporaryFolder folder;
    const std::string settings = kDiverging + place + " on_non_finite=skip ";
    ASSERT_EQ(run_tiny(folder, settings + "steps=1 run_name=a").exit_code, 0);
    const ProgramResult skipped = run_tiny(folder, settings + "steps=4 run_name=b");
    EXPECT_EQ(skipped.exit_code, 0) << skipped.output;
    for (const char* step : {"step 1: ", "step 2: ", "step 3: "})
      EXPECT_TRUE(has(skipped.output, step));
    EXPECT_TRUE(has(skipped.output, "skipped: weights and moments are as before"));
    EXPECT_EQ(saved_files(folder / "a", 1), saved_files(folder / "b", 4)) << place;
  }
  TemporaryFolder folder;
  const ProgramResult refused =
      run_tiny(folder, "on_non_finite=skip gradient_clipping_threshold=0");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(has(refused.output, "gradient_clipping_threshold = 0"));
  const ProgramResult by_norm_before =
      run_tiny(folder, "on_non_finite=skip gradient_clipping=previous_global_norm");
  EXPECT_EQ(by_norm_before.exit_code, 2);
  EXPECT_TRUE(has(by_norm_before.output, "gradient_clipping = previous_global_norm"))
      << by_norm_before.output;
}

#ifndef __SANITIZE_ADDRESS__

// A process from which the address space is taken in the middle of its run.
TEST(OutOfMemory, InMidRunIsExplainedAndLeavesTheCheckpoint) {
  TemporaryFolder folder;
  // So that each batch asks the system for memory, and oneDNN's kernels, which do not look at what
  // they are given, do not.
  const std::string malloc =
      "env MALLOC_MMAP_THRESHOLD_=24000 MALLOC_ARENA_MAX=1 MALLOC_TOP_PAD_=0 ";
  Process process(
      malloc + tiny_train(folder / "", "steps=100000 run_name=a checkpoint_period=5", 4096),
      folder / "log");
  // Between two saves, of which the first would give back what the second takes, and when all small
  // things have been there once: where oneDNN finds no memory for one of its own, it crashes.
  ASSERT_TRUE(process.wait_for("checkpoint after 5 steps: "));
  uint64_t pages = 0;
  std::ifstream("/proc/" + std::to_string(process.id()) + "/statm") >> pages;
  const rlim_t bytes = pages * 4096 - (rlim_t{1} << 20);
  const rlimit limit{bytes, bytes};
  ASSERT_EQ(prlimit(process.id(), RLIMIT_AS, &limit, nullptr), 0);
  EXPECT_EQ(process.wait(), 2);
  for (const char* words : {"train: after ", "alive ", "planned ", "The last checkpoint is whole",
                            "would take less with"})
    EXPECT_TRUE(has(process.output(), words));
  EXPECT_TRUE(process.output().find("std::bad_alloc") != std::string::npos ||
              process.output().find(": out of memory") != std::string::npos);
  EXPECT_TRUE(newest_checkpoint(folder / "a" / kCheckpointsFolder, OnDamage::refuse,
                                [](const std::string& text) { ADD_FAILURE() << text; }));
}

#endif

TEST(OutOfMemory, IsRecognisedByTypeOrMessage) {
  EXPECT_TRUE(is_out_of_memory(std::bad_alloc()));
  EXPECT_TRUE(
      is_out_of_memory(OutOfMemoryError("device: asked for 1.00 GiB, 0 bytes are available")));
  EXPECT_FALSE(is_out_of_memory(PlanError("short by 1.00 GiB on the device")));
  EXPECT_TRUE(is_out_of_memory(std::runtime_error("CUDA out of memory. Tried to allocate 2 GiB")));
  EXPECT_FALSE(is_out_of_memory(DataError("a.jsonl:41: no valid JSON")));
}

// What is alive stands beside what was planned.
TEST(OutOfMemory, MessageComparesLiveWithPlannedBytes) {
  const Config config = load_config("quickstart.yml", {}, default_configs_directory());
  const TrainingPlans plans = plan_training({config, models::Target::cpu});
  const MemoryByKind planned = analyze(plans);
  offload::Ledger ledger;
  ledger.take(offload::MemoryKind::device, offload::Category::optimizer, int64_t{3} << 20);
  ledger.take(offload::MemoryKind::device, offload::Category::kept, int64_t{9} << 20);
  ledger.give(offload::MemoryKind::device, offload::Category::kept, int64_t{5} << 20);
  const std::string account = memory_account(ledger, planned);
  EXPECT_TRUE(
      has(account, "alive 7.0 MiB (optimizer 3.0 MiB, kept 4.0 MiB), planned " +
                       offload::bytes_text(planned[offload::MemoryKind::device].peak_bytes)));
}

}  // namespace
}  // namespace longshore::trainer
