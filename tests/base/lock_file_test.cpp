#include "longshore/base/lock_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "longshore/base/error.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore {
namespace {

TEST(LockFile, IsHeldByOneAtATime) {
  data::TemporaryFolder folder;
  std::atomic<int> holders = 0, most = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] {
        const LockFile lock(folder / "a.lock", [] {});
        most = std::max<int>(most, ++holders);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        --holders;
      });
  }
  EXPECT_EQ(most, 1);
  EXPECT_EQ(folder.file_count(), 0u);
}

TEST(LockFile, IsWaitedForAsLongAsOneWants) {
  data::TemporaryFolder folder;
  const LockFile held(folder / "a.lock", [] {});
  const LockFile of_another_name(folder / "b.lock", [] { FAIL(); });
  int asked = 0;
  EXPECT_EQ(message_of<Error>([&] {
              LockFile(folder / "a.lock", [&] {
                if (++asked == 2) throw Error("enough");
              });
            }),
            "enough");
  EXPECT_TRUE(std::filesystem::exists(folder / "a.lock"));
}

TEST(LockFile, OfAProcessThatWasKilledKeepsNobodyOut) {
  data::TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const LockFile lock(folder / "a.lock", [] {});
    _exit(0);  // without giving it back
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(folder.file_count(), 1u);
  const LockFile lock(folder / "a.lock", [] { FAIL(); });
}

TEST(LockFile, ThatCannotBeMadeKeepsNobodyOut) {
  data::TemporaryFolder folder;
  const LockFile lock(folder / "none/a.lock", [] { FAIL(); });
}

}  // namespace
}  // namespace longshore
