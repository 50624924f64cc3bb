#include "longshore/data/files/file_mapping.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/data/temporary_folder.h"

namespace longshore::data {
namespace {

// As where another program writes a file anew in place. Not a signal's bare name, but the file's.
TEST(FileMappingDeathTest, AFileThatIsShortenedIsNamed) {
  TemporaryFolder folder;
  const std::filesystem::path path = folder / "a\033[31m.tokens";
  std::ofstream(path) << std::string(1 << 16, 'a');
  EXPECT_EXIT(
      {
        const FileMapping mapping(path, Access::anywhere);
        std::filesystem::resize_file(path, 0);
        const volatile char first = static_cast<char>(mapping.bytes()[1 << 15]);
        (void)first;
      },
      testing::ExitedWithCode(1), R"(a\\x1b\[31m.tokens: became shorter)");
}

}  // namespace
}  // namespace longshore::data
