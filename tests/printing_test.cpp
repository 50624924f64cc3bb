// Reads the sources and checks that what programs say to people goes through
// longshore/base/print.h.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>

namespace longshore {
namespace {

namespace fs = std::filesystem;

// In longshore/.
const std::set<std::string> kMayPrint = {
    "base/address_space.cpp",    // before main(): numbers, and a name that it makes printable
    "base/current_folder.cpp",   // before main(), where it calls printable functions itself
    "base/print.cpp",            // the one place
    "base/standard_output.cpp",  // what it writes with
    "base/standard_output.h",
    "offload/backends/cuda/cuda_backend.cpp",       // numbers, and names of ops
    "trainer/programs/generate/generate.cpp",       // the text, which a pipe gets as it is
    "trainer/run/console.cpp",                      // a progress bar's own control characters
    "trainer/programs/tokenize/tokenize_main.cpp",  // JSON
};

TEST(Printing, GoesThroughOnePlace) {
  const std::regex prints(
      R"(\b(v?f?printf|v?dprintf|f?puts|putc|putchar|fwrite|perror|cout|cerr|clog|put_output)\b|fmt::print\()");
  std::set<std::string> found;
  int count = 0;
  const fs::path house = fs::path(LONGSHORE_SOURCE_DIR) / "longshore";
  for (const auto& entry : fs::recursive_directory_iterator(house)) {
    const std::string extension = entry.path().extension();
    if (extension != ".cpp" && extension != ".h" && extension != ".cu") continue;
    ++count;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);)
      if (std::regex_search(line.substr(0, line.find("//")), prints))
        found.insert(fs::relative(entry.path(), house).string());
  }
  EXPECT_GT(count, 300);
  EXPECT_EQ(found, kMayPrint);
}

}  // namespace
}  // namespace longshore
