#include "longshore/base/file_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace longshore {
namespace {

bool is_open(int number) { return fcntl(number, F_GETFD) >= 0; }

FileDescriptor open_null() { return FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

TEST(FileDescriptor, ClosesItsFile) {
  int number = -1;
  {
    const FileDescriptor file = open_null();
    number = file.number();
    EXPECT_TRUE(file.is_open());
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(FileDescriptor, IsClosedByItsNewOwnerOnly) {
  FileDescriptor first = open_null(), second = open_null();
  const int kept = first.number(), replaced = second.number();
  second = std::move(first);
  EXPECT_EQ(second.number(), kept);
  EXPECT_TRUE(is_open(kept));
  EXPECT_FALSE(is_open(replaced));
  second.close();
  EXPECT_FALSE(second.is_open());
  EXPECT_FALSE(is_open(kept));
}

TEST(FileDescriptor, IsNotOpenWhereOpeningFailed) {
  EXPECT_FALSE(FileDescriptor().is_open());
  EXPECT_FALSE(FileDescriptor(open("/dev/null/none", O_RDONLY)).is_open());
}

}  // namespace
}  // namespace longshore
