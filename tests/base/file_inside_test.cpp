#include "longshore/base/file_inside.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore {
namespace {

namespace fs = std::filesystem;
using data::TemporaryFolder;
using testing::HasSubstr;

TEST(FileInside, IsOnlyThatOfTheFolder) {
  TemporaryFolder outside, folder;
  outside.write("secret", "of another");
  folder.write("plain", "text");
  fs::create_directory(folder / "part");
  folder.write("part/plain", "deeper");
  fs::create_symlink(outside / "secret", folder / "link");
  fs::create_symlink("plain", folder / "near");  // nor one that stays inside
  fs::create_symlink("nothing", folder / "dangling");
  fs::create_directory_symlink(outside / "", folder / "elsewhere");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);

  EXPECT_EQ(read_inside(folder / "", "plain", 4, ""), "text");
  EXPECT_EQ(read_inside(folder / "", "part/plain", 6, ""), "deeper");
  const std::pair<const char*, const char*> others[] = {
      {"link", "a symbolic link"},
      {"near", "a symbolic link"},
      {"dangling", "a symbolic link"},
      {"pipe", "a pipe"},
      {"part", "a folder"},
      {"elsewhere/secret", "a symbolic link"},
  };
  for (const auto& [name, kind] : others)
    for (int flags : {O_RDONLY, O_WRONLY | O_CREAT, O_RDWR | O_CREAT}) {
      const std::string message =
          message_of<DataError>([&] { open_inside(folder / "", name, flags); });
      EXPECT_THAT(message, HasSubstr(std::string("found ") + kind)) << name;
      EXPECT_THAT(message, HasSubstr((folder / "").string())) << name;
    }
  EXPECT_EQ(data::read_file(outside / "secret"), "of another");
  EXPECT_FALSE(fs::exists(folder / "nothing"));
  for (const char* path : {"../x", "/etc/passwd", "part/../plain", "", ".", "part/", "part//plain"})
    EXPECT_THROW(open_inside(folder / "", path, O_RDONLY), DataError) << path;
  EXPECT_FALSE(open_inside(folder / "", "none", O_RDONLY).is_open());
  EXPECT_EQ(errno, ENOENT);

  // The folder itself is the user's to name.
  TemporaryFolder other;
  fs::create_directory_symlink(folder / "", other / "run");
  EXPECT_EQ(read_inside(other / "run", "plain", 4, ""), "text");
}

// To read, it is one file like another: who keeps copies often links them.
TEST(FileInside, IsNotWrittenThroughAHardLink) {
  TemporaryFolder outside, folder;
  outside.write("mine", "as it was");
  fs::create_hard_link(outside / "mine", folder / "lock");
  EXPECT_EQ(read_inside(folder / "", "lock", 9, ""), "as it was");
  for (int flags : {O_WRONLY, O_RDWR, O_WRONLY | O_CREAT | O_TRUNC, O_RDWR | O_APPEND}) {
    const std::string message =
        message_of<DataError>([&] { open_inside(folder / "", "lock", flags); });
    EXPECT_THAT(message, HasSubstr((folder / "lock").string() + ": found a file with 2 names"));
  }
  EXPECT_EQ(data::read_file(outside / "mine"), "as it was");
  fs::remove(outside / "mine");
  EXPECT_TRUE(open_inside(folder / "", "lock", O_RDWR).is_open());
}

TEST(FileInside, HasItsBound) {
  TemporaryFolder folder;
  folder.write("five", "12345");
  EXPECT_EQ(read_inside(folder / "", "five", 5, "it is small"), "12345");
  EXPECT_EQ(message_of<DataError>([&] { read_inside(folder / "", "five", 4, "it is small"); }),
            (folder / "five").string() + ": found 5 bytes, expected at most 4: it is small");
}

TEST(FileInside, FoldersHoldRegularFilesAlone) {
  TemporaryFolder folder;
  fs::create_directories(folder / "a/b");
  folder.write("a/b/plain", "");
  require_regular_files(folder / "");
  fs::create_symlink("plain", folder / "a/b/link");
  EXPECT_THAT(message_of<DataError>([&] { require_regular_files(folder / ""); }),
              HasSubstr("a/b/link: found a symbolic link, expected a regular file"));
}

TEST(FileInside, LinksToFoldersLeadBelow) {
  TemporaryFolder outside, folder;
  fs::create_directories(folder / "checkpoints/1/model");
  fs::create_directory_symlink("checkpoints/1/model", folder / "model");
  EXPECT_EQ(folder_inside(folder / "", "model"), folder / "model");
  EXPECT_EQ(folder_inside(folder / "", "checkpoints"), folder / "checkpoints");
  fs::create_directory_symlink(outside / "", folder / "away");
  fs::create_directory_symlink("nothing", folder / "dangling");
  fs::create_directory_symlink(".", folder / "itself");
  folder.write("file", "");
  for (const char* name : {"away", "dangling", "file", "none"})
    EXPECT_THAT(message_of<DataError>([&] { folder_inside(folder / "", name); }),
                HasSubstr("expected a folder, or a link to one, below"))
        << name;
}

TEST(FileInside, AtomicFilesFollowNoLinkWhereTheyAreToldSo) {
  TemporaryFolder outside, folder;
  outside.write("kept", "before");
  fs::create_symlink(outside / "kept", folder / "it");
  EXPECT_EQ(
      message_of<FileError>([&] { write_file(folder / "it", "after", Links::refused); }),
      (folder / "it").string() + ": found a symbolic link, expected the name of a file to write");
  EXPECT_EQ(data::read_file(outside / "kept"), "before");
  write_file(folder / "it", "after");
  EXPECT_EQ(data::read_file(outside / "kept"), "after");
  EXPECT_TRUE(fs::is_symlink(folder / "it"));
}

// One that is named like a killed process's file would be waited for.
TEST(FileInside, PipesAreNotWaitedForWhereLeftoversAreRemoved) {
  TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "it.partial-1").c_str(), 0600), 0);
  write_file(folder / "it", "text");
  EXPECT_EQ(data::read_file(folder / "it"), "text");
}

}  // namespace
}  // namespace longshore
