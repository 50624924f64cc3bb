#include "data/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/error.h"
#include "data/safetensors_checkpoint.h"
#include "data/safetensors_float.h"
#include "data/safetensors_writer.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

namespace fs = std::filesystem;
using Dtype = SafetensorsDtype;

const fs::path kGoldens = "tests/goldens/safetensors";

constexpr Dtype kAllDtypes[] = {Dtype::boolean, Dtype::uint8,    Dtype::int8,  Dtype::int16,
                                Dtype::float16, Dtype::bfloat16, Dtype::int32, Dtype::float32,
                                Dtype::float64, Dtype::int64};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A file with this header and that data.
std::string file_of(std::string_view header, std::string_view data) {
  const uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file.append(header).append(data);
}

// Values that differ from tensor to tensor.
std::string some_data(const SafetensorsInfo& info) {
  std::mt19937 random(std::hash<std::string>()(info.name));
  std::string data(static_cast<size_t>(info.bytes()), '\0');
  for (char& byte : data) byte = static_cast<char>(random());
  return data;
}

void append_some_data(const SafetensorsInfo& info, SafetensorsWriter& writer) {
  writer.append(info.name, bytes_of(some_data(info)));
}

void write_some(const fs::path& path, const std::vector<SafetensorsInfo>& tensors) {
  SafetensorsWriter writer(path, tensors);
  for (const SafetensorsInfo& info : tensors) append_some_data(info, writer);
  writer.finish();
}

std::vector<SafetensorsInfo> infos_of(const SafetensorsFile& file) {
  return {file.tensors().begin(), file.tensors().end()};
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
      {"{" + tensor("a", "F8_E4M3", "[4]", "[0,4]") + "}", "dtype: expected one of BOOL, U8, I8"},
      {"{" + tensor("a", "u8", "[4]", "[0,4]") + "}", "found \"u8\""},
      {"{" + tensor("a", "U8", "4", "[0,4]") + "}", "shape: expected a list"},
      {"{" + tensor("a", "U8", "[4.0]", "[0,4]") + "}", "found a number with a point"},
      {"{" + tensor("a", "U8", "[-4]", "[0,4]") + "}", "found -4"},
      {"{" + tensor("a", "U8", "[null]", "[0,4]") + "}", "found null"},
      {"{" + tensor("a", "U8", "[true]", "[0,4]") + "}", "found a boolean"},
      {"{" + tensor("a", "U8", "[\"4\"]", "[0,4]") + "}", "found the string \"4\""},
      {"{" + tensor("a", "U8", "[[4]]", "[0,4]") + "}", "found an array"},
      {"{" + tensor("a", "U8", "[1,1,1,1,1,1,1,1,4]", "[0,4]") + "}", "at most 8 sizes"},
      {"{" + tensor("a", "U8", "[9223372036854775808]", "[0,4]") + "}", "9223372036854775808"},
      {"{" + tensor("a", "U8", "[99999999999999999999]", "[0,4]") + "}", "with a point"},
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
    EXPECT_NE(what.find(message), std::string::npos) << header << "\n" << what;
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
    EXPECT_NE(what.find("a header of " + std::to_string(length)), std::string::npos) << what;
  }
}

TEST(Safetensors, NestingCostsNothing) {
  const std::string deep(5'000'000, '[');
  const std::string start = R"({"a":{"dtype":"U8","shape":)";
  for (const std::string& header :
       {start + deep, start + "1," + deep, "{\"a\":" + deep, "{\"__metadata__\":{\"a\":" + deep}) {
    EXPECT_NE(refusal(file_of(header, "")).find("expected"), std::string::npos);
  }
  std::string objects = "{";
  for (int i = 0; i < 1'000'000; ++i) objects += "\"a\":{";
  EXPECT_NE(refusal(file_of(objects, "")).find("expected dtype"), std::string::npos);
}

TEST(Safetensors, AHostileNameIsQuotedShort) {
  const std::string name(1'000'000, 'x');
  const std::string what = refusal(file_of("{\"\\u001b\\u202e" + name + "\":3}", ""));
  EXPECT_LT(what.size(), 300u);
  EXPECT_NE(what.find("\\u001b\\u202exxx"), std::string::npos) << what;
}

