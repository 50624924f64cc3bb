#include "longshore/base/atomic_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "longshore/base/error.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore {
namespace {

using testing::HasSubstr;

using data::read_file;
using data::TemporaryFolder;

namespace fs = std::filesystem;

void fill(const AtomicFolder& folder) {
  std::ofstream(folder.directory() / "a") << "1";
  fs::create_directory(folder.directory() / "inner");
}

TEST(AtomicFolder, IsThereWholeOrNotAtAll) {
  TemporaryFolder temporary;
  const fs::path path = temporary / "above" / "it";
  {
    AtomicFolder folder(path);
    fill(folder);
    EXPECT_FALSE(fs::exists(path));
  }
  EXPECT_TRUE(fs::is_empty(temporary / "above"));
  {
    AtomicFolder folder(path.string() + "/");  // as a shell completes it
    fill(folder);
    folder.finish();
  }
  EXPECT_EQ(read_file(path / "a"), "1");
  EXPECT_TRUE(fs::exists(path / "inner"));
  using Iterator = fs::directory_iterator;
  EXPECT_EQ(std::distance(Iterator(temporary / "above"), Iterator()), 1);
}

// What a killed process left goes; what a living one is making, and what only has such a name,
// stays.
TEST(AtomicFolder, RemovesWhatWasAbandoned) {
  TemporaryFolder temporary;
  const fs::path path = temporary / "it", abandoned = temporary / "it.partial-1-0",
                 other = temporary / "other.partial-1-0";
  fs::create_directories(abandoned / "inner");
  fs::create_directory(other);
  const AtomicFolder living(path);
  EXPECT_FALSE(fs::exists(abandoned));
  const AtomicFolder second(path);
  EXPECT_TRUE(fs::exists(living.directory()));
  EXPECT_TRUE(fs::exists(other));
}

TEST(AtomicFolder, TakesAnEmptyFolderAndTheRestIsRefused) {
  TemporaryFolder temporary;
  const fs::path path = temporary / "it";
  fs::create_directory(path);
  fs::create_directory_symlink(path, temporary / "link");
  {
    AtomicFolder folder(temporary / "link");
    fill(folder);
    folder.finish();
  }
  EXPECT_EQ(read_file(path / "a"), "1");

  temporary.write("it-2", "a file");
  fs::create_symlink("nowhere", temporary / "it-3");
  const std::string what = message_of<ConfigError>([&] { AtomicFolder folder(path); });
  EXPECT_TRUE(what.ends_with("nearest: " + path.string() + "-4")) << what;
  EXPECT_EQ(read_file(path / "a"), "1");
  EXPECT_THROW(AtomicFolder(temporary / "it-2"), ConfigError);
  EXPECT_THROW(AtomicFolder(temporary / "it-2" / "below"), FileError);
}

// What came meanwhile stays, and is no longer empty, so that the folder is not put there.
TEST(AtomicFolder, EndsWhereNoNumberMakesTheNameFree) {
  TemporaryFolder temporary;
  const fs::path path = temporary / std::string(254, 'a');
  fs::create_directories(path / "something");
  const std::string what = message_of<FileError>([&] { AtomicFolder folder(path); });
  EXPECT_THAT(what, HasSubstr("-2: cannot be looked at"));
}

TEST(AtomicFolder, NothingIsWrittenOver) {
  TemporaryFolder temporary;
  {
    AtomicFolder folder(temporary / "it");
    fill(folder);
    fs::create_directory(temporary / "it");
    temporary.write("it/b", "2");
    EXPECT_THROW(folder.finish(), FileError);
  }
  EXPECT_EQ(read_file(temporary / "it" / "b"), "2");
  EXPECT_EQ(temporary.file_count(), 1u);
}

}  // namespace
}  // namespace longshore
