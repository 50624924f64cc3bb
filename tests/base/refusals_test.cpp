#include "longshore/base/refusals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "longshore/base/error.h"
#include "longshore/base/exit_code.h"
#include "longshore/base/parallel.h"

namespace longshore {
namespace {

using testing::HasSubstr;

template <class Resource>
void limit(Resource resource, rlim_t most) {
  const rlimit both{most, most};
  if (setrlimit(resource, &both) != 0) _exit(99);
}

// Limits hold for a process, and those on threads not for root.
template <class Work>
void in_a_limited_process(int code, const std::string& words, Work work) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t id = fork();
  if (id == 0) {
    dup2(ends[1], STDERR_FILENO);
    _exit(exit_code_of("program", work));
  }
  close(ends[1]);
  std::string text;
  char piece[4096];
  for (ssize_t count; (count = read(ends[0], piece, sizeof piece)) > 0;)
    text.append(piece, static_cast<size_t>(count));
  close(ends[0]);
  int status = 0;
  waitpid(id, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == code) << status << ": " << text;
  EXPECT_THAT(text, HasSubstr(words));
}

// So many threads and processes of another user; the test's own may count.
void limit_threads(rlim_t most) {
  if (getuid() == 0 && setuid(54321) != 0) _exit(99);
  limit(RLIMIT_NPROC, most);
}

TEST(Refusals, OfThreadsSayHowManyAndWhichLimit) {
  in_a_limited_process(2, "threads: asked for 8 more, the system started ", [] {
    limit_threads(1);
    require_threads(8);
  });
  in_a_limited_process(2, "; limits: ulimit -u 1 (processes and threads of this user)", [] {
    limit_threads(1);
    std::thread([] {}).join();
  });
  require_threads(8);
}

TEST(Refusals, OfThreadsStopNoLoop) {
  in_a_limited_process(0, "", [] {
    limit_threads(1);
    std::atomic<int> sum = 0;
    parallel_for(100, [&](size_t i) { sum += static_cast<int>(i); });
    if (sum != 4950) throw std::logic_error("left something out");
  });
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which reserve address space
TEST(Refusals, OfMemorySayWhichLimit) {
  in_a_limited_process(2, "program: the system refused memory; limits: ulimit -v 4000000 KiB", [] {
    limit(RLIMIT_AS, rlim_t{4'000'000} << 10);
    std::vector<char> large(size_t{1} << 40);
  });
  in_a_limited_process(2, "asked for 1 GiB; limits: ulimit -v 4000000 KiB (address space)", [] {
    limit(RLIMIT_AS, rlim_t{4'000'000} << 10);
    throw OutOfMemoryError("device: asked for 1 GiB");
  });
}
#endif

// As in a thread, or where no exception may pass.
TEST(Refusals, EndTheProgramWithoutASignal) {
  in_a_limited_process(2, "the system refused memory", [] {
    end_on_uncaught_exceptions();
    std::thread([] { throw std::bad_alloc(); }).join();
  });
  in_a_limited_process(1, "some fault", [] {
    end_on_uncaught_exceptions();
    std::thread([] { throw std::runtime_error("some fault"); }).join();
  });
}

TEST(Refusals, AreKnownByTheirWords) {
  EXPECT_TRUE(is_out_of_memory(std::runtime_error("could not create a primitive")));
  EXPECT_FALSE(is_out_of_memory(
      std::runtime_error("could not create a primitive descriptor for a matmul primitive")));
  EXPECT_FALSE(is_out_of_memory(DataError("a.json: unknown key 'out of memory'")));
}

}  // namespace
}  // namespace longshore
