#include "trainer/convert.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "base/bfloat16.h"
#include "base/error.h"
#include "data/safetensors_float.h"
#include "models/hf/config.h"
#include "tests/data/temporary_folder.h"
#include "tests/trainer/run_program.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using data::message_of;
using data::read_file;
using data::SafetensorsDtype;
using data::TemporaryFolder;

const fs::path kGoldens = "tests/goldens/models";

std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    files[entry.path().filename()] = read_file(entry.path());
  return files;
}

std::string bytes_of(const data::SafetensorsTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()};
}

std::vector<float> floats_of(const data::SafetensorsTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.element_count()));
  data::to_float32(tensor, values);
  return values;
}

// Config and weights of a golden case, and a tokenizer's files.
fs::path source(const TemporaryFolder& temporary, const std::string& name) {
  const fs::path folder = temporary / name;
  fs::create_directories(folder);
  for (const fs::directory_entry& entry : fs::directory_iterator(kGoldens / name)) {
    const std::string file = entry.path().filename();
    if (file == "config.json" || file.starts_with("model"))
      fs::copy_file(entry.path(), folder / file);
  }
  temporary.write(name + "/tokenizer.json", "{\"any\": \"bytes\xff\"}");
  temporary.write(name + "/chat_template.jinja", "");
  temporary.write(name + "/README.md", "not copied");
  return folder;
}

