#include <gtest/gtest.h>

#include "tests/trainer/checkpoint/kill_test.h"

namespace longshore::trainer {
namespace {

TEST(Killed, TwoHundredTimesAtRandomInstants) { kill_and_resume(200, 1); }

}  // namespace
}  // namespace longshore::trainer