TEST(Safetensors, MetadataIsBounded) {
  std::string header = "{\"__metadata__\":{\"a\":\"\"";
  for (int i = 0; i < 1 << 16; ++i) header += ",\"" + std::to_string(i) + "\":\"\"";
  EXPECT_NE(refusal(file_of(header + "}}", "")).find("at most 65536"), std::string::npos);
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

TEST(SafetensorsWriter, LeavesTheOldFileWithoutFinish) {
  TemporaryFolder folder;
  const fs::path path = folder.write("a.safetensors", "old");
  {
    SafetensorsWriter writer(path, {{"a", Dtype::uint8, {4}}});
    writer.append("a", bytes_of("0123"));
    EXPECT_EQ(folder.file_count(), 2u);
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(folder.file_count(), 1u);
}

TEST(SafetensorsWriter, RefusesDataThatWasNotAnnounced) {
  TemporaryFolder folder;
  const std::vector<SafetensorsInfo> tensors = {
      {"a", Dtype::uint8, {4}}, {"none", Dtype::uint8, {0}}, {"b", Dtype::uint8, {2}}};
  SafetensorsWriter writer(folder / "a.safetensors", tensors);
  EXPECT_THROW(writer.append("b", bytes_of("01")), InternalError);
  EXPECT_THROW(writer.append("a", bytes_of("01234")), InternalError);
  writer.append("a", bytes_of("012"));
  EXPECT_THROW(writer.append("b", bytes_of("01")), InternalError);
  writer.append("a", bytes_of("3"));
  EXPECT_THROW(writer.append("a", bytes_of("4")), InternalError);
  const std::string what = message_of<InternalError>([&] { writer.finish(); });
  EXPECT_NE(what.find("\"b\" lacks 2 bytes"), std::string::npos) << what;
  writer.append("b", bytes_of("01"));
  EXPECT_THROW(writer.append("b", bytes_of("01")), InternalError);
  writer.finish();
  EXPECT_EQ(text_of(SafetensorsFile(folder / "a.safetensors").at("a").data), "0123");
}

TEST(SafetensorsWriter, RefusesTensorsThatCannotBeRead) {
  TemporaryFolder folder;
  const int64_t huge = int64_t{1} << 62;
  const std::vector<std::vector<SafetensorsInfo>> lists = {
      {{"__metadata__", Dtype::uint8, {}}},
      {{"\xff", Dtype::uint8, {}}},
      {{"a", Dtype::uint8, {}}, {"a", Dtype::int8, {}}},
      {{"a", Dtype::uint8, {-1}}},
      {{"a", Dtype::uint8, {1, 1, 1, 1, 1, 1, 1, 1, 1}}},
      {{"a", Dtype::uint8, {huge}}, {"b", Dtype::uint8, {huge}}},
  };
  for (const auto& list : lists)
    EXPECT_THROW(SafetensorsWriter(folder / "a.safetensors", list), InternalError);
  EXPECT_EQ(folder.file_count(), 0u);
}

TEST(SafetensorsWriter, NamesAFileItCannotWrite) {
  TemporaryFolder folder;
  const fs::path path = folder / "missing" / "a.safetensors";
  const std::string what = message_of<DataError>([&] { SafetensorsWriter(path, {}); });
  EXPECT_NE(what.find(path.string()), std::string::npos) << what;
  EXPECT_NE(what.find("No such file"), std::string::npos) << what;
}

// The parameters of the golden model in the order of transformers' state_dict().
std::vector<SafetensorsInfo> golden_tensors() {
  std::vector<SafetensorsInfo> tensors;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    tensors.push_back({name + ".weight", Dtype::float32, std::move(shape)});
  };
  add("model.embed_tokens", {163, 72});
  for (int i = 0; i < 3; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    add(layer + "self_attn.q_proj", {72, 72});
    add(layer + "self_attn.k_proj", {24, 72});
    add(layer + "self_attn.v_proj", {24, 72});
    add(layer + "self_attn.o_proj", {72, 72});
    add(layer + "mlp.gate_proj", {100, 72});
    add(layer + "mlp.up_proj", {100, 72});
    add(layer + "mlp.down_proj", {72, 100});
    add(layer + "input_layernorm", {72});
    add(layer + "post_attention_layernorm", {72});
  }
  add("model.norm", {72});
  add("lm_head", {163, 72});
  return tensors;
}

TEST(Checkpoint, IsShardedAsTransformersDoes) {
  TemporaryFolder folder;
  const std::vector<SafetensorsInfo> tensors = golden_tensors();
  write_checkpoint(folder / "model", tensors, 150'000, append_some_data);
  const char* index = "model.safetensors.index.json";
  EXPECT_EQ(read_file(folder / "model" / index), read_file(kGoldens / index));
  const char* shard = "model-00004-of-00004.safetensors";
  EXPECT_EQ(infos_of(SafetensorsFile(folder / "model" / shard)),
            infos_of(SafetensorsFile(kGoldens / shard)));

  const Checkpoint checkpoint(folder / "model");
  EXPECT_EQ(checkpoint.names().size(), tensors.size());
  for (const SafetensorsInfo& info : tensors) {
    ASSERT_TRUE(checkpoint.contains(info.name));
    EXPECT_EQ(checkpoint.at(info.name).shape, info.shape);
    EXPECT_TRUE(text_of(checkpoint.at(info.name).data) == some_data(info)) << info.name;
  }
  const std::string what = message_of<DataError>([&] { checkpoint.at("lm_haed.weight"); });
  EXPECT_NE(what.find("nearest: \"lm_head.weight\""), std::string::npos) << what;
}

TEST(Checkpoint, IsOneFileWhenThatSuffices) {
  TemporaryFolder folder;
  const std::vector<SafetensorsInfo> tensors = {{"b", Dtype::float32, {3}},
                                                {"a", Dtype::float32, {2}}};
  write_checkpoint(folder / "fits", tensors, 20, append_some_data);
  EXPECT_EQ(Checkpoint(folder / "fits").names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(fs::exists(folder / "fits" / "model.safetensors"));
  write_checkpoint(folder / "larger", tensors, 19, append_some_data);
  EXPECT_EQ(Checkpoint(folder / "larger").names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(fs::exists(folder / "larger" / "model.safetensors"));
  write_checkpoint(folder / "empty", {}, 19, append_some_data);
  EXPECT_TRUE(Checkpoint(folder / "empty").names().empty());
}

TEST(Checkpoint, ATensorLargerThanAShardIsAlone) {
  TemporaryFolder folder;
  const std::vector<SafetensorsInfo> tensors = {
      {"a", Dtype::uint8, {5}}, {"b", Dtype::uint8, {50}}, {"c", Dtype::uint8, {5}}};
  write_checkpoint(folder / "model", tensors, 10, append_some_data);
  const SafetensorsFile first(folder / "model" / "model-00001-of-00002.safetensors");
  const SafetensorsFile second(folder / "model" / "model-00002-of-00002.safetensors");
  EXPECT_EQ(infos_of(first), (std::vector{tensors[1]}));
  EXPECT_EQ(infos_of(second), (std::vector{tensors[0], tensors[2]}));
}

TEST(Checkpoint, IsNotWrittenOver) {
  TemporaryFolder folder;
  const std::vector<SafetensorsInfo> tensors = {{"a", Dtype::uint8, {5}}, {"b", Dtype::uint8, {5}}};
  for (int64_t max_shard_bytes : {5, 10}) {
    const fs::path directory = folder / std::to_string(max_shard_bytes);
    write_checkpoint(directory, tensors, max_shard_bytes, append_some_data);
    for (int64_t other : {5, 10})
      EXPECT_THROW(write_checkpoint(directory, tensors, other, append_some_data), DataError);
    EXPECT_EQ(text_of(Checkpoint(directory).at("a").data), some_data(tensors[0]));
  }
}

TEST(Checkpoint, IsThereOnlyWhenItIsComplete) {
  TemporaryFolder folder;
  const std::vector<SafetensorsInfo> tensors = {{"a", Dtype::uint8, {5}}, {"b", Dtype::uint8, {5}}};
  const auto fail_at_b = [](const SafetensorsInfo& info, SafetensorsWriter& writer) {
    if (info.name == "b") throw DataError("no b");
    append_some_data(info, writer);
  };
  for (int64_t max_shard_bytes : {5, 10}) {
    const fs::path directory = folder / std::to_string(max_shard_bytes);
    EXPECT_THROW(write_checkpoint(directory, tensors, max_shard_bytes, fail_at_b), DataError);
    EXPECT_THROW(Checkpoint checkpoint(directory), DataError);
    for (const fs::directory_entry& entry : fs::directory_iterator(directory))
      EXPECT_EQ(entry.path().filename(), "model-00001-of-00002.safetensors");
    write_checkpoint(directory, tensors, max_shard_bytes, append_some_data);
    EXPECT_EQ(Checkpoint(directory).names().size(), 2u);
  }
}

TEST(Checkpoint, TheSingleFileCountsWhereThereIsAnIndexToo) {
  TemporaryFolder folder;
  write_some(folder / "part", {{"sharded", Dtype::uint8, {1}}});
  folder.write("model.safetensors.index.json", R"({"weight_map":{"sharded":"part"}})");
  EXPECT_EQ(Checkpoint(folder / "").names(), std::vector<std::string>{"sharded"});
  write_some(folder / "model.safetensors", {{"single", Dtype::uint8, {1}}});
  EXPECT_EQ(Checkpoint(folder / "").names(), std::vector<std::string>{"single"});
}

TEST(Checkpoint, CallsTensorsAsItIsTold) {
  TemporaryFolder folder;
  const std::vector<SafetensorsInfo> tensors = {
      {"old.a", Dtype::uint8, {2}}, {"dropped", Dtype::uint8, {3}}, {"b", Dtype::uint8, {4}}};
  const TensorNaming naming = [](std::string_view name) -> std::optional<std::string> {
    if (name == "dropped") return std::nullopt;
    return std::string(name.starts_with("old.") ? name.substr(4) : name);
  };
  for (int64_t max_shard_bytes : {4, 100}) {
    const fs::path directory = folder / std::to_string(max_shard_bytes);
    write_checkpoint(directory, tensors, max_shard_bytes, append_some_data);
    const Checkpoint checkpoint(directory, naming);
    EXPECT_EQ(checkpoint.names(), (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(checkpoint.at("a").name, "a");
    EXPECT_EQ(text_of(checkpoint.at("a").data), some_data(tensors[0]));
  }
  write_some(folder / "model.safetensors", {tensors[0], {"a", Dtype::uint8, {1}}});
  const std::string what =
      message_of<DataError>([&] { Checkpoint checkpoint(folder / "", naming); });
  EXPECT_NE(what.find("found both \"old.a\" and \"a\" for \"a\", expected one of them"),
            std::string::npos)
      << what;
}

// As in Hugging Face's cache, where files are links to where their contents lie.
TEST(Checkpoint, FollowsLinks) {
  TemporaryFolder folder;
  fs::create_directories(folder / "blobs");
  fs::create_directories(folder / "snapshot");
  write_some(folder / "blobs" / "1234", {{"a", Dtype::uint8, {1}}});
  fs::create_symlink("../blobs/1234", folder / "snapshot" / "model.safetensors");
  EXPECT_TRUE(Checkpoint(folder / "snapshot").contains("a"));
  fs::remove(folder / "blobs" / "1234");
  const std::string what =
      message_of<DataError>([&] { Checkpoint checkpoint(folder / "snapshot"); });
  EXPECT_NE(what.find("cannot open"), std::string::npos) << what;
}

TEST(Checkpoint, ListsAllThatIsMissingOrContradictory) {
  TemporaryFolder folder;
  const SafetensorsInfo a{"a", Dtype::uint8, {1}}, b{"b", Dtype::uint8, {1}},
      extra{"extra", Dtype::uint8, {1}};
  write_some(folder / "1", {a, b});
  write_some(folder / "2", {b, extra});
  folder.write("3", "damaged");
  folder.write("model.safetensors.index.json",
               R"({"weight_map":{"a":"1","b":"2","c":"2","d":"3","e":"4","f":"1"}})");
  const std::string what = message_of<DataError>([&] { Checkpoint checkpoint(folder / ""); });
  for (const char* problem :
       {"model.safetensors.index.json: ", "\"b\" is in \"1\", the index says in \"2\"",
        "\"extra\" is in \"2\", but not in the index", "/3: no safetensors file, or truncated",
        "/4: cannot open", "\"c\" is not in \"2\"", "\"f\" is not in \"1\""})
    EXPECT_NE(what.find(problem), std::string::npos) << problem << "\n" << what;
  EXPECT_EQ(what.find("\"d\""), std::string::npos) << what;
  EXPECT_EQ(std::count(what.begin(), what.end(), '\n'), 6) << what;
}

TEST(Checkpoint, ListsNoMoreThanAnybodyReads) {
  TemporaryFolder folder;
  write_some(folder / "1", {});
  std::string map;
  for (int i = 0; i < 1000; ++i) map += (i ? ",\"" : "\"") + std::to_string(i) + "\":\"1\"";
  folder.write("model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
  const std::string what = message_of<DataError>([&] { Checkpoint checkpoint(folder / ""); });
  EXPECT_NE(what.find("and 950 more"), std::string::npos) << what;
}

TEST(Checkpoint, AFolderWithoutOneIsRefused) {
  TemporaryFolder folder;
  const std::string what = message_of<DataError>([&] { Checkpoint checkpoint(folder / "none"); });
  EXPECT_NE(what.find("none: found neither model.safetensors nor"), std::string::npos) << what;
}

TEST(SafetensorsIndex, RefusesWhatIsNone) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "no valid JSON"},
      {"{", "no valid JSON"},
      {"[]", "expected an object with a weight_map, found a list"},
      {"3", "expected an object with a weight_map, found 3"},
      {"\"\"", "found a string"},
      {"{}", "no weight_map"},
      {R"({"metadata":{"weight_map":{"a":"b"}}})", "no weight_map"},
      {R"({"weight_map":3})", "weight_map: expected an object, found 3"},
      {R"({"weight_map":[]})", "weight_map: expected an object, found a list"},
      {R"({"weight_map":null})", "weight_map: expected an object, found null"},
      {R"({"weight_map":"a"})", "weight_map: expected an object, found a string"},
      {R"({"weight_map":{"a":3}})", "\"a\": expected the name of a file, found 3"},
      {R"({"weight_map":{"a":{}}})", "\"a\": expected the name of a file, found an object"},
      {R"({"weight_map":{"a":["b"]}})", "\"a\": expected the name of a file, found a list"},
      {R"({"weight_map":{"a":""}})", "expected the name of a file, found \"\""},
      {R"({"weight_map":{"a":"."}})", "found \".\""},
      {R"({"weight_map":{"a":".."}})", "found \"..\""},
      {R"({"weight_map":{"a":"../b"}})", "found \"../b\""},
      {R"({"weight_map":{"a":"/etc/passwd"}})", "found \"/etc/passwd\""},
      {R"({"weight_map":{"a":"b/c"}})", "found \"b/c\""},
      {R"({"weight_map":{"a":"b\u002fc"}})", "found \"b/c\""},
      {R"({"weight_map":{"a":"b\u0000"}})", "found \"b\\u0000\""},
      {R"({"weight_map":{"a":"b","a":"b"}})", "\"a\": found twice"},
      {R"({"weight_map":{},"weight_map":{}})", "weight_map: found twice"},
      {R"({"metadata":)" + std::string(1'000'000, '['), "nested deeper than 32"},
  };
  for (const auto& [text, message] : cases) {
    const std::string what = message_of<DataError>([&] { parse_safetensors_index(text); });
    EXPECT_NE(what.find(message), std::string::npos) << text.substr(0, 80) << "\n" << what;
  }
}

TEST(SafetensorsIndex, TakesAnythingBesideTheMap) {
  const auto map = parse_safetensors_index(
      R"({"metadata":{"total_size":1.5e9,"x":[null,true,{"y":-1}]},"weight_map":{"a":"b","c":"b"},)"
      R"("more":"m"})");
  EXPECT_EQ(map, (std::map<std::string, std::string>{{"a", "b"}, {"c", "b"}}));
  EXPECT_TRUE(parse_safetensors_index(R"({"weight_map":{}})").empty());
}

SafetensorsTensor tensor_of(Dtype dtype, std::span<const std::byte> data) {
  SafetensorsTensor tensor;
  tensor.name = "w";
  tensor.dtype = dtype;
  tensor.shape = {static_cast<int64_t>(data.size()) / size_bytes(dtype)};
  tensor.data = data;
  return tensor;
}

// Sign, exponent and fraction, put together by ldexp.
float value_of(uint16_t bits, int exponent_bits, int fraction_bits) {
  const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  float magnitude;
  if (exponent == (1 << exponent_bits) - 1)
    magnitude = fraction ? std::nanf("") : std::numeric_limits<float>::infinity();
  else if (exponent == 0)
    magnitude = std::ldexp(static_cast<float>(fraction), 1 - bias - fraction_bits);
  else
    magnitude = std::ldexp(static_cast<float>(fraction + (1 << fraction_bits)),
                           exponent - bias - fraction_bits);
  return bits >> 15 ? -magnitude : magnitude;
}

TEST(ToFloat32, ConvertsEveryHalf) {
  // One byte off, as a header of odd length makes it.
  std::vector<std::byte> room(1 + 65536 * 2);
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    std::memcpy(room.data() + 1 + bits * 2, &half, 2);
  }
  struct Format {
    Dtype dtype;
    int exponent_bits, fraction_bits;
  };
  for (const Format& format : {Format{Dtype::float16, 5, 10}, Format{Dtype::bfloat16, 8, 7}}) {
    std::vector<float> values(65536);
    const NonFinite found = to_float32(tensor_of(format.dtype, std::span(room).subspan(1)), values);
    EXPECT_EQ(found, (NonFinite{2 * ((1 << format.fraction_bits) - 1), 2})) << name(format.dtype);
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const float expected =
          value_of(static_cast<uint16_t>(bits), format.exponent_bits, format.fraction_bits);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(values[bits])) << bits;
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(values[bits]), std::bit_cast<uint32_t>(expected)) << bits;
      }
    }
  }
}

