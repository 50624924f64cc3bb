#include "longshore/data/text/document_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "longshore/base/error.h"
#include "longshore/data/tokenizers/tokenizer.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

std::vector<std::string> documents_of(const std::filesystem::path& path) {
  DocumentReader reader(path);
  std::vector<std::string> documents;
  for (std::string document; reader.next(document);) documents.push_back(document);
  return documents;
}

using Documents = std::vector<std::string>;

TEST(DocumentReader, CutsAtBlankLines) {
  TemporaryFolder folder;
  auto cut = [&](const std::string& text) { return documents_of(folder.write("a.txt", text)); };
  EXPECT_EQ(cut("one\ntwo\n\nthree\n"), (Documents{"one\ntwo", "three"}));
  EXPECT_EQ(cut("one\n \t\n\n\ntwo"), (Documents{"one", "two"}));
  EXPECT_EQ(cut("\n\n  indented \n\ttoo\n\n"), (Documents{"  indented \n\ttoo"}));
  EXPECT_EQ(cut("one\r\ntwo\r\n\r\nthree\r\n"), (Documents{"one\ntwo", "three"}));
  EXPECT_EQ(cut("a\rb\n"), (Documents{"a\rb"}));
  EXPECT_EQ(cut(std::string("nul \0 inside", 12)), (Documents{std::string("nul \0 inside", 12)}));
  EXPECT_EQ(cut("\xe2\x82\xac\n"), (Documents{"\xe2\x82\xac"}));
  EXPECT_EQ(cut("\xef\xbb\xbf"
                "one\n\n\xef\xbb\xbf"),
            (Documents{"one", "\xef\xbb\xbf"}));
  EXPECT_EQ(cut(""), Documents{});
  EXPECT_EQ(cut("\n \n\n"), Documents{});
}

// Documents and lines that end just before, at and after the end of the reader's buffer.
TEST(DocumentReader, DoesNotDependOnItsBuffer) {
  TemporaryFolder folder;
  std::mt19937_64 random(1);
  for (int offset = -3; offset <= 3; ++offset) {
    Documents documents;
    documents.push_back(std::string(static_cast<size_t>((1 << 20) + offset), 'x'));
    for (int i = 0; i < 2000; ++i) {
      documents.push_back(std::string(1 + random() % 1000, static_cast<char>('a' + i % 26)));
      if (i % 3 == 0) documents.back() += "\n" + std::string(random() % 500 + 1, 'y');
    }
    std::string text;
    for (const std::string& document : documents) text += document + "\n\n";
    EXPECT_EQ(documents_of(folder.write("a.txt", text)), documents);
    text.resize(text.size() - 2);
    EXPECT_EQ(documents_of(folder.write("a.txt", text)), documents);
  }
}

TEST(DocumentReader, NamesTheLineThatIsNotUtf8) {
  TemporaryFolder folder;
  const auto path = folder.write("a.txt", "one\n\ntwo\ncaf\xe9 au lait\n");
  EXPECT_EQ(message_of<DataError>([&] { documents_of(path); }),
            path.string() + ":4: invalid UTF-8: found 0xE9 at byte 4 of the line");
}

TEST(DocumentReader, NamesTheLineWhereADocumentBecomesTooLong) {
  TemporaryFolder folder;
  const std::string line(99'999, 'x');
  std::string text = "short\n\n";
  for (size_t i = 0; i <= kMaxTextBytes / 100'000; ++i) text += line + "\n";
  std::string message =
      message_of<DataError>([&] { documents_of(folder.write("many.txt", text)); });
  EXPECT_THAT(message, HasSubstr("many.txt:86: document of more than 8388608 bytes"));
  text = "short\n\n";
  text.append(kMaxTextBytes + 1, 'x');
  message = message_of<DataError>([&] { documents_of(folder.write("one.txt", text)); });
  EXPECT_THAT(message, HasSubstr("one.txt:3: line of more than 8388608 bytes"));
  text.pop_back();
  EXPECT_EQ(documents_of(folder.write("whole.txt", text)).size(), 2u);
}

TEST(LineReader, GoesOnBehindALineThatIsTooLong) {
  TemporaryFolder folder;
  LineReader reader(
      folder.write("a.txt", "one\r\n" + std::string(kMaxTextBytes + (3 << 20), 'x') + "\nthree"));
  std::string line;
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(line, "one");
  EXPECT_THAT(message_of<DataError>([&] { (void)reader.next(line); }),
              HasSubstr("a.txt:2: line of more"));
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(line, "three");
  EXPECT_EQ(reader.line_number(), 3);
  EXPECT_FALSE(reader.next(line));
}

TEST(DocumentReader, NamesAFileItCannotRead) {
  TemporaryFolder folder;
  EXPECT_THAT(message_of<DataError>([&] { DocumentReader(folder / "none.txt"); }),
              HasSubstr("none.txt: cannot open: No such file"));
  EXPECT_THAT(message_of<DataError>([&] { DocumentReader(folder / ""); }),
              HasSubstr("found a folder"));
}

}  // namespace
}  // namespace longshore::data
