// tests/goldens/tables/make.py says what its files hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/data/rows/token_file.h"
#include "longshore/data/text/open_records.h"
#include "longshore/data/text/tokenize_files.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;
using Columns = std::optional<std::vector<std::string>>;

const fs::path kFolder = "tests/goldens/tables";

std::vector<fs::path> goldens(const std::string& beginning) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kFolder))
    if (entry.path().filename().string().starts_with(beginning) &&
        entry.path().extension() != ".jsonl")
      files.push_back(entry.path());
  EXPECT_FALSE(files.empty());
  return files;
}

std::vector<Json> read(const fs::path& path, const Columns& columns = std::nullopt) {
  std::vector<Json> records;
  const auto reader = open_records(path, columns);
  for (std::string record; reader->next(record);) {
    records.push_back(Json::parse(record));
    EXPECT_EQ(reader->line_number(), std::ssize(records));
  }
  return records;
}

std::string refusal(const fs::path& path, const Columns& columns = std::nullopt) {
  return message_of<DataError>([&] { read(path, columns); });
}

TEST(TableReader, RowsAreTheRecordsOfTheSameLines) {
  for (const char* rows : {"kinds", "chat"}) {
    const std::vector<Json> expected = read(kFolder / (rows + std::string(".jsonl")));
    for (const fs::path& file : goldens(rows)) {
      SCOPED_TRACE(file);
      const std::vector<Json> found = read(file);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].dump(), expected[i].dump());
    }
  }
}

TEST(TableReader, ColumnsThatNobodyReadsAreNull) {
  for (const fs::path& file : goldens("chat")) {
    SCOPED_TRACE(file);
    const std::vector<Json> all = read(file);
    std::vector<Json> found = read(file, {{"messages", "absent"}});
    ASSERT_EQ(found.size(), all.size());
    for (size_t i = 0; i < all.size(); ++i)
      EXPECT_EQ(
          found[i].dump(),
          Json({{"id", nullptr}, {"messages", all[i]["messages"]}, {"embedding", nullptr}}).dump());
    EXPECT_EQ(read(file, {{"absent"}}), all);
  }
  for (const fs::path& file : goldens("kinds")) {
    const std::vector<Json> all = read(file);
    for (const auto& column : all.at(0).items()) {
      SCOPED_TRACE(file.string() + " " + column.key());
      const std::vector<Json> found = read(file, {{column.key()}});
      ASSERT_EQ(found.size(), all.size());
      for (size_t i = 0; i < all.size(); ++i)
        EXPECT_EQ(found[i][column.key()], all[i][column.key()]);
    }
  }
}

TEST(TableReader, SameRowsMakeTheSameTokens) {
  TemporaryFolder folder;
  const Tokenizer tokenizer("tests/goldens/tokenizers/gemma_bpe");
  const TokenizeOptions options{.encode = {.chat_template = ChatTemplate::named("gemma")}};
  auto tokens = [&](const fs::path& file) {
    const fs::path made = folder / "out.tokens";
    fs::remove(made);
    tokenize_files(tokenizer, {{file}}, made, options);
    return read_file(made);
  };
  const std::string expected = tokens(kFolder / "chat.jsonl");
  for (const fs::path& file : goldens("chat")) EXPECT_EQ(tokens(file), expected) << file;
}

TEST(TableReader, RefusesWhatHasNoForm) {
  const fs::path file = kFolder / "refused.arrow";
  EXPECT_EQ(read(file, {{"text"}}).at(0)["text"], "A text.");
  const std::string at = file.string() + ":1: column ";
  EXPECT_EQ(refusal(file, {{"duration"}}),
            at + "\"duration\": found the type duration[s], which cannot be read; nearest: one of "
                 "text, numbers, lists or structs");
  EXPECT_EQ(refusal(file, {{"bytes"}}),
            at + "\"bytes\": found binary data that is no text, and neither a PNG nor a JPEG file");
  EXPECT_EQ(refusal(file, {{"sound"}}),
            at + "\"sound\": found bytes that are neither a PNG nor a JPEG file");
  EXPECT_EQ(refusal(file, {{"far"}}),
            at + "\"far\": found a value of type date32[day] beyond the year 9999");
  EXPECT_EQ(refusal(file, {{"long"}}),
            at + "\"long\": found a value of type timestamp[s] beyond the year 9999");
  EXPECT_EQ(refusal(kFolder / "twice.arrow"),
            (kFolder / "twice.arrow").string() +
                ": found the column \"a\" again, expected each name once");
  EXPECT_EQ(refusal(kFolder / "no_columns.parquet"),
            (kFolder / "no_columns.parquet").string() + ": found no columns");
}

