#include "longshore/data/safetensors/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>

#include "longshore/base/error.h"
#include "longshore/data/safetensors/safetensors_float.h"
#include "longshore/data/safetensors/safetensors_folder.h"
#include "longshore/data/safetensors/safetensors_writer.h"
#include "tests/data/safetensors_samples.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;
using Dtype = SafetensorsDtype;

const fs::path kGoldens = "tests/goldens/safetensors";

constexpr Dtype kAllDtypes[] = {Dtype::boolean, Dtype::uint8,    Dtype::int8,  Dtype::int16,
                                Dtype::float16, Dtype::bfloat16, Dtype::int32, Dtype::float32,
                                Dtype::float64, Dtype::int64};

// A file with this header and that data.
std::string file_of(std::string_view header, std::string_view data) {
  const uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file.append(header).append(data);
}

// What must hold of any file that is not refused.
void expect_consistent(std::span<const SafetensorsTensor> tensors, std::string_view file) {
  uint64_t length;
  std::memcpy(&length, file.data(), sizeof length);
  const std::byte* next = bytes_of(file).data() + sizeof length + length;
  for (const SafetensorsTensor& tensor : tensors) {
    ASSERT_EQ(tensor.data.data(), next);
    ASSERT_EQ(static_cast<int64_t>(tensor.data.size()), tensor.bytes());
    ASSERT_LE(tensor.shape.size(), kMaxSafetensorsRank);
    next += tensor.data.size();
  }
  ASSERT_EQ(next, bytes_of(file).data() + file.size());
}

std::string refusal(std::string_view file) {
  return message_of<DataError>([&] { parse_safetensors(bytes_of(file)); });
}

TEST(Safetensors, GivesBackEveryDtypeAndShape) {
  const std::vector<std::vector<int64_t>> shapes = {
      {}, {5}, {2, 3}, {4, 0, 2}, {1, 2, 1, 2, 1, 2, 1, 2}};
  std::vector<SafetensorsInfo> tensors;
  for (Dtype dtype : kAllDtypes)
    for (const auto& shape : shapes)
      tensors.push_back({"t" + std::to_string(tensors.size()), dtype, shape});
  TemporaryFolder folder;
  {
    SafetensorsWriter writer(folder / "a.safetensors", tensors);
    size_t piece = 1;
    for (const SafetensorsInfo& info : tensors) {
      const std::string data = some_data(info);
      for (size_t first = 0; first < data.size(); first += piece)
        writer.append(info.name,
                      bytes_of(data).subspan(first, std::min(piece, data.size() - first)));
      piece = piece % 7 + 1;
    }
    writer.finish();
  }
  const SafetensorsFile file(folder / "a.safetensors");
  EXPECT_EQ(infos_of(file), tensors);
  for (const SafetensorsInfo& info : tensors) {
    ASSERT_TRUE(file.contains(info.name));
    EXPECT_EQ(static_cast<const SafetensorsInfo&>(file.at(info.name)), info);
    EXPECT_EQ(text_of(file.at(info.name).data), some_data(info)) << info.name;
  }
  EXPECT_FALSE(file.contains("t"));
}

