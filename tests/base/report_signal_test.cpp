#include "longshore/base/report_signal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace longshore {
namespace {

TEST(ReportSignal, IsTakenOnceAndEndsNothing) {
  {
    const ReportSignal reports;
    EXPECT_FALSE(ReportSignal::take());
    kill(getpid(), SIGUSR2);
    kill(getpid(), SIGUSR2);  // before the first was taken: the same request
    EXPECT_TRUE(ReportSignal::take());
    EXPECT_FALSE(ReportSignal::take());
    kill(getpid(), SIGUSR2);  // which nobody takes any more
  }
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  EXPECT_FALSE(sigismember(&blocked, SIGUSR2));
}

TEST(ReportSignalDeathTest, EndsTheProcessWithoutIt) {
  EXPECT_EXIT(kill(getpid(), SIGUSR2), testing::KilledBySignal(SIGUSR2), "");
}

}  // namespace
}  // namespace longshore
