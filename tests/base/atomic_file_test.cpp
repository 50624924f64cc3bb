#include "base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/error.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore {
namespace {

using data::TemporaryFolder;

// At once: what is to be written may take hours to make.
TEST(AtomicFile, RefusesTheNameOfAFolder) {
  TemporaryFolder temporary;
  std::filesystem::create_directory(temporary / "out");
  for (const char* name : {"out", "out/"}) {
    EXPECT_EQ(
        message_of<FileError>([&] { AtomicFile file(temporary / name); }),
        (temporary / name).string() + ": found a folder, expected the name of a file to write");
    EXPECT_EQ(temporary.file_count(), 1u);
    EXPECT_TRUE(std::filesystem::is_empty(temporary / "out"));
  }
}

TEST(AtomicFile, TakesTheNameOfAFileAlone) {
  TemporaryFolder temporary;
  const std::filesystem::path pipe = temporary / "pipe", link = temporary / "link";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(message_of<FileError>([&] { write_file(pipe, "text"); }),
            pipe.string() + ": found no file, expected the name of a file to write");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  const std::filesystem::path target = temporary.write("target", "before");
  std::filesystem::create_symlink("target", link);
  write_file(link, "text");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(data::read_file(target), "text");
  EXPECT_EQ(temporary.file_count(), 3u);
}

}  // namespace
}  // namespace longshore
