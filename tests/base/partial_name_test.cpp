#include "longshore/base/partial_name.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace longshore
