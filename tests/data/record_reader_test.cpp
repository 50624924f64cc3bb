#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/data/text/open_records.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using Json = nlohmann::ordered_json;

std::string gzip(const std::string& text) {
  z_stream stream = {};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string zstd(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

struct Records {
  std::vector<Json> objects;
  std::vector<int64_t> lines;
};

Records read(const std::filesystem::path& path) {
  Records records;
  const std::unique_ptr<RecordReader> reader = open_records(path);
  for (std::string record; reader->next(record);) {
    records.objects.push_back(Json::parse(record));
    records.lines.push_back(reader->line_number());
  }
  std::string record;
  EXPECT_FALSE(reader->next(record));
  return records;
}

std::string refusal(const std::filesystem::path& path) {
  return message_of<DataError>([&] { read(path); });
}

std::string quoted_field(const Json& value) {
  if (value.is_null()) return "";
  std::string field = "\"";
  for (const char c : value.get<std::string>()) field += c == '"' ? "\"\"" : std::string(1, c);
  return field + "\"";
}

// Texts with all that formats use for themselves.
std::vector<Json> some_objects() {
  std::mt19937 random(1);
  const std::vector<std::string> parts{"a", "b c", "\"",   "\"\"", ",",  "\t", "\n", "\\",
                                       "{", "]",   "\\\"", "é",    "漢", "'",  ":"};
  std::vector<Json> objects;
  for (int i = 0; i < 300; ++i) {
    auto text = [&] {
      std::string text = "x";
      for (auto n = random() % 20; n > 0; --n) text += parts[random() % parts.size()];
      return text;
    };
    objects.push_back({{"prompt", text()},
                       {"more", i % 3 == 0 ? Json() : Json(text())},
                       {"a \"name\", long", text()}});
  }
  return objects;
}

// Which a build has or has not: table_reader_test has more of them.
TEST(RecordReader, TablesOfColumnsTakeWhatReadsThem) {
  TemporaryFolder folder;
  for (const char* name : {"a.parquet", "a.arrow"})
    EXPECT_THAT(refusal(folder.write(name, "none")),
                AnyOf(HasSubstr(name + std::string(": is damaged, or not ")),
                      HasSubstr("file, which this build has no libraries for; nearest: "
                                "scripts/setup --parquet, and build again")));
}

TEST(RecordReader, AllFormatsHaveTheSameRecords) {
  TemporaryFolder folder;
  const std::vector<Json> objects = some_objects();
  std::string lines, csv, tsv;
  for (const Json& object : objects) {
    lines += object.dump() + "\n";
    for (auto [table, separator] : {std::pair{&csv, ','}, {&tsv, '\t'}}) {
      if (table->empty())
        *table = "prompt" + std::string(1, separator) + "more" + separator +
                 "\"a \"\"name\"\", long\"\r\n";
      *table += quoted_field(object["prompt"]) + separator + quoted_field(object["more"]) +
                separator + quoted_field(object["a \"name\", long"]) + "\n";
    }
  }
  const std::pair<std::string, std::string> files[] = {
      {"a.jsonl", "\xef\xbb\xbf" + lines},
      {"a.ndjson", lines},
      {"a.json", lines},
      {"b.json", Json(objects).dump()},
      {"c.JSON", "\xef\xbb\xbf \n" + Json(objects).dump(2) + "\n\n"},
      {"a.csv", csv},
      {"a.Tsv", tsv}};
  for (const auto& [name, text] : files) {
    SCOPED_TRACE(name);
    EXPECT_EQ(read(folder.write(name, text)).objects, objects);
    EXPECT_EQ(read(folder.write(name + ".gz", gzip(text))).objects, objects);
    EXPECT_EQ(read(folder.write(name + ".zst", zstd(text))).objects, objects);
    // Packed in two parts, which some programs write.
    const std::string head = text.substr(0, text.size() / 3), tail = text.substr(head.size());
    EXPECT_EQ(read(folder.write(name + ".gz", gzip(head) + gzip(tail))).objects, objects);
    EXPECT_EQ(read(folder.write(name + ".ZST", zstd(head) + zstd(tail))).objects, objects);
  }
}

TEST(RecordReader, SaysOnWhichLineARecordBegins) {
  TemporaryFolder folder;
  EXPECT_EQ(read(folder.write("a.jsonl", "{}\n\n{}\n")).lines, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(read(folder.write("a.json", "[\n{\n},{}\n,\n{}]")).lines,
            (std::vector<int64_t>{2, 3, 5}));
  EXPECT_EQ(read(folder.write("a.csv", "x,y\n\n1,\"\n\"\n2,3")).lines,
            (std::vector<int64_t>{3, 5}));
}

TEST(RecordReader, RowsMayLackTheirLastFields) {
  TemporaryFolder folder;
  EXPECT_EQ(read(folder.write("a.csv", "x,y,z\n1\n,2\n1,2,\n")).objects,
            (std::vector<Json>{{{"x", "1"}, {"y", nullptr}, {"z", nullptr}},
                               {{"x", nullptr}, {"y", "2"}, {"z", nullptr}},
                               {{"x", "1"}, {"y", "2"}, {"z", nullptr}}}));
  for (const char* empty : {"a.csv", "b.jsonl", "c.json", "d.tsv"})
    EXPECT_TRUE(read(folder.write(empty, "")).objects.empty());
}

TEST(RecordReader, WhatIsNoneIsRefusedWithItsLine) {
  TemporaryFolder folder;
  const std::tuple<const char*, std::string, const char*> cases[] = {
      {"a.json", "[{}\n,,{}]", ":2: expected an object"},
      {"a.json", "[{}\n{}]", ":2: expected a comma, or the end of the list"},
      {"a.json", "[{},]", ":1: expected an object"},
      {"a.json", "[1]", ":1: expected an object"},
      {"a.json", "[{}]\n[", ":2: found text behind the list"},
      {"a.json", "[{}", ":1: expected a comma, or the end of the list"},
      {"a.json", "[\n{\"a\\", ":2: found the file's end within an object"},
      {"a.csv", "x,,y\n", ":1: found a column without a name"},
      {"a.csv", "x,x\n", ":1: found the column \"x\" again"},
      {"a.csv", "x\n1\n1,2\n", ":3: found 2 fields, expected at most 1"},
      {"a.csv", "x\n\"1\"2\n", ":2: found text behind the quotation mark"},
      {"a.csv", "x\n\"1\n\n", ":2: found no end of a field"},
      {"a.csv", "x\n\xff\n", ":2: "},
      {"a.jsonl.gz", "{}\n", "is damaged, or not gzip's"},
      {"a.jsonl.zst", "{}\n", "is damaged, or not zstd's"}};
  for (const auto& [name, text, expected] : cases)
    EXPECT_THAT(refusal(folder.write(name, text)),
                HasSubstr(name + std::string(expected[0] == ':' ? "" : ": ") + expected))
        << text;
  EXPECT_THAT(refusal(folder / "none.csv"), HasSubstr("none.csv: cannot open"));
}

// Cut anywhere, or with other bytes in it, a packed file is refused, and never all of it is read.
TEST(RecordReader, DamagedPackedFilesAreRefused) {
  TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += "{\"text\": \"" + std::to_string(i * 7919) + "\"}\n";
  for (const auto& [name, packed] : {std::pair<std::string, std::string>{"a.jsonl.gz", gzip(lines)},
                                     {"a.jsonl.zst", zstd(lines)}})
    for (size_t cut = 1; cut < packed.size(); ++cut)
      EXPECT_NE(refusal(folder.write(name, packed.substr(0, cut))), "") << name << " " << cut;
}

TEST(RecordReader, WhatIsPackedTightTakesNoMemory) {
  TemporaryFolder folder;
  const std::string zeros(size_t{64} << 20, '0');
  const auto start = std::chrono::steady_clock::now();
  for (const char* name : {"a.jsonl.zst", "a.json.zst", "a.csv.zst"}) {
    const std::string head = std::string(name) == "a.json.zst" ? "[{" : "";
    EXPECT_THAT(refusal(folder.write(name, zstd(head + zeros))), HasSubstr("of more than 8388608"));
  }
  EXPECT_THAT(refusal(folder.write("b.csv.zst", zstd("x\n\"" + zeros))),
              HasSubstr("of more than 8388608"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

}  // namespace
}  // namespace longshore::data
