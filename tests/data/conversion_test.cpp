#include "data/files/conversion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "data/rows/token_file.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

TEST(Conversion, CommandsDoWhatTheyAreFor) {
  const std::string lines = "{\"text\": \"one\"}\n{\"text\": \"t\\u00e9\"}\n";
  const std::string list = "\n[{\"text\": \"one\"},\n {\"text\": \"t\\u00e9\"}]";
  for (const char* name : {"plain", "it's a \"file\" $HOME", "caf\u00e9"}) {
    TemporaryFolder folder;
    auto result_of = [&](const std::string& ending, const std::string& contents) {
      const auto file = folder.write(name + ending, contents);
      EXPECT_EQ(std::system(conversion_command(file).c_str()), 0) << conversion_command(file);
      const auto made = folder / (name + std::string(".jsonl"));
      const std::string text = read_file(made);
      std::filesystem::remove(made);
      return text;
    };
    EXPECT_EQ(result_of(".json", list), lines);
    EXPECT_EQ(result_of(".json", lines), lines);
    EXPECT_EQ(result_of(".json", "\xef\xbb\xbf" + list), lines);
    EXPECT_EQ(result_of(".json", "{\n  \"version\": 1,\n  \"data\": " + list + "\n}\n"), lines);
    EXPECT_EQ(result_of(".ndjson", lines), lines);
    EXPECT_EQ(result_of(".JSONL", lines), lines);
    // gzip -n of "a\n"
    const std::string packed("\x1f\x8b\x08\0\0\0\0\0\0\x03\x4b\xe4\x02\0\x07\xa1\xea\xdd\x02\0\0\0",
                             22);
    EXPECT_EQ(result_of(".jsonl.gz", packed), "a\n");
    EXPECT_EQ(result_of(".jsonl.GZ", packed), "a\n");
    // What is there stays as it is.
    folder.write(name + std::string(".jsonl"), "b\n");
    for (const auto& [ending, contents] : {std::pair<const char*, std::string>{".json", list},
                                           {".ndjson", lines},
                                           {".jsonl.gz", packed}})
      EXPECT_NE(std::system(
                    ("(" + conversion_command(folder.write(name + std::string(ending), contents)) +
                     ") 2>/dev/null; [ \"$(cat '" + (folder / "").string() + "'*.jsonl)\" != b ]")
                        .c_str()),
                0)
          << ending;
  }
}

TEST(Conversion, KnowsFormatsByName) {
  for (const char* name : {"a.jsonl", "a.txt", "a.tokens", "a", "a.md"})
    EXPECT_EQ(conversion_command(name), "") << name;
  for (const char* name : {"a.parquet", "a.CSV", "a.tsv", "a.arrow"}) {
    EXPECT_THAT(conversion_command(name), HasSubstr("python3 -c 'import sys, p")) << name;
    EXPECT_THAT(conversion_command(name), HasSubstr(std::string("' ") + name + " a.jsonl"));
  }
  EXPECT_EQ(conversion_command("b/a.jsonl.zst"), "set -C; zstd -dc b/a.jsonl.zst > b/a.jsonl");
  // A name that could not be typed is not repeated.
  EXPECT_EQ(conversion_command("\x1b[31m.xz"), "set -C; xz -dc FILE.xz > FILE");
}

TEST(Conversion, IsWhatTrainingAdvises) {
  TemporaryFolder folder;
  const auto file = folder.write("a.parquet", "PAR1");
  EXPECT_THAT(message_of<DataError>([&] { TokenFile{file}; }),
              HasSubstr("nearest: " + conversion_command(file)));
}

}  // namespace
}  // namespace longshore::data
