#include "tests/trainer/checkpoint/kill_test.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <random>

#include "longshore/trainer/config/run_files.h"
#include "tests/data/temporary_folder.h"
#include "tests/trainer/checkpoint/tiny_run.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using data::TemporaryFolder;

constexpr int kSteps = 20;

int64_t newest_step(const fs::path& run) {
  auto newest = newest_checkpoint(run / kCheckpointsFolder, OnDamage::refuse,
                                  [](const std::string& text) { ADD_FAILURE() << text; });
  return newest ? newest->manifest.step : 0;
}

}  // namespace

void kill_and_resume(int kills, unsigned seed) {
  TemporaryFolder folder;
  // Saves at each step, by turns behind the steps and before them, so that most kills hit one.
  auto command = [&](const std::string& name, int start) {
    return tiny_train(folder / "", "steps=" + std::to_string(kSteps) + " run_name=" + name +
                                       " checkpoint_period=1 async_checkpointing=" +
                                       (start % 2 ? "false" : "true"));
  };
  const auto begin = Clock::now();
  const ProgramResult reference = run_program(command("reference", 0));
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  ASSERT_EQ(reference.exit_code, 0) << reference.output;

  std::mt19937 random(seed);
  // Follows the machine, whose speed may change, so that every other start saves something.
  double latest = 0.7 * seconds;
  int done = 0, within_saves = 0, resumes = 0, ends = 0;
  for (int run = 0; done < kills; ++run) {
    const std::string name = "killed-" + std::to_string(run);
    int64_t reached = 0;
    for (bool has_ended = false; !has_ended;) {
      const fs::path log = folder / "log";
      Process process(command(name, done), log);
      // The last starts may end in peace.
      if (done < kills)
        usleep(static_cast<useconds_t>(1e6 * std::uniform_real_distribution(0., latest)(random)));
      if (done < kills) process.send(SIGKILL);
      const int status = process.wait();
      has_ended = status == 0;
      ASSERT_TRUE(has_ended || status == -SIGKILL) << status << "\n" << process.output();
      if (!has_ended) {
        ++done;
        within_saves += !half_written(folder / name / kCheckpointsFolder).empty();
      }
      resumes += process.output().find("resumes from ") != std::string::npos;
      const int64_t now = newest_step(folder / name);
      latest *= now > reached ? 0.95 : 1.05;
      EXPECT_GE(now, reached) << "a checkpoint is lost";
      reached = now;
    }
    ++ends;
    EXPECT_EQ(losses(folder / name), losses(folder / "reference"));
    EXPECT_EQ(saved_files(folder / name, kSteps), saved_files(folder / "reference", kSteps));
    EXPECT_TRUE(half_written(folder / name).empty());
  }
  std::printf("%d kills, %d within saves, %d resumes, %d runs to the end\n", done, within_saves,
              resumes, ends);
  if (kills >= 100) {
    EXPECT_GT(within_saves, kills / 20);
    EXPECT_GT(resumes, kills / 10);
  }
}

}  // namespace longshore::trainer
