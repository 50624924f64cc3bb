#include "longshore/base/exit_code.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <system_error>

#include "longshore/base/error.h"

namespace longshore {
namespace {

template <class Failure>
int code_of(const Failure& failure) {
  return exit_code_of("program", [&] { throw failure; });
}

TEST(ExitCode, IsTwoForWhatAnotherConfigCouldChange) {
  EXPECT_EQ(code_of(ConfigError("fault")), 2);
  EXPECT_EQ(code_of(KeyError("key", "fault")), 2);
  EXPECT_EQ(code_of(PlanError("fault")), 2);
  EXPECT_EQ(code_of(OutOfMemoryError("fault")), 2);
  EXPECT_EQ(code_of(std::bad_alloc()), 2);
  EXPECT_EQ(code_of(std::system_error(EAGAIN, std::system_category())), 2);
}

TEST(ExitCode, IsOneForEverythingElse) {
  EXPECT_EQ(code_of(DataError("fault")), 1);
  EXPECT_EQ(code_of(FileError("fault")), 1);
  EXPECT_EQ(code_of(UsageError("fault")), 1);
  EXPECT_EQ(code_of(InternalError("fault")), 1);
  EXPECT_EQ(code_of(std::system_error(ENOENT, std::system_category())), 1);
}

TEST(ExitCode, GivesTheMessageAfterTheProgramsName) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(code_of(DataError("a.jsonl:3: no valid JSON")), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "program: a.jsonl:3: no valid JSON\n");
  EXPECT_EQ(exit_code_of("program", [] {}), 0);
}

}  // namespace
}  // namespace longshore