TEST(TableReader, RefusesOtherFiles) {
  TemporaryFolder folder;
  for (const char* name : {"a.parquet", "a.arrow", "b.PARQUET"}) {
    for (const std::string& text : {std::string(), std::string("PAR1"), std::string("ARROW1"),
                                    std::string("{\"text\": \"a\"}\n"), std::string(100, '\xff'),
                                    "PAR1" + std::string(100, '\0') + "PAR1"}) {
      const fs::path file = folder.write(name, text);
      EXPECT_THAT(refusal(file), HasSubstr(file.string() + ": is damaged, or not "));
    }
  }
  EXPECT_THAT(refusal(folder / "none.parquet"), HasSubstr("none.parquet: cannot open: No such"));
  fs::create_directory(folder / "c.arrow");
  EXPECT_THAT(refusal(folder / "c.arrow"), HasSubstr("expected a regular file, found a folder"));
  const fs::path other = folder.write("d.arrow", read_file(kFolder / "chat_none.parquet"));
  EXPECT_THAT(refusal(other), HasSubstr("d.arrow: is damaged, or not Arrow's: "));
}

TEST(TableReader, StreamsAreWhole) {
  TemporaryFolder folder;
  const std::string whole = read_file(kFolder / "chat_stream.arrow");
  constexpr size_t kMark = 8;
  const fs::path file = folder.write("a.arrow", whole.substr(0, whole.size() - kMark));
  EXPECT_EQ(refusal(file), file.string() +
                               ": behind row 40: is damaged, or not Arrow's: found no mark of its "
                               "end: it was cut off, or is still being written");
  EXPECT_THAT(refusal(folder.write("a.arrow", whole + whole)),
              HasSubstr(": found " + std::to_string(whole.size()) + " bytes behind its end"));
}

// Whatever is read of them, it is records, or a DataError.
void expect_no_crash(const fs::path& file, int64_t& refused) {
  try {
    const auto reader = open_records(file);
    int64_t rows = 0;
    for (std::string record; reader->next(record) && rows < 10000; ++rows)
      EXPECT_TRUE(Json::accept(record)) << record;
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr(file.string()));
    ++refused;
  }
}

TEST(TableReader, DamagedFilesAreErrors) {
  TemporaryFolder folder;
  auto write = [&](const std::string& name, const std::string& bytes) {
    fs::remove(folder / name);  // or some file systems wait for the disk
    return folder.write(name, bytes);
  };
  for (const char* name : {"kinds.parquet", "kinds_stream.arrow", "kinds_file.arrow",
                           "chat_stream.arrow", "chat_lz4.arrow", "chat_zstd.parquet"}) {
    SCOPED_TRACE(name);
    const std::string whole = read_file(kFolder / name);
    int64_t refused = 0;
    for (size_t size = 0; size < whole.size(); size += 1 + size / 64)
      expect_no_crash(write(name, whole.substr(0, size)), refused);
    EXPECT_GT(refused, 60);
    refused = 0;
    for (size_t at = 0; at < whole.size(); at += 3) {
      std::string damaged = whole;
      damaged[at] ^= static_cast<char>(at % 2 == 0 ? 0xff : 1 << at % 8);
      expect_no_crash(write(name, damaged), refused);
    }
    EXPECT_GT(refused, 60);
  }
}

}  // namespace
}  // namespace longshore::data