TEST(Safetensors, GivesBackMoreThanTheWritersBuffer) {
  TemporaryFolder folder;
  const SafetensorsInfo info{"large", Dtype::uint8, {3'500'001}};
  const std::string data = some_data(info);
  {
    SafetensorsWriter writer(folder / "a.safetensors", {info});
    size_t first = 0;
    for (size_t piece : {700'000, 700'000, 10, 1'500'000, 599'990})
      writer.append("large", bytes_of(data).subspan(std::exchange(first, first + piece), piece));
    EXPECT_THROW(writer.append("large", bytes_of(data)), InternalError);
    writer.append("large", bytes_of(data).subspan(first));
    writer.finish();
  }
  EXPECT_EQ(text_of(SafetensorsFile(folder / "a.safetensors").at("large").data), data);
}

// The expected bytes are those of safetensors 0.8.0 for Python.
TEST(Safetensors, WritesWhatThePythonLibraryWrites) {
  TemporaryFolder folder;
  std::vector<SafetensorsInfo> tensors;
  for (Dtype dtype : kAllDtypes) {
    std::string lower = name(dtype);
    for (char& letter : lower) letter = static_cast<char>(std::tolower(letter));
    tensors.push_back({lower, dtype, {2, 1}});
  }
  tensors = sorted_as_safetensors(tensors);
  const std::string counting("\0\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17", 16);
  std::string data;
  SafetensorsWriter writer(folder / "a.safetensors", tensors);
  for (const SafetensorsInfo& info : tensors) {
    data += counting.substr(0, static_cast<size_t>(info.bytes()));
    writer.append(info.name, bytes_of(counting).first(static_cast<size_t>(info.bytes())));
  }
  writer.finish();
  EXPECT_EQ(read_file(folder / "a.safetensors"),
            file_of(R"({"__metadata__":{"format":"pt"},)"
                    R"("i64":{"dtype":"I64","shape":[2,1],"data_offsets":[0,16]},)"
                    R"("f64":{"dtype":"F64","shape":[2,1],"data_offsets":[16,32]},)"
                    R"("f32":{"dtype":"F32","shape":[2,1],"data_offsets":[32,40]},)"
                    R"("i32":{"dtype":"I32","shape":[2,1],"data_offsets":[40,48]},)"
                    R"("bf16":{"dtype":"BF16","shape":[2,1],"data_offsets":[48,52]},)"
                    R"("f16":{"dtype":"F16","shape":[2,1],"data_offsets":[52,56]},)"
                    R"("i16":{"dtype":"I16","shape":[2,1],"data_offsets":[56,60]},)"
                    R"("i8":{"dtype":"I8","shape":[2,1],"data_offsets":[60,62]},)"
                    R"("u8":{"dtype":"U8","shape":[2,1],"data_offsets":[62,64]},)"
                    R"("bool":{"dtype":"BOOL","shape":[2,1],"data_offsets":[64,66]}}   )",
                    data));
}

TEST(Safetensors, WritesNamesAsThePythonLibraryDoes) {
  TemporaryFolder folder;
  const std::string odd = "a\"\\/\xc3\xa9\x01\n\x7f\xe2\x80\xa8";
  write_some(folder / "a.safetensors", sorted_as_safetensors({{odd, Dtype::uint8, {}},
                                                              {"B", Dtype::uint8, {0, 4}},
                                                              {"A", Dtype::uint8, {0, 3}}}));
  EXPECT_EQ(read_file(folder / "a.safetensors"),
            file_of("{\"__metadata__\":{\"format\":\"pt\"},"
                    "\"A\":{\"dtype\":\"U8\",\"shape\":[0,3],\"data_offsets\":[0,0]},"
                    "\"B\":{\"dtype\":\"U8\",\"shape\":[0,4],\"data_offsets\":[0,0]},"
                    "\"a\\\"\\\\/\xc3\xa9\\u0001\\n\x7f\xe2\x80\xa8\":"
                    "{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}      ",
                    some_data({odd, Dtype::uint8, {}})));
  EXPECT_EQ(SafetensorsFile(folder / "a.safetensors").at(odd).data.size(), 1u);

  write_some(folder / "empty.safetensors", {});
  EXPECT_EQ(read_file(folder / "empty.safetensors"),
            file_of(R"({"__metadata__":{"format":"pt"}})", ""));
  EXPECT_TRUE(SafetensorsFile(folder / "empty.safetensors").tensors().empty());
}

// Files that transformers and peft wrote.
TEST(Safetensors, ReadAndWrittenAgainIsByteIdentical) {
  TemporaryFolder folder;
  for (const char* name : {"model-00004-of-00004.safetensors", "adapter_model.safetensors"}) {
    const SafetensorsFile file(kGoldens / name);
    EXPECT_GE(file.tensors().size(), 6u);
    const std::vector<SafetensorsInfo> tensors = sorted_as_safetensors(infos_of(file));
    SafetensorsWriter writer(folder / name, tensors);
    for (const SafetensorsInfo& info : tensors) writer.append(info.name, file.at(info.name).data);
    writer.finish();
    EXPECT_TRUE(read_file(folder / name) == read_file(kGoldens / name)) << name;
  }
}

std::string small_file() {
  return file_of(R"({"__metadata__":{"format":"pt"},)"
                 R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                 R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]}} )",
                 "0123456789abcd");
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string whole = small_file();
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    // Of its own, so that reading beyond it is noticed.
    const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<int64_t>(bytes));
    EXPECT_NE(refusal({cut.data(), cut.size()}), "") << bytes;
  }
  EXPECT_NE(refusal(whole + '\0'), "");
  EXPECT_EQ(parse_safetensors(bytes_of(whole)).size(), 2u);
}

