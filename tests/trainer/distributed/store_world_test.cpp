#include "longshore/trainer/distributed/store_world.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <sstream>

#include "longshore/base/error.h"
#include "longshore/base/file_descriptor.h"
#include "tests/message_of.h"
#include "tests/trainer/distributed/store_worlds.h"

// The store's daemon in LibTorch keeps buffers of connections that broke off.
extern "C" const char* __lsan_default_suppressions() { return "leak:c10d::detail::UvTcpSocket"; }

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

// Only a stranger's are so large.
TEST(StoreWorld, SumsThatAreNoNumberAreRefused) {
  on_ranks(2, [](World& world) { EXPECT_THROW(world.sum(INT64_MAX), Error); });
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

// Addresses at which a process listens on that port: of IPv4, as /proc/net/tcp has them.
std::vector<std::string> listeners(int64_t port) {
  std::vector<std::string> found;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line, number, local, remote, state;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      fields >> number >> local >> remote >> state;
      const size_t colon = local.find(':');
      constexpr const char* kListens = "0A";
      if (state == kListens && std::stoll(local.substr(colon + 1), nullptr, 16) == port)
        found.push_back(local.substr(0, colon));
    }
  }
  return found;
}

TEST(StoreWorld, ListensAtTheAddressOfTheFirstAlone) {
  auto of_host = [](const char* host, bool has_other_nodes) {
    StoreLaunch launch = store_launch(0, 1, free_port());
    launch.launch.master_address = host;
    launch.has_other_nodes = has_other_nodes;
    testing::internal::CaptureStderr();
    const auto world = connect_by_store(launch);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.empty(), !has_other_nodes) << said;
    return listeners(launch.launch.master_port);
  };
  constexpr const char* kLoopback = "0100007F";
  EXPECT_EQ(of_host("127.0.0.1", false), std::vector<std::string>{kLoopback});
  // As a name that is the first process's machine to itself, and not to others.
  for (const std::string& at : of_host("127.0.0.1", true)) EXPECT_NE(at, kLoopback);

  EXPECT_EQ(message_of<Error>([&] {
              StoreLaunch launch = store_launch(0, 1, free_port());
              launch.patience = std::chrono::seconds(1);
              launch.launch.master_address = "no.such\x1bhost.invalid";
              testing::internal::CaptureStderr();
              connect_by_store(launch);
            }).find('\x1b'),
            std::string::npos);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(
      said, HasSubstr("listens on all addresses of this machine: no.such\\x1bhost.invalid is not"));
  EXPECT_EQ(said.find('\x1b'), std::string::npos);

  const int64_t port = free_port();
  auto first = connect_by_store(store_launch(0, 1, port));
  EXPECT_THAT(message_of<Error>([&] { connect_by_store(store_launch(0, 1, port)); }),
              HasSubstr("torchrun's store, listening at 127.0.0.1, port " + std::to_string(port) +
                        ": Address already in use"));
}

// Somebody else on the network, who speaks the store's protocol.
class Stranger {
 public:
  explicit Stranger(int64_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(socket_.number(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("a stranger cannot connect");
  }

  void send(const std::string& bytes) const {
    (void)::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  static std::string number(uint64_t value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }
  static std::string text(const std::string& text) { return number(text.size()) + text; }
  static std::string greeting() { return {'\0', '\xce', '\xf7', '\x85', '\x3c'}; }
  static std::string set(const std::string& key, const std::string& value) {
    return "\1" + text(key) + text(value);
  }
  static std::string get(const std::string& key) { return "\3" + text(key); }
  static std::string add(const std::string& key) { return "\4" + text(key) + number(1); }

 private:
  FileDescriptor socket_;
};

TEST(StoreWorld, SurvivesStrangers) {
  const int64_t port = free_port();
  std::promise<void> strangers_came;
  std::shared_future<void> came = strangers_came.get_future().share();
  auto run = [&](int64_t rank) {
    auto world = connect_by_store(store_launch(rank, 2, port));
    EXPECT_EQ(world->sum(1), 2);
    came.wait();
    for (int round = 0; round < 20; ++round) EXPECT_EQ(world->sum(rank), 1);
  };
  std::jthread first(run, 0), second(run, 1);
  std::vector<std::unique_ptr<Stranger>> strangers;  // who stay
  using S = Stranger;
  const std::string large(4'000'000, 'x');
  for (const std::string& said :
       {std::string("GET / HTTP/1.0\r\n\r\n"), std::string(100'000, '\xa5'), std::string(1, '\0'),
        S::greeting() + std::string(100, '\xc8'), S::greeting() + S::set("n", "text") + S::add("n"),
        S::greeting() + "\1" + S::text("n") + S::number(uint64_t{1} << 62),
        S::greeting() + "\1" + S::text("n") + S::number(100) + "half",
        S::greeting() + "\13" + S::number(uint64_t{1} << 61),
        S::greeting() + S::set("n", large) + S::get("n") + S::get("n") + S::get("n")}) {
    for (int tries = 0;; ++tries) try {
        strangers.push_back(std::make_unique<S>(port));
        break;
      } catch (const std::runtime_error&) {  // the store is not there yet
        if (tries == 500) throw;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    strangers.back()->send(said);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  strangers_came.set_value();
}

// One that takes the place of rank 1.
TEST(StoreWorld, SaysWhereWordsStandForANumber) {
  const int64_t port = free_port();
  std::jthread impostor([&] {
    for (int tries = 0; tries < 500; ++tries) try {
        const Stranger stranger(port);
        stranger.send(Stranger::greeting() + Stranger::set("//test/gather/0/1", "") +
                      Stranger::set("//test/gather/1/1", "text"));
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        return;
      } catch (const std::runtime_error&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
  });
  EXPECT_EQ(message_of<Error>([&] { connect_by_store(store_launch(0, 2, port))->sum(3); }),
            "the store: found 4 bytes of another program, expected a number of one of the "
            "processes");
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
