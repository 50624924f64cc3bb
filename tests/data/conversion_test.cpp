#include "longshore/data/files/conversion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "longshore/base/error.h"
#include "longshore/data/rows/token_file.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

TEST(Conversion, CommandsDoWhatTheyAreFor) {
  // gzip -n of "a\n"
  const std::string packed("\x1f\x8b\x08\0\0\0\0\0\0\x03\x4b\xe4\x02\0\x07\xa1\xea\xdd\x02\0\0\0",
                           22);
  for (const char* name : {"plain", "it's a \"file\" $HOME", "caf\u00e9"}) {
    TemporaryFolder folder;
    const auto file = folder.write(name + std::string(".md.GZ"), packed),
               made = folder / (name + std::string(".md"));
    EXPECT_EQ(std::system(conversion_command(file).c_str()), 0) << conversion_command(file);
    EXPECT_EQ(read_file(made), "a\n");
    // What is there stays as it is.
    folder.write(made.filename().string(), "b\n");
    EXPECT_NE(std::system(("(" + conversion_command(file) + ") 2>/dev/null").c_str()), 0);
    EXPECT_EQ(read_file(made), "b\n");
  }
}

TEST(Conversion, KnowsFormatsByName) {
  for (const char* name : {"a.jsonl", "a.txt", "a.tokens", "a", "a.md", "a.CSV", "a.tsv", "a.json",
                           "a.ndjson", "a.jsonl.gz", "a.csv.zst", "a.parquet", "a.ARROW"})
    EXPECT_EQ(conversion_command(name), "") << name;
  EXPECT_EQ(conversion_command("a.parquet.gz"), "set -C; gzip -dc a.parquet.gz > a.parquet");
  EXPECT_EQ(conversion_command("b/a.tokens.zst"), "set -C; zstd -dc b/a.tokens.zst > b/a.tokens");
  // A name that could not be typed is not repeated.
  EXPECT_EQ(conversion_command("\x1b[31m.xz"), "set -C; xz -dc FILE.xz > FILE");
}

TEST(Conversion, IsWhatTrainingAdvises) {
  TemporaryFolder folder;
  const auto file = folder.write("a.zip", "PK");
  EXPECT_THAT(message_of<DataError>([&] { TokenFile{file}; }),
              HasSubstr("nearest: " + conversion_command(file)));
}

}  // namespace
}  // namespace longshore::data
