#include "longshore/data/files/content_hash.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "longshore/base/error.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

// What xxhsum -H2 prints.
TEST(ContentHash, IsXxh3) {
  const std::string text = "longshore";
  EXPECT_EQ(content_hash(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_NE(content_hash(text), content_hash(""));
}

TEST(ContentHash, FileHashIsThatOfTheFilesBytes) {
  TemporaryFolder folder;
  for (size_t size : {0, 1, 1000, (4 << 20) - 1, 4 << 20, (4 << 20) + 1}) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * i >> 5);
    EXPECT_EQ(file_hash(folder.write("it", text)), content_hash(text));
  }
  EXPECT_THAT(message_of<DataError>([&] { file_hash(folder / "none"); }),
              HasSubstr("none: cannot open"));
  EXPECT_THROW(file_hash(folder / ""), DataError) << "a folder";
}

}  // namespace
}  // namespace longshore::data