TEST(ToFloat32, CountsWhatIsNotFinite) {
  std::vector<float> values(10'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 0.5f;
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  values[0] = values[4095] = values[4096] = nan;
  values[9999] = -infinity;
  values[5000] = infinity;
  std::vector<float> converted(values.size());
  EXPECT_EQ(to_float32(tensor_of(Dtype::float32, std::as_bytes(std::span(values))), converted),
            (NonFinite{3, 2}));
  EXPECT_EQ(std::memcmp(values.data(), converted.data(), values.size() * sizeof(float)), 0);

  std::vector<double> doubles(values.begin(), values.end());
  doubles[1] = 1e300;
  doubles[2] = 0.1;
  doubles[3] = 1e-300;
  EXPECT_EQ(to_float32(tensor_of(Dtype::float64, std::as_bytes(std::span(doubles))), converted),
            (NonFinite{3, 3}));
  EXPECT_EQ(converted[1], infinity);
  EXPECT_EQ(converted[2], 0.1f);
  EXPECT_EQ(converted[3], 0.f);
  EXPECT_EQ(converted[9998], values[9998]);
  EXPECT_EQ(to_float32(tensor_of(Dtype::float32, {}), {}), (NonFinite{0, 0}));
}

TEST(ToFloat32, RefusesOtherDtypesAndRooms) {
  const std::string data(8, '\0');
  std::vector<float> to(1);
  for (Dtype dtype :
       {Dtype::boolean, Dtype::uint8, Dtype::int8, Dtype::int16, Dtype::int32, Dtype::int64}) {
    const auto part = bytes_of(data).first(static_cast<size_t>(size_bytes(dtype)));
    const std::string what = message_of<DataError>([&] { to_float32(tensor_of(dtype, part), to); });
    EXPECT_EQ(what, "tensor \"w\": found " + std::string(name(dtype)) +
                        ", expected F32, BF16, F16 or F64");
  }
  EXPECT_THROW(to_float32(tensor_of(Dtype::float32, bytes_of(data)), to), InternalError);
}

std::vector<std::byte> converted(Dtype from, std::span<const std::byte> data, Dtype to) {
  const SafetensorsTensor tensor = tensor_of(from, data);
  std::vector<std::byte> result(static_cast<size_t>(tensor.element_count() * size_bytes(to)));
  convert_floats(tensor, to, result);
  return result;
}

uint16_t converted(float value, Dtype to) {
  uint16_t bits;
  std::memcpy(&bits, converted(Dtype::float32, std::as_bytes(std::span(&value, 1)), to).data(), 2);
  return bits;
}

// Each value of 16 bits, what lies half-way to the next, and the floats on both sides of that.
TEST(RequireFinite, SeesEveryElement) {
  auto check = [](SafetensorsDtype dtype, const auto& values) {
    require_finite({{.name = "it", .dtype = dtype, .shape = {}}, std::as_bytes(std::span(values))});
  };
  for (size_t at = 0; at < 100; ++at)
    for (uint32_t odd : {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffffffffu, 0x7f800001u}) {
      std::vector<uint32_t> values(100, 0x7f7fffff);  // the largest that is finite
      check(SafetensorsDtype::float32, values);
      values[at] = odd;
      EXPECT_NE(message_of<DataError>([&] {
                  check(SafetensorsDtype::float32, values);
                }).find("\"it\": found values that are infinite or NaN"),
                std::string::npos);
      std::vector<uint16_t> narrow(100, 0xff7f);
      check(SafetensorsDtype::bfloat16, narrow);
      narrow[at] = static_cast<uint16_t>(odd >> 16 | (odd & 1));
      EXPECT_THROW(check(SafetensorsDtype::bfloat16, narrow), DataError);
    }
  check(SafetensorsDtype::uint8, std::vector<uint8_t>(9, 0xff));
}

TEST(ConvertFloats, RoundsToNearestTiesToEven) {
  struct Format {
    Dtype dtype;
    int exponent_bits, fraction_bits;
    uint16_t infinity;
  };
  for (const Format& format :
       {Format{Dtype::float16, 5, 10, 0x7c00}, Format{Dtype::bfloat16, 8, 7, 0x7f80}}) {
    for (uint16_t bits = 0; bits + 1 < format.infinity; ++bits) {
      const float low = value_of(bits, format.exponent_bits, format.fraction_bits);
      const auto next = static_cast<uint16_t>(bits + 1);
      const float high = value_of(next, format.exponent_bits, format.fraction_bits);
      const float middle = low + (high - low) / 2;
      ASSERT_EQ(converted(low, format.dtype), bits);
      ASSERT_EQ(converted(-low, format.dtype), bits | 0x8000);
      ASSERT_EQ(converted(middle, format.dtype), bits % 2 == 0 ? bits : next) << bits;
      ASSERT_EQ(converted(std::nextafter(middle, low), format.dtype), bits) << bits;
      ASSERT_EQ(converted(std::nextafter(middle, high), format.dtype), next) << bits;
      ASSERT_EQ(converted(-std::nextafter(middle, high), format.dtype), next | 0x8000) << bits;
    }
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(converted(infinity, format.dtype), format.infinity);
    EXPECT_EQ(converted(-infinity, format.dtype), format.infinity | 0x8000);
    for (uint32_t nan : {0x7fc00000u, 0x7f800001u, 0x7fffffffu, 0xff800001u}) {
      const uint16_t bits = converted(std::bit_cast<float>(nan), format.dtype);
      EXPECT_GT(bits & 0x7fff, format.infinity) << nan;
      EXPECT_EQ(bits >> 15, nan >> 31) << nan;
    }
  }
}

TEST(ConvertFloats, WhatIsBeyondTheDtypeIsRefused) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values(200'000, infinity);  // what is infinite already is no fault
  values[0] = std::nanf("");
  auto bytes = [&] { return std::as_bytes(std::span(values)); };
  EXPECT_NO_THROW(converted(Dtype::float32, bytes(), Dtype::float16));
  values[150'000] = std::nextafter(65520.f, 0.f);
  EXPECT_NO_THROW(converted(Dtype::float32, bytes(), Dtype::float16));
  values[150'000] = -65520;
  EXPECT_EQ(message_of<DataError>([&] { converted(Dtype::float32, bytes(), Dtype::float16); }),
            "tensor \"w\": found finite F32 values beyond what F16 can hold, expected none");
  EXPECT_NO_THROW(converted(Dtype::float32, bytes(), Dtype::bfloat16));
  values[150'000] = std::numeric_limits<float>::max();
  EXPECT_THROW(converted(Dtype::float32, bytes(), Dtype::bfloat16), DataError);
  EXPECT_NO_THROW(converted(Dtype::float32, bytes(), Dtype::float32));

  std::vector<double> doubles = {1.5, std::numeric_limits<double>::infinity()};
  auto wide = [&] { return std::as_bytes(std::span(doubles)); };
  const std::vector<std::byte> narrow = converted(Dtype::float64, wide(), Dtype::float32);
  const std::vector<float> expected = {1.5, infinity};
  EXPECT_EQ(std::memcmp(narrow.data(), expected.data(), narrow.size()), 0);
  doubles[0] = 1e300;
  EXPECT_THROW(converted(Dtype::float64, wide(), Dtype::float32), DataError);
  EXPECT_THROW(converted(Dtype::int64, wide(), Dtype::float32), DataError);
  std::vector<std::byte> room(1);
  EXPECT_THROW(convert_floats(tensor_of(Dtype::float64, wide()), Dtype::float32, room),
               InternalError);
}

}  // namespace
}  // namespace longshore::data