TEST(Safetensors, AnyByteOfTheHeaderIsRefusedOrConsistent) {
  const std::string whole = small_file();
  int refused = 0, taken = 0;
  for (size_t at = 0; at < whole.size() - 14; ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string changed = whole;
      changed[at] = static_cast<char>(value);
      try {
        expect_consistent(parse_safetensors(bytes_of(changed)), changed);
        ++taken;
      } catch (const DataError&) {
        ++refused;
      }
      if (HasFatalFailure()) FAIL() << "byte " << at << " = " << value;
    }
  }
  EXPECT_GT(refused, 10'000);
  EXPECT_GT(taken, 300);  // other names, other metadata, another spacing
}

TEST(Safetensors, RefusesWhatTheFormatForbids) {
  const auto tensor = [](const std::string& name, const std::string& dtype,
                         const std::string& shape, const std::string& offsets) {
    return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
           ",\"data_offsets\":" + offsets + "}";
  };
  const std::string good = tensor("a", "U8", "[4]", "[0,4]");
  struct Case {
    std::string header, message;
  };
  const Case cases[] = {
      {"", "begins with \"\", expected \"{\""},
      {"[]", "expected \"{\""},
      {" {" + good + "}", "expected \"{\""},
      {"\xef\xbb\xbf{" + good + "}", "expected \"{\""},
      {"{" + good, "no valid JSON"},
      {"{" + good + ",}", "no valid JSON"},
      {"{" + good + "}}", "no valid JSON"},
      {"{" + good + "}" + std::string(1, '\0'), "found a zero"},
      {"{" + tensor("\xff", "U8", "[4]", "[0,4]") + "}", "no valid JSON"},
      {"{" + tensor("\\ud800", "U8", "[4]", "[0,4]") + "}", "no valid JSON"},
      {"{" + good + "," + good + "}", "tensor \"a\": data begins at 0, expected 4"},
      {"{" + tensor("a", "U8", "[0]", "[0,0]") + "," + tensor("\\u0061", "U8", "[4]", "[0,4]") +
           "}",
       "tensor \"a\": found twice"},
      {"{\"a\":3}", "tensor \"a\": expected an object, found 3"},
      {"{\"a\":[]}", "tensor \"a\": expected an object, found an array"},
      {"{\"a\":{}}", "found no dtype"},
      {"{\"a\":{\"dtype\":\"U8\"}}", "found no shape"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", "found no data_offsets"},
      {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", "found dtype twice"},
      {"{\"a\":{\"shape\":[4],\"shape\":[4]}}", "found shape twice"},
      {"{\"a\":{\"strides\":[1]}}", "found \"strides\""},
      {"{\"a\":{\"dtype\":{}}}", "found an object"},
      {"{" + tensor("a", "U16", "[2]", "[0,4]") + "}", "dtype: expected one of BOOL, U8, I8"},
      {"{" + tensor("a", "u8", "[4]", "[0,4]") + "}", "found \"u8\""},
      {"{" + tensor("a", "U8", "4", "[0,4]") + "}", "shape: expected a list"},
      {"{" + tensor("a", "U8", "[4.0]", "[0,4]") + "}", "found 4.0"},
      {"{" + tensor("a", "U8", "[-4]", "[0,4]") + "}", "found -4"},
      {"{" + tensor("a", "U8", "[null]", "[0,4]") + "}", "found null"},
      {"{" + tensor("a", "U8", "[true]", "[0,4]") + "}", "found a boolean"},
      {"{" + tensor("a", "U8", "[\"4\"]", "[0,4]") + "}", "found the string \"4\""},
      {"{" + tensor("a", "U8", "[[4]]", "[0,4]") + "}", "found an array"},
      {"{" + tensor("a", "U8", "[1,1,1,1,1,1,1,1,4]", "[0,4]") + "}", "at most 8 sizes"},
      {"{" + tensor("a", "U8", "[9223372036854775808]", "[0,4]") + "}", "9223372036854775808"},
      {"{" + tensor("a", "U8", "[99999999999999999999]", "[0,4]") + "}",
       "found 99999999999999999999"},
      {"{" + tensor("a", "U8", "[4294967296,4294967296]", "[0,4]") + "}", "2^63 - 1 elements"},
      {"{" + tensor("a", "U8", "[4294967296,4294967296,0]", "[0,0]") + "}", "2^63 - 1 elements"},
      {"{" + tensor("a", "F64", "[4611686018427387904]", "[0,4]") + "}", "2^63 - 1 bytes"},
      {"{" + tensor("a", "F64", "[2305843009213693952]", "[0,4]") + "}", "2^63 - 1 bytes"},
      {"{" + tensor("a", "U8", "[4]", "[0]") + "}", "expected two offsets, found one or none"},
      {"{" + tensor("a", "U8", "[4]", "[0,4,4]") + "}", "expected two offsets, found more"},
      {"{" + tensor("a", "U8", "[4]", "{}") + "}", "expected two offsets, found an object"},
      {"{" + tensor("a", "U8", "[4]", "[4,0]") + "}",
       "data_offsets [4,0], expected them ascending"},
      {"{" + tensor("a", "U8", "[4]", "[0,5]") + "}",
       "data_offsets [0,5], but the file ends after 4 bytes of data"},
      {"{" + tensor("a", "U8", "[4]", "[18446744073709551615,4]") + "}", "expected them ascending"},
      {"{" + tensor("a", "U8", "[3]", "[0,4]") + "}", "U8[3] takes 3 bytes, data_offsets give 4"},
      {"{" + tensor("a", "F32", "[]", "[0,3]") + "}", "F32[] takes 4 bytes"},
      {"{" + tensor("a", "U8", "[3]", "[0,3]") + "}", "have 3 bytes of data, the file 4"},
      {"{" + tensor("a", "U8", "[3]", "[1,4]") + "}", "data begins at 1, expected 0"},
      {"{" + tensor("a", "U8", "[1]", "[0,1]") + "," + tensor("b", "U8", "[2]", "[2,4]") + "}",
       "tensor \"b\": data begins at 2, expected 1"},
      {"{" + tensor("a", "U8", "[3]", "[0,3]") + "," + tensor("b", "U8", "[2]", "[2,4]") + "}",
       "tensor \"b\": data begins at 2, expected 3"},
      {"{" + good + "," + tensor("b", "U8", "[0]", "[2,2]") + "}", "data begins at 2, expected 4"},
      {"{\"__metadata__\":null," + good + "}", "tensor \"__metadata__\": expected an object"},
      {"{\"__metadata__\":{\"a\":1}," + good + "}", "__metadata__: expected strings alone"},
      {"{\"__metadata__\":{\"a\":{}}," + good + "}", "__metadata__: expected strings alone"},
      {"{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}," + good + "}", "\"a\": found twice"},
      {"{\"__metadata__\":{},\"__metadata__\":{}," + good + "}", "__metadata__: found twice"},
  };
  EXPECT_EQ(parse_safetensors(bytes_of(file_of("{" + good + "} \n", "0123"))).size(), 1u);
  for (const auto& [header, message] : cases) {
    const std::string what = refusal(file_of(header, "0123"));
    EXPECT_THAT(what, HasSubstr(message)) << header;
  }
}

TEST(Safetensors, OrderOfTheHeaderDoesNotMatter) {
  const std::string file =
      file_of(R"({"b":{"data_offsets":[1,3],"shape":[2],"dtype":"I8"},)"
              R"("__metadata__":{},"a":{"shape":[],"dtype":"U8","data_offsets":[0,1]}})",
              "abc");
  const std::vector<SafetensorsTensor> tensors = parse_safetensors(bytes_of(file));
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[1].name, "b");
  EXPECT_EQ(text_of(tensors[1].data), "bc");
  expect_consistent(tensors, file);
}

TEST(Safetensors, ALengthThatIsNotThereIsRefused) {
  for (uint64_t length : {uint64_t{1} << 31, uint64_t{100'000'001}, uint64_t{1} << 63,
                          std::numeric_limits<uint64_t>::max(), uint64_t{1} << 20, uint64_t{15}}) {
    std::string file = file_of("{}            ", "");
    std::memcpy(file.data(), &length, sizeof length);
    const std::string what = refusal(file);
    EXPECT_THAT(what, HasSubstr("a header of " + std::to_string(length)));
  }
}

TEST(Safetensors, NestingCostsNothing) {
  const std::string deep(5'000'000, '[');
  const std::string start = R"({"a":{"dtype":"U8","shape":)";
  for (const std::string& header :
       {start + deep, start + "1," + deep, "{\"a\":" + deep, "{\"__metadata__\":{\"a\":" + deep}) {
    EXPECT_THAT(refusal(file_of(header, "")), HasSubstr("expected"));
  }
  std::string objects = "{";
  for (int i = 0; i < 1'000'000; ++i) objects += "\"a\":{";
  EXPECT_THAT(refusal(file_of(objects, "")), HasSubstr("expected dtype"));
}

TEST(Safetensors, AHostileNameIsQuotedShort) {
  const std::string name(1'000'000, 'x');
  const std::string what = refusal(file_of("{\"\\u001b\\u202e" + name + "\":3}", ""));
  EXPECT_LT(what.size(), 300u);
  EXPECT_THAT(what, HasSubstr("\"\\x1b\\u202exxx"));
}

TEST(Safetensors, MetadataIsBounded) {
  std::string header = "{\"__metadata__\":{\"a\":\"\"";
  for (int i = 0; i < 1 << 16; ++i) header += ",\"" + std::to_string(i) + "\":\"\"";
  EXPECT_THAT(refusal(file_of(header + "}}", "")), HasSubstr("at most 65536"));
}

TEST(SafetensorsFile, ErrorsNameTheFile) {
  TemporaryFolder folder;
  fs::create_directory(folder / "folder");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  folder.write("empty", "");
  folder.write("text", "no tensors here");
  for (const char* name : {"missing", "folder", "pipe", "empty", "text"}) {
    const std::string what = message_of<DataError>([&] { SafetensorsFile file(folder / name); });
    EXPECT_TRUE(what.starts_with((folder / name).string() + ": ")) << what;
  }
  const SafetensorsFile file(folder.write("good", small_file()));
  EXPECT_EQ(message_of<DataError>([&] { file.at("c"); }),
            file.path().string() + ": no tensor \"c\"");
}

}  // namespace
}  // namespace longshore::data
