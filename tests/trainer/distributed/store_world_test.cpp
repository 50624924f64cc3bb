#include "trainer/distributed/store_world.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "tests/trainer/distributed/store_worlds.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

TEST(StoreWorld, GathersByRank) {
  for (int64_t size : {2, 4})
    on_ranks(size, [&](World& world) {
      EXPECT_EQ(world.size(), size);
      for (int round = 0; round < 50; ++round) {
        // One of them is late, and texts are of different lengths, down to none.
        if (round % size == world.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        std::vector<std::string> expected;
        for (int64_t rank = 0; rank < size; ++rank)
          expected.push_back(std::string(rank * (round % 3), static_cast<char>('a' + round % 26)));
        EXPECT_EQ(world.gather(expected[world.rank()]), expected);
        EXPECT_EQ(world.sum(round * (world.rank() + 1)), round * size * (size + 1) / 2);
      }
    });
}

// What one sends another arrives in order, while another thread gathers.
TEST(StoreWorld, SendsBesideGathers) {
  on_ranks(3, [](World& world) {
    std::jthread pairs([&] {
      constexpr int64_t kBytes = (9 << 20) + 1;  // the store takes 8 MiB at once
      std::vector<std::byte> bytes(kBytes);
      for (int round = 0; round < 10; ++round) {
        const auto expected = static_cast<std::byte>(round);
        if (!world.is_first()) {
          std::ranges::fill(bytes, static_cast<std::byte>(round + world.rank()));
          world.send(0, bytes);
          std::byte answer{};
          world.receive(0, {&answer, 1});
          EXPECT_EQ(answer, expected);
        } else {
          for (int64_t rank : {2, 1}) {
            world.receive(rank, bytes);
            EXPECT_EQ(std::ranges::count(bytes, static_cast<std::byte>(round + rank)), kBytes);
            world.send(rank, {&expected, 1});
          }
        }
      }
    });
    for (int round = 0; round < 50; ++round) EXPECT_EQ(world.sum(1), 3);
  });
}

TEST(StoreWorld, SaysWhatDoesNotAnswer) {
  StoreLaunch launch = store_launch(1, 2, 1);
  launch.patience = std::chrono::seconds(2);
  launch.launch.master_address = "no.such.host.invalid";
  try {
    connect_by_store(launch);
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_THAT(text, HasSubstr("connecting to no.such.host.invalid"));
    EXPECT_THAT(text, Not(HasSubstr("\n")));
  }
}

TEST(StoreWorld, WaitsForOthersNoLongerThanItIsTold) {
  StoreLaunch launch = store_launch(0, 2, free_port());
  launch.patience = std::chrono::seconds(1);
  try {
    connect_by_store(launch);
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("not all 2 processes came within 1 s; ")) << text;
  }
}

// Runs in a process of its own, with what it says in `log`. It gets the signal when all are there;
// 0: none.
pid_t start_rank(StoreLaunch launch, const fs::path& log, int signal) {
  const pid_t id = fork();
  if (id != 0) return id;
  dup2(open(log.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600), STDERR_FILENO);
  launch.silence = std::chrono::seconds(2);
  auto world = connect_by_store(launch);
  world->gather("");
  if (signal != 0) raise(signal);
  world->gather("");
  _exit(0);
}

// Rank 0 hosts the store.
TEST(StoreWorld, EndsWithAStoreThatStandsStill) {
  const fs::path folder = fs::path(testing::TempDir()) / "store_world";
  fs::create_directories(folder);
  const int64_t port = free_port();
  const pid_t host = start_rank(store_launch(0, 2, port), folder / "host", SIGSTOP);
  const pid_t other = start_rank(store_launch(1, 2, port), folder / "other", 0);
  int status = 0;
  waitpid(other, &status, 0);
  kill(host, SIGKILL);
  waitpid(host, nullptr, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
  std::ifstream file(folder / "other");
  const std::string said(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(said, HasSubstr("torchrun's store has not answered for 2 s"));
}

TEST(StoreWorld, EndsWithTheOneThatIsKilled) {
  constexpr int kRanks = 3, kKilled = 1;
  const fs::path folder = fs::path(testing::TempDir()) / "store_world";
  fs::create_directories(folder);
  const int64_t port = free_port();
  std::array<pid_t, kRanks> ids{};
  auto log = [&](int rank) { return folder / std::to_string(rank); };
  for (int rank = 0; rank < kRanks; ++rank)
    ids[rank] =
        start_rank(store_launch(rank, kRanks, port), log(rank), rank == kKilled ? SIGKILL : 0);
  const auto start = std::chrono::steady_clock::now();
  bool is_named = false;
  for (int rank = 0; rank < kRanks; ++rank) {
    int status = 0;
    waitpid(ids[rank], &status, 0);
    if (rank == kKilled) continue;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << rank << ": " << status;
    std::ifstream file(log(rank));
    const std::string said(std::istreambuf_iterator<char>(file), {});
    is_named = is_named || said.find("rank 1 has not been heard of") != std::string::npos;
  }
  EXPECT_TRUE(is_named);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

}  // namespace
}  // namespace longshore::trainer
