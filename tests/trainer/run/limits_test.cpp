// Programs under limits on address space and threads: they work, or say which limit is too low.
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/data/temporary_folder.h"
#include "tests/trainer/checkpoint/tiny_run.h"

// Sanitizers reserve address space, and start a thread of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using data::TemporaryFolder;

// As the shell's `ulimit` and prlimit(1) start it: by another user, since root has no limit on
// threads.
ProgramResult run_limited(const std::string& command, int resource, rlim_t most,
                          const fs::path& log) {
  const pid_t id = fork();
  if (id == 0) {
    const rlimit limit{most, most};
    setrlimit(static_cast<__rlimit_resource>(resource), &limit);
    const std::string line = "exec " + command + " > " + log.string() + " 2>&1";
    if (resource == RLIMIT_NPROC && getuid() == 0)
      if (setgroups(0, nullptr) != 0 || setuid(54321) != 0) _exit(99);
    execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  waitpid(id, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), data::read_file(log)};
}

// Whether it worked.
bool works_or_names(const std::string& limit, const ProgramResult& result) {
  // Before there is a program, the loader says what it cannot map.
  if (result.output.find("failed to map segment") != std::string::npos) return false;
  EXPECT_TRUE(result.exit_code == 0 || result.exit_code == 2)
      << limit << ": " << result.exit_code << "\n"
      << result.output;
  const bool is_named = result.output.find(limit) != std::string::npos;
  EXPECT_TRUE(result.exit_code == 0 || is_named) << limit << "\n" << result.output;
  EXPECT_EQ(result.output.find("terminate called"), std::string::npos) << result.output;
  return result.exit_code == 0;
}

TEST(AddressSpace, IsEnoughOrSaidToBeTooLittle) {
  TemporaryFolder folder;
  int worked = 0;
  constexpr rlim_t kKib[] = {300'000, 700'000, 1'000'000, 16'000'000};
  for (const rlim_t kib : kKib)
    worked += works_or_names(
        "ulimit -v " + std::to_string(kib) + " KiB",
        run_limited(tiny_train(folder / "", "steps=2"), RLIMIT_AS, kib * 1024, folder / "log"));
  EXPECT_GE(worked, 1);
  EXPECT_LT(worked, static_cast<int>(std::size(kKib)));
}

TEST(Threads, AreEnoughOrSaidToBeTooFew) {
  TemporaryFolder folder;
  fs::permissions(folder / "", fs::perms::all);
  const std::string command = "env OMP_NUM_THREADS=3 " + tiny_train(folder / "", "steps=2");
  const ProgramResult unlimited = run_limited(command, RLIMIT_NPROC, RLIM_INFINITY, folder / "log");
  if (unlimited.exit_code != 0)
    GTEST_SKIP() << "the user whom the limit would bind cannot train here:\n" << unlimited.output;
  int worked = 0;
  constexpr rlim_t kThreads[] = {1, 3, 4, 6, 64};
  for (const rlim_t threads : kThreads)
    worked += works_or_names("ulimit -u " + std::to_string(threads),
                             run_limited(command, RLIMIT_NPROC, threads, folder / "log"));
  EXPECT_GE(worked, 1);
  EXPECT_LT(worked, static_cast<int>(std::size(kThreads)));
}

}  // namespace
}  // namespace longshore::trainer

#endif
