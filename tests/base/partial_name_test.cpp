#include "longshore/base/partial_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "longshore/base/error.h"
#include "tests/data/temporary_folder.h"

namespace longshore {
namespace {

using data::read_file;
using data::TemporaryFolder;

namespace fs = std::filesystem;

TEST(RemoveLeftovers, LeavesTheRest) {
  TemporaryFolder temporary;
  fs::create_directories(temporary / "it.partial-12-0/inner");
  temporary.write("it.partial-12-0/inner/a", "1");
  temporary.write("b.partial-7", "1");
  temporary.write(partial_name("c").string(), "1");
  for (const char* kept : {"b", "notes.partial-draft", "c.partial-", ".partial-1"})
    temporary.write(kept, "1");
  fs::create_directory(temporary / "partial");
  remove_leftovers(temporary / "");
  EXPECT_EQ(temporary.file_count(), 5u);
  EXPECT_EQ(read_file(temporary / "b"), "1");
  remove_leftovers(temporary / "none");
}

// As one whose umask takes reading from its owner, which root does not see.
TEST(MakePartialFolder, EndsWhereWhatItMakesCannotBeOpened) {
  TemporaryFolder temporary;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  std::string message;
  try {
    make_partial_folder(temporary / "a");
  } catch (const FileError& error) {
    message = error.what();
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(message, testing::HasSubstr("cannot open the folder: Too many open files"));
  EXPECT_EQ(temporary.file_count(), 0u);
}

}  // namespace
}  // namespace longshore