TEST(Convert, WithoutADtypeNothingChangesAndTheSecondTripGivesTheSameFiles) {
  TemporaryFolder temporary;
  for (const char* name : {"llama31_gqa", "llama32_tied"})
    for (int64_t max_shard_bytes : {int64_t{20'000}, kDefaultMaxShardBytes}) {
      const fs::path from = source(temporary, name);
      const fs::path first = temporary / "first", second = temporary / "second";
      convert({.from = from, .to = first, .dtype = {}, .max_shard_bytes = max_shard_bytes});
      convert({.from = first, .to = second, .dtype = {}, .max_shard_bytes = max_shard_bytes});
      EXPECT_TRUE(contents(first) == contents(second));

      data::Checkpoint before(from), after(first);
      ASSERT_EQ(before.names(), after.names());
      for (const std::string& tensor : before.names()) {
        EXPECT_EQ(data::SafetensorsInfo(before.at(tensor)), after.at(tensor));
        EXPECT_TRUE(bytes_of(before.at(tensor)) == bytes_of(after.at(tensor))) << tensor;
      }
      const auto files = contents(first);
      for (const char* same : {"config.json", "tokenizer.json", "chat_template.jinja"})
        EXPECT_EQ(files.at(same), read_file(from / same));
      EXPECT_FALSE(files.contains("README.md"));
      EXPECT_EQ(files.contains("model.safetensors"), max_shard_bytes == kDefaultMaxShardBytes);
      EXPECT_EQ(files.contains("model.safetensors.index.json"),
                max_shard_bytes != kDefaultMaxShardBytes);
      for (const fs::path& folder : {from, first, second}) fs::remove_all(folder);
    }
}

// Each in its layers' order: a reader that wants one layer finds it in one file or two.
TEST(Convert, FilesHoldLayersInOrder) {
  TemporaryFolder temporary;
  convert({.from = kGoldens / "llama31_gqa",
           .to = temporary / "to",
           .dtype = {},
           .max_shard_bytes = 20'000});
  const auto index =
      data::parse_safetensors_index(read_file(temporary / "to" / "model.safetensors.index.json"));
  const std::string norm = ".input_layernorm.weight";
  EXPECT_LT(index.at("model.embed_tokens.weight"), index.at("model.layers.0" + norm));
  EXPECT_LT(index.at("model.layers.0" + norm), index.at("model.layers.1" + norm));
  EXPECT_LT(index.at("model.layers.1" + norm), index.at("model.layers.2" + norm));
}

TEST(Convert, EachWeightIsRoundedAndWidenedBackExactly) {
  TemporaryFolder temporary;
  const fs::path from = source(temporary, "qwen2_bias");
  convert({.from = from, .to = temporary / "bf16", .dtype = SafetensorsDtype::bfloat16});
  convert({.from = temporary / "bf16",
           .to = temporary / "back",
           .dtype = SafetensorsDtype::float32,
           .max_shard_bytes = 10'000});
  data::Checkpoint original(from), narrow(temporary / "bf16"), wide(temporary / "back");
  for (const std::string& name : original.names()) {
    std::vector<float> expected = floats_of(original.at(name));
    for (float& value : expected) value = to_float(to_bfloat16(value));
    EXPECT_EQ(narrow.at(name).dtype, SafetensorsDtype::bfloat16);
    EXPECT_EQ(wide.at(name).dtype, SafetensorsDtype::float32);
    EXPECT_EQ(floats_of(narrow.at(name)), expected) << name;
    EXPECT_EQ(floats_of(wide.at(name)), expected) << name;
    EXPECT_EQ(wide.at(name).shape, original.at(name).shape);
  }
  EXPECT_EQ(read_hf_config(temporary / "bf16").decoder.dtype, models::Dtype::bfloat16);
  EXPECT_EQ(read_hf_config(temporary / "back").decoder, read_hf_config(from).decoder);
}

// A tied model's lm_head may be there, and stays.
TEST(Convert, RefusesWeightsThatAreNotTheModels) {
  TemporaryFolder temporary;
  const fs::path folder = source(temporary, "llama32_tied");
  const data::Checkpoint checkpoint(folder);
  std::vector<data::SafetensorsInfo> tensors;
  for (const std::string& name : checkpoint.names()) tensors.push_back(checkpoint.at(name));
  auto write = [&](const fs::path& to, float value) {
    write_hf_folder(to, {.config = read_file(folder / "config.json"),
                         .tensors = tensors,
                         .append_data =
                             [&](const data::SafetensorsInfo& info, auto& writer) {
                               const auto count = static_cast<size_t>(info.bytes()) / 4;
                               const std::vector<float> values(count, value);
                               writer.append(info.name, std::as_bytes(std::span(values)));
                             },
                         .tokenizer_folder = {}});
  };
  auto refusal = [&](const fs::path& from, std::optional<SafetensorsDtype> dtype = {}) {
    const std::string what = message_of<DataError>(
        [&] { convert({.from = from, .to = temporary / "to", .dtype = dtype}); });
    EXPECT_FALSE(fs::exists(temporary / "to"));
    return what;
  };
  write(temporary / "large", 65520);
  EXPECT_EQ(refusal(temporary / "large", SafetensorsDtype::float16),
            "tensor \"model.embed_tokens.weight\": found finite F32 values beyond what F16 can "
            "hold, expected none");

  tensors.push_back(tensors.front());
  tensors.back().name = "lm_head.weight";
  write(temporary / "tied", 1);
  EXPECT_NO_THROW(convert({.from = temporary / "tied", .to = temporary / "tied_too", .dtype = {}}));
  EXPECT_TRUE(data::Checkpoint(temporary / "tied_too").contains("lm_head.weight"));

  tensors.back().dtype = SafetensorsDtype::int32;
  tensors[0].name += "x";
  write(temporary / "other", 1);
  const std::string what = refusal(temporary / "other");
  for (const char* part :
       {"other: is not this model's", "lm_head.weight is I32, expected F32",
        "missing model.embed_tokens.weight; nearest:", "not expected: model.embed_tokens.weightx"})
    EXPECT_NE(what.find(part), std::string::npos) << what;
  fs::remove(folder / "config.json");
  EXPECT_NE(refusal(folder).find("config.json: found no file"), std::string::npos);
  EXPECT_NE(refusal(temporary / "nothing").find("nothing/config.json"), std::string::npos);
}

// A missing file among those to copy is none; one that cannot be read is an error, and nothing is
// left.
TEST(Convert, AFolderIsWholeOrNotThere) {
  TemporaryFolder temporary;
  const fs::path from = source(temporary, "llama32_tied");
  fs::create_symlink("nowhere", from / "tokenizer.model");
  EXPECT_NE(message_of<DataError>([&] {
              convert({.from = from, .to = temporary / "to", .dtype = {}});
            }).find("tokenizer.model"),
            std::string::npos);
  EXPECT_EQ(temporary.file_count(), 1u);
  fs::remove(from / "tokenizer.model");
  EXPECT_NE(message_of<ConfigError>([&] {
              convert({.from = from, .to = from, .dtype = {}});
            }).find("nearest: " + from.string() + "-2"),
            std::string::npos);
}

TEST(ConvertProgram, ExitCodesTellDoneFailureAndWrongUsageApart) {
  TemporaryFolder temporary;
  const std::string program = CONVERT_PROGRAM;
  const std::string from = program + " --from " + (kGoldens / "qwen3_qknorm").string();
  auto to = [&](const char* name) { return " --to " + (temporary / name).string(); };

  const ProgramResult done =
      run_program(from + to("a") + " --dtype bfloat16 --max-shard-size 20KB");
  EXPECT_EQ(done.exit_code, 0) << done.output;
  EXPECT_EQ(done.output, (temporary / "a").string() + ": 35 tensors, 0.1 MB of BF16\n");
  std::set<std::string> files;
  for (const auto& [name, bytes] : contents(temporary / "a")) {
    files.insert(name);
    EXPECT_LE(bytes.size(), 25'000u) << name;
  }
  EXPECT_TRUE(files.contains("model.safetensors.index.json"));
  for (const std::string& wrong : {from, from + to("a"), from + to("c") + " --dtype int8",
                                   from + to("c") + " --max-shard-size 0"}) {
    const ProgramResult result = run_program(wrong);
    EXPECT_EQ(result.exit_code, 2) << wrong << "\n" << result.output;
    EXPECT_NE(result.output, "");
  }
  EXPECT_EQ(run_program(program + " --from nothing" + to("c")).exit_code, 1);
  EXPECT_FALSE(fs::exists(temporary / "c"));
}

}  // namespace
}  // namespace longshore::trainer
