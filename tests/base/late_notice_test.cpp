#include "longshore/base/late_notice.h"

#include <gtest/gtest.h>

namespace longshore {
namespace {

using namespace std::chrono_literals;

TEST(LateNotice, IsPrintedOnceAndOnlyOfWhatTakesLong) {
  testing::internal::CaptureStderr();
  {
    const LateNotice soon("soon", 1h);
    const LateNotice late("late", 1ms);
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "late\n");
}

}  // namespace
}  // namespace longshore
