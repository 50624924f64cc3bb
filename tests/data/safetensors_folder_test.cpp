#include "longshore/data/safetensors/safetensors_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "longshore/base/error.h"
#include "tests/data/safetensors_samples.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;
using Dtype = SafetensorsDtype;

const fs::path kGoldens = "tests/goldens/safetensors";

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

TEST(SafetensorsFolder, IsShardedAsTransformersDoes) {
  TemporaryFolder folder;
  const std::vector<SafetensorsInfo> tensors = golden_tensors();
  write_safetensors_folder(folder / "model", tensors, 150'000, append_some_data);
  const char* index = "model.safetensors.index.json";
  EXPECT_EQ(read_file(folder / "model" / index), read_file(kGoldens / index));
  const char* shard = "model-00004-of-00004.safetensors";
  EXPECT_EQ(infos_of(SafetensorsFile(folder / "model" / shard)),
            infos_of(SafetensorsFile(kGoldens / shard)));

  const SafetensorsFolder opened(folder / "model");
  EXPECT_EQ(opened.names().size(), tensors.size());
  for (const SafetensorsInfo& info : tensors) {
    ASSERT_TRUE(opened.contains(info.name));
    EXPECT_EQ(opened.at(info.name).shape, info.shape);
    EXPECT_TRUE(text_of(opened.at(info.name).data) == some_data(info)) << info.name;
  }
  const std::string what = message_of<DataError>([&] { opened.at("lm_haed.weight"); });
  EXPECT_THAT(what, HasSubstr("nearest: \"lm_head.weight\""));
}

TEST(SafetensorsFolder, IsOneFileWhenThatSuffices) {
  TemporaryFolder folder;
  const std::vector<SafetensorsInfo> tensors = {{"b", Dtype::float32, {3}},
                                                {"a", Dtype::float32, {2}}};
  write_safetensors_folder(folder / "fits", tensors, 20, append_some_data);
  EXPECT_EQ(SafetensorsFolder(folder / "fits").names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(fs::exists(folder / "fits" / "model.safetensors"));
  write_safetensors_folder(folder / "larger", tensors, 19, append_some_data);
  EXPECT_EQ(SafetensorsFolder(folder / "larger").names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(fs::exists(folder / "larger" / "model.safetensors"));
  write_safetensors_folder(folder / "empty", {}, 19, append_some_data);
  EXPECT_TRUE(SafetensorsFolder(folder / "empty").names().empty());
}

TEST(SafetensorsFolder, ATensorLargerThanAShardIsAlone) {
  TemporaryFolder folder;
  const std::vector<SafetensorsInfo> tensors = {
      {"a", Dtype::uint8, {5}}, {"b", Dtype::uint8, {50}}, {"c", Dtype::uint8, {5}}};
  write_safetensors_folder(folder / "model", tensors, 10, append_some_data);
  const SafetensorsFile first(folder / "model" / "model-00001-of-00002.safetensors");
  const SafetensorsFile second(folder / "model" / "model-00002-of-00002.safetensors");
  EXPECT_EQ(infos_of(first), (std::vector{tensors[1]}));
  EXPECT_EQ(infos_of(second), (std::vector{tensors[0], tensors[2]}));
}

TEST(SafetensorsFolder, IsNotWrittenOver) {
  TemporaryFolder folder;
  const std::vector<SafetensorsInfo> tensors = {{"a", Dtype::uint8, {5}}, {"b", Dtype::uint8, {5}}};
  for (int64_t max_shard_bytes : {5, 10}) {
    const fs::path directory = folder / std::to_string(max_shard_bytes);
    write_safetensors_folder(directory, tensors, max_shard_bytes, append_some_data);
    for (int64_t other : {5, 10})
      EXPECT_THROW(write_safetensors_folder(directory, tensors, other, append_some_data),
                   DataError);
    EXPECT_EQ(text_of(SafetensorsFolder(directory).at("a").data), some_data(tensors[0]));
  }
}

TEST(SafetensorsFolder, IsThereOnlyWhenItIsComplete) {
  TemporaryFolder folder;
  const std::vector<SafetensorsInfo> tensors = {{"a", Dtype::uint8, {5}}, {"b", Dtype::uint8, {5}}};
  const auto fail_at_b = [](const SafetensorsInfo& info, SafetensorsWriter& writer) {
    if (info.name == "b") throw DataError("no b");
    append_some_data(info, writer);
  };
  for (int64_t max_shard_bytes : {5, 10}) {
    const fs::path directory = folder / std::to_string(max_shard_bytes);
    EXPECT_THROW(write_safetensors_folder(directory, tensors, max_shard_bytes, fail_at_b),
                 DataError);
    EXPECT_THROW(SafetensorsFolder opened(directory), DataError);
    for (const fs::directory_entry& entry : fs::directory_iterator(directory))
      EXPECT_EQ(entry.path().filename(), "model-00001-of-00002.safetensors");
    write_safetensors_folder(directory, tensors, max_shard_bytes, append_some_data);
    EXPECT_EQ(SafetensorsFolder(directory).names().size(), 2u);
  }
}

TEST(SafetensorsFolder, TheSingleFileCountsWhereThereIsAnIndexToo) {
  TemporaryFolder folder;
  write_some(folder / "part", {{"sharded", Dtype::uint8, {1}}});
  folder.write("model.safetensors.index.json", R"({"weight_map":{"sharded":"part"}})");
  EXPECT_EQ(SafetensorsFolder(folder / "").names(), std::vector<std::string>{"sharded"});
  write_some(folder / "model.safetensors", {{"single", Dtype::uint8, {1}}});
  EXPECT_EQ(SafetensorsFolder(folder / "").names(), std::vector<std::string>{"single"});
}

TEST(SafetensorsFolder, CallsTensorsAsItIsTold) {
  TemporaryFolder folder;
  const std::vector<SafetensorsInfo> tensors = {
      {"old.a", Dtype::uint8, {2}}, {"dropped", Dtype::uint8, {3}}, {"b", Dtype::uint8, {4}}};
  const TensorNaming naming = [](std::string_view name) -> std::optional<std::string> {
    if (name == "dropped") return std::nullopt;
    return std::string(name.starts_with("old.") ? name.substr(4) : name);
  };
  for (int64_t max_shard_bytes : {4, 100}) {
    const fs::path directory = folder / std::to_string(max_shard_bytes);
    write_safetensors_folder(directory, tensors, max_shard_bytes, append_some_data);
    const SafetensorsFolder opened(directory, naming);
    EXPECT_EQ(opened.names(), (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(opened.at("a").name, "a");
    EXPECT_EQ(text_of(opened.at("a").data), some_data(tensors[0]));
  }
  write_some(folder / "model.safetensors", {tensors[0], {"a", Dtype::uint8, {1}}});
  const std::string what =
      message_of<DataError>([&] { SafetensorsFolder opened(folder / "", naming); });
  EXPECT_THAT(what, HasSubstr("found both \"old.a\" and \"a\" for \"a\", expected one of them"));
}

// As in Hugging Face's cache, where files are links to where their contents lie.
TEST(SafetensorsFolder, FollowsLinks) {
  TemporaryFolder folder;
  fs::create_directories(folder / "blobs");
  fs::create_directories(folder / "snapshot");
  write_some(folder / "blobs" / "1234", {{"a", Dtype::uint8, {1}}});
  fs::create_symlink("../blobs/1234", folder / "snapshot" / "model.safetensors");
  EXPECT_TRUE(SafetensorsFolder(folder / "snapshot").contains("a"));
  fs::remove(folder / "blobs" / "1234");
  const std::string what =
      message_of<DataError>([&] { SafetensorsFolder opened(folder / "snapshot"); });
  EXPECT_THAT(what, HasSubstr("cannot open"));
}

TEST(SafetensorsFolder, ListsAllThatIsMissingOrContradictory) {
  TemporaryFolder folder;
  const SafetensorsInfo a{"a", Dtype::uint8, {1}}, b{"b", Dtype::uint8, {1}},
      extra{"extra", Dtype::uint8, {1}};
  write_some(folder / "1", {a, b});
  write_some(folder / "2", {b, extra});
  folder.write("3", "damaged");
  folder.write("model.safetensors.index.json",
               R"({"weight_map":{"a":"1","b":"2","c":"2","d":"3","e":"4","f":"1"}})");
  const std::string what = message_of<DataError>([&] { SafetensorsFolder opened(folder / ""); });
  for (const char* problem :
       {"model.safetensors.index.json: ", "\"b\" is in \"1\", the index says in \"2\"",
        "\"extra\" is in \"2\", but not in the index", "/3: no safetensors file, or truncated",
        "/4: cannot open", "\"c\" is not in \"2\"", "\"f\" is not in \"1\""})
    EXPECT_THAT(what, HasSubstr(problem));
  EXPECT_THAT(what, Not(HasSubstr("\"d\"")));
  EXPECT_EQ(std::count(what.begin(), what.end(), '\n'), 6) << what;
}

TEST(SafetensorsFolder, ListsNoMoreThanAnybodyReads) {
  TemporaryFolder folder;
  write_some(folder / "1", {});
  std::string map;
  for (int i = 0; i < 1000; ++i) map += (i ? ",\"" : "\"") + std::to_string(i) + "\":\"1\"";
  folder.write("model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
  const std::string what = message_of<DataError>([&] { SafetensorsFolder opened(folder / ""); });
  EXPECT_THAT(what, HasSubstr("and 950 more"));
}

TEST(SafetensorsFolder, WithoutWeightsIsRefused) {
  TemporaryFolder folder;
  const std::string what =
      message_of<DataError>([&] { SafetensorsFolder opened(folder / "none"); });
  EXPECT_THAT(what, HasSubstr("none: found neither model.safetensors nor"));
  EXPECT_THAT(what, Not(HasSubstr("AutoModel")));
}

TEST(SafetensorsFolder, WeightsInAnotherFormatAreNamedWithTheWayOut) {
  TemporaryFolder folder;
  folder.write("training_args.bin", "");
  folder.write("pytorch_model-00002-of-00002.bin", "");
  folder.write("pytorch_model-00001-of-00002.bin", "");
  EXPECT_THAT(
      message_of<DataError>([&] { SafetensorsFolder opened(folder / ""); }),
      AllOf(HasSubstr("model.safetensors.index.json, but \"pytorch_model-00001-of-00002.bin\""),
            HasSubstr("safetensors alone"), HasSubstr(".save_pretrained(NEW_DIR)")));
}

TEST(SafetensorsFolder, SaysWhatItLeftOutAndRenames) {
  TemporaryFolder folder;
  const std::vector<SafetensorsInfo> tensors = golden_tensors();
  write_safetensors_folder(folder / "model", tensors, 1'000'000, append_some_data);
  SafetensorsFolder opened(folder / "model", [](std::string_view name) {
    return name.starts_with("model.layers.") ? std::nullopt : std::optional(std::string(name));
  });
  EXPECT_EQ(opened.names().size() + opened.left_out().size(), tensors.size());
  EXPECT_THAT(opened.left_out(), testing::Contains("model.layers.2.mlp.up_proj.weight"));
  const auto* data = opened.at("lm_head.weight").data.data();
  opened.rename("lm_head.weight", "head");
  EXPECT_EQ(opened.at("head").data.data(), data);
  EXPECT_EQ(opened.at("head").name, "head");
  EXPECT_FALSE(opened.contains("lm_head.weight"));
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
      {R"({"weight_map":{"a":"./"}})", "found \"\""},
      {R"({"weight_map":{"a":"./../b"}})", "found \"../b\""},
      {R"({"weight_map":{"a":".//b"}})", "found \"/b\""},
      {R"({"weight_map":{"a":"/etc/passwd"}})", "found \"/etc/passwd\""},
      {R"({"weight_map":{"a":"b/c"}})", "found \"b/c\""},
      {R"({"weight_map":{"a":"b\u002fc"}})", "found \"b/c\""},
      {R"({"weight_map":{"a":"b\u0000"}})", "found \"b\\x00\""},
      {R"({"weight_map":{"a":"b","a":"b"}})", "\"a\": found twice"},
      {R"({"weight_map":{},"weight_map":{}})", "weight_map: found twice"},
      {R"({"metadata":)" + std::string(1'000'000, '['), "nested deeper than 32"},
  };
  for (const auto& [text, message] : cases) {
    const std::string what = message_of<DataError>([&] { parse_safetensors_index(text); });
    EXPECT_THAT(what, HasSubstr(message)) << text.substr(0, 80);
  }
}

TEST(SafetensorsIndex, AFileMayBeNamedFromItsFolder) {
  EXPECT_EQ(parse_safetensors_index(R"({"weight_map":{"a":"./b","c":"././b"}})"),
            (std::map<std::string, std::string>{{"a", "b"}, {"c", "b"}}));
}

TEST(SafetensorsIndex, TakesAnythingBesideTheMap) {
  const auto map = parse_safetensors_index(
      R"({"metadata":{"total_size":1.5e9,"x":[null,true,{"y":-1}]},"weight_map":{"a":"b","c":"b"},)"
      R"("more":"m"})");
  EXPECT_EQ(map, (std::map<std::string, std::string>{{"a", "b"}, {"c", "b"}}));
  EXPECT_TRUE(parse_safetensors_index(R"({"weight_map":{}})").empty());
}

}  // namespace
}  // namespace longshore::data
