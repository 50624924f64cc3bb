#include "longshore/base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "longshore/base/error.h"
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
            pipe.string() + ": found a pipe, expected the name of a file to write");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  const std::filesystem::path target = temporary.write("target", "before");
  std::filesystem::create_symlink("target", link);
  write_file(link, "text");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(data::read_file(target), "text");
  EXPECT_EQ(temporary.file_count(), 3u);
}

TEST(AtomicFile, MakesWhatALinkLeadsTo) {
  TemporaryFolder temporary;
  std::filesystem::create_directory(temporary / "other");
  std::filesystem::create_symlink("other/second", temporary / "first");
  std::filesystem::create_symlink("target", temporary / "other/second");
  write_file(temporary / "first", "text");
  EXPECT_TRUE(std::filesystem::is_symlink(temporary / "first"));
  EXPECT_TRUE(std::filesystem::is_symlink(temporary / "other/second"));
  EXPECT_EQ(data::read_file(temporary / "other/target"), "text");

  std::filesystem::create_symlink("nowhere/target", temporary / "lost");
  EXPECT_THROW(write_file(temporary / "lost", "text"), FileError);
  EXPECT_TRUE(std::filesystem::is_symlink(temporary / "lost"));
  std::filesystem::create_symlink("circle", temporary / "circle");
  EXPECT_EQ(message_of<FileError>([&] { write_file(temporary / "circle", "text"); }),
            (temporary / "circle").string() +
                ": found a link that leads to no end, expected the name of a file to write");
  EXPECT_TRUE(std::filesystem::is_symlink(temporary / "circle"));
}

// Processes of two containers may have the same number.
TEST(AtomicFile, SharesItsPartialNameWithNoOther) {
  TemporaryFolder temporary;
  const std::filesystem::path path = temporary / "out";
  AtomicFile one(path), other(path);
  EXPECT_EQ(temporary.file_count(), 2u);
  one.append("one");
  other.append("other");
  one.finish();
  EXPECT_EQ(data::read_file(path), "one");
  other.finish();
  EXPECT_EQ(data::read_file(path), "other");
  EXPECT_EQ(temporary.file_count(), 1u);
}

TEST(AtomicFile, RemovesWhatKilledProcessesLeftOfTheSameFile) {
  TemporaryFolder temporary;
  temporary.write("out.partial-7-0", "text");
  temporary.write("out.partial-draft", "a user's");
  temporary.write("another.partial-7-0", "may be somebody's");
  const AtomicFile living(temporary / "out");
  EXPECT_EQ(temporary.file_count(), 3u);
  EXPECT_FALSE(std::filesystem::exists(temporary / "out.partial-7-0"));
}

}  // namespace
}  // namespace longshore
