#include "longshore/base/stop_signal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace longshore {
namespace {

void tell_to_stop() {
  kill(getpid(), SIGTERM);
  for (int i = 0; i < 100 && !StopSignal::is_there(); ++i) usleep(10000);
}

TEST(StopSignalDeathTest, TheFirstIsNotedOrEndsWhatHasNotBegun) {
  auto noted = [](StopSignal::First first, bool begins) {
    const StopSignal listening(first);
    if (begins) StopSignal::note_from_now();
    tell_to_stop();
    _exit(StopSignal::name() == "SIGTERM" ? 0 : 1);
  };
  EXPECT_EXIT(noted(StopSignal::First::noted, false), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(noted(StopSignal::First::ends, true), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(noted(StopSignal::First::ends, false), testing::ExitedWithCode(128 + SIGTERM),
              "SIGTERM: ends; nothing was begun");
}

}  // namespace
}  // namespace longshore
