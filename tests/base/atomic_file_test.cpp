#include "base/atomic_file.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace longshore
