// What a probe takes and refuses, as a function and as a program.
#include "longshore/trainer/programs/probe/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "longshore/base/error.h"
#include "longshore/data/safetensors/safetensors_folder.h"
#include "longshore/data/safetensors/safetensors_writer.h"
#include "longshore/trainer/step/inputs.h"
#include "tests/message_of.h"
#include "tests/trainer/golden.h"
#include "tests/trainer/run_program.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;
using data::SafetensorsDtype;
using data::SafetensorsFile;
using data::SafetensorsInfo;
using data::TemporaryFolder;

std::string quoted(const fs::path& path) { return "'" + path.string() + "'"; }

ProgramResult run_probe(const fs::path& model, const fs::path& inputs, const fs::path& out,
                        const std::string& arguments) {
  return run_program("OMP_WAIT_POLICY=passive " PROBE_PROGRAM " --model " + quoted(model) +
                     " --inputs " + quoted(inputs) + " --out " + quoted(out) + " " + arguments);
}

// What the program writes.
fs::path probed(const TemporaryFolder& folder, const fs::path& model, const fs::path& inputs,
                const std::string& arguments) {
  static int count = 0;
  fs::path out = folder / (std::to_string(++count) + ".safetensors");
  ProgramResult result = run_probe(model, inputs, out, arguments);
  EXPECT_EQ(result.exit_code, 0) << arguments << "\n" << result.output;
  return out;
}

// --- inputs

struct Tensor {
  std::vector<int64_t> shape, values;
  SafetensorsDtype dtype = SafetensorsDtype::int64;
};
using Tensors = std::map<std::string, Tensor>;

fs::path write_inputs(const fs::path& path, const Tensors& tensors) {
  std::vector<SafetensorsInfo> infos;
  for (const auto& [name, tensor] : tensors) infos.push_back({name, tensor.dtype, tensor.shape});
  infos = data::sorted_as_safetensors(infos);
  data::SafetensorsWriter writer(path, infos);
  for (const SafetensorsInfo& info : infos)
    for (int64_t value : tensors.at(info.name).values)  // little-endian: the low bytes come first
      writer.append(info.name, std::as_bytes(std::span(&value, 1)).first(size_bytes(info.dtype)));
  writer.finish();
  return path;
}

// Two rows of four tokens, the second padded; vocabulary 10.
Tensors good_inputs() {
  return {{"input_ids", {{2, 4}, {1, 2, 3, 9, 0, 5, 6, 7}}},
          {"labels", {{2, 4}, {1, 2, -100, 9, 0, 5, 6, -100}}},
          {"attention_mask", {{2, 4}, {1, 1, 1, 1, 1, 1, 1, 0}}},
          {"segment_ids", {{2, 4}, {4, 4, 1, 1, 1, 0, 0, 0}}},
          {"position_ids", {{2, 4}, {0, 1, 0, 1, 0, 0, 1, 2}}}};
}

TEST(ProbeInputs, AreABatch) {
  TemporaryFolder folder;
  for (SafetensorsDtype dtype : {SafetensorsDtype::int64, SafetensorsDtype::int32}) {
    Tensors tensors = good_inputs();
    for (auto& [name, tensor] : tensors) tensor.dtype = dtype;
    tensors["hidden.layers.0"] = tensors["logits"] = {{1}, {0}};
    ProbeInputs inputs =
        read_probe_inputs(write_inputs(folder / "inputs", tensors), {.vocabulary = 10});
    using Values = std::vector<int32_t>;
    EXPECT_EQ(inputs.batch["tokens"], (Values{1, 2, 3, 9, 0, 5, 6, 7}));
    EXPECT_EQ(inputs.batch["targets"], (Values{2, -1, 9, -1, 5, 6, -1, -1}));
    EXPECT_EQ(inputs.batch["positions"], (Values{0, 1, 0, 1, 0, 0, 1, 2}));
    EXPECT_EQ(inputs.batch["segments"], (Values{4, 4, 1, 1, 1, 0, 0, 0}));
    EXPECT_EQ(inputs.batch.total_weights, 4);
    EXPECT_EQ(inputs.batch.shape.rows, 2);
    EXPECT_EQ(inputs.batch.shape.length, 4);
    EXPECT_TRUE(inputs.has_labels);
  }
  Tensors ids{{"input_ids", {{1, 3}, {1, 2, 3}}}};
  ProbeInputs inputs = read_probe_inputs(write_inputs(folder / "inputs", ids), {.vocabulary = 10});
  EXPECT_EQ(inputs.batch["targets"], std::vector<int32_t>(3, -1));
  EXPECT_EQ(inputs.batch["positions"], (std::vector<int32_t>{0, 1, 2}));
  EXPECT_FALSE(inputs.has_labels);
  EXPECT_FALSE(inputs.batch.has(data::kSegments));
}

// As a step that is not finite leaves its batch, whose rows need not be full.
TEST(ProbeInputs, AreReadFromTheBatchOfAStep) {
  TemporaryFolder folder;
  data::Batch batch = data::synthetic_batches({2, 4}, 10, 1)(0);
  for (size_t end : {3, 7}) batch["targets"][end] = data::kIgnoredTarget;
  write_probe_inputs(folder / "dump", batch);
  const ProbeInputs inputs = read_probe_inputs(folder / "dump", {.vocabulary = 10});
  EXPECT_EQ(inputs.batch.total_weights, 6);
  for (size_t row = 0; row < 2; ++row)
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(inputs.batch["tokens"][5 * row + i], batch["tokens"][4 * row + i]);
      EXPECT_EQ(inputs.batch["targets"][5 * row + i], batch["targets"][4 * row + i]);
    }
}

TEST(ProbeInputs, ErrorsNameTensorFoundAndExpected) {
  struct Bad {
    const char* tensor;
    Tensor value;
    const char* message;  // behind the file's name
  };
  const std::vector<int64_t> kShape{2, 4};
  const Bad bad[]{
      {"input_ids",
       {kShape, {1, 2, 3, 10, 0, 5, 6, 7}},
       "input_ids[0,3]: found 10, expected 0 to 9"},
      {"input_ids",
       {kShape, {1, 2, 3, 9, -1, 5, 6, 7}},
       "input_ids[1,0]: found -1, expected 0 to 9"},
      {"input_ids", {kShape, {1, 2, 3, 9, 0, 5, 1LL << 32, 7}}, "input_ids[1,2]: found 4294967296"},
      {"input_ids", {{8}, {1, 2, 3, 9, 0, 5, 6, 7}}, "input_ids: found [8], expected [B,T]"},
      {"input_ids", {{0, 4}, {}}, "input_ids: found [0,4], expected [B,T]"},
      {"input_ids",
       {{1, 2}, {1, 2}, SafetensorsDtype::int16},
       "input_ids: found I16, expected I64"},
      {"labels", {{1, 4}, {1, 2, 3, 4}}, "labels: found [1,4], expected [2,4]"},
      {"labels",
       {kShape, {1, 2, 10, 9, 0, 5, 6, -100}},
       "labels[0,2]: found 10, expected 0 to 9, or -100"},
      {"labels", {kShape, {1, 2, -1, 9, 0, 5, 6, -100}}, "labels[0,2]: found -1,"},
      {"labels",
       {kShape, {1, 2, 3, 9, 0, 5, 6, 7}},
       "labels[1,3]: found 7 where attention_mask is 0, expected -100"},
      {"labels",
       {kShape, {1, -100, -100, -100, 0, -100, -100, -100}},
       "labels: found no target to train"},
      {"attention_mask",
       {kShape, {1, 1, 1, 1, 1, 2, 1, 0}},
       "attention_mask[1,1]: found 2, expected 0 to 1"},
      {"attention_mask",
       {kShape, {1, 1, 1, 1, 0, 1, 1, 1}},
       "attention_mask[1,1]: found 1 after 0, expected padding on the right"},
      {"segment_ids",
       {kShape, {0, 1, 0, 0, 1, 0, 0, 0}},
       "segment_ids[0,2]: found 0 again, expected each id of a row in one run"},
      {"segment_ids", {kShape, {0, 0, 0, 0, 0, 0, 0, -1}}, "segment_ids[1,3]: found -1"},
      {"position_ids",
       {kShape, {0, 1, -2, 3, 0, 1, 2, 3}},
       "position_ids[0,2]: found -2, expected 0 to 2147483647"},
      {"position_ids",
       {kShape, {0, 1, 2, 3, 0, 1, 2, 1LL << 31}},
       "position_ids[1,3]: found 2147483648"},
      {"token_type_ids",
       {kShape, {0, 0, 0, 0, 0, 0, 0, 0}},
       "token_type_ids: found a tensor that is no input"},
      {"gradient", {{1}, {0}}, "gradient: found a tensor that is no input"},
  };
  TemporaryFolder folder;
  for (const Bad& b : bad) {
    Tensors tensors = good_inputs();
    tensors[b.tensor] = b.value;
    if (b.value.shape != kShape && std::string(b.tensor) == "input_ids")
      tensors = {{b.tensor, b.value}};
    fs::path file = write_inputs(folder / "inputs", tensors);
    std::string message =
        message_of<DataError>([&] { read_probe_inputs(file, {.vocabulary = 10}); });
    EXPECT_TRUE(message.starts_with(file.string() + ": " + b.message)) << message;
  }
  fs::path empty = write_inputs(folder / "inputs", {});
  EXPECT_EQ(message_of<DataError>([&] { read_probe_inputs(empty, {.vocabulary = 10}); }),
            empty.string() + ": input_ids: found nothing, expected a tensor [B,T]");
  // 2^24 + 1 tokens: refused by the header, before any of them is read.
  Tensor many{{1, (1 << 24) + 1}, {}, SafetensorsDtype::int32};
  std::string data(4 * ((1 << 24) + 1), '\0');
  data::SafetensorsWriter writer(folder / "many", {{"input_ids", many.dtype, many.shape}});
  writer.append("input_ids", std::as_bytes(std::span(data)));
  writer.finish();
  EXPECT_THAT(
      message_of<DataError>([&] { read_probe_inputs(folder / "many", {.vocabulary = 10}); }),
      HasSubstr("at most 16777216 tokens"));
}

// --- the program

const fs::path kModel = golden_folder("llama32_tied");

// Without labels nothing that needs them; padding changes nothing before it.
TEST(Probe, WritesNoGradientsWithoutLabelsAndIgnoresPadding) {
  TemporaryFolder folder;
  Tensors tensors{{"input_ids", {{2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}}}};
  SafetensorsFile whole(probed(folder, kModel, write_inputs(folder / "a", tensors), ""));
  EXPECT_EQ(whole.tensors().size(), 5u);  // 2 layers, embed, final_norm, logits
  tensors["attention_mask"] = {{2, 4}, {1, 1, 1, 0, 1, 1, 1, 1}};
  tensors["input_ids"].values[3] = 0;
  SafetensorsFile padded(probed(folder, kModel, write_inputs(folder / "b", tensors), ""));
  std::vector<float> a = floats(whole.at("logits")), b = floats(padded.at("logits"));
  size_t vocabulary = a.size() / 8;
  for (size_t i = 0; i < a.size(); ++i)
    if (i / vocabulary != 3) {
      ASSERT_EQ(a[i], b[i]) << i;
    }
}

TEST(Probe, TheProgramPassesOnWhatItIsTold) {
  TemporaryFolder folder;
  const fs::path model = golden_folder("lora_llama"), adapter = model / "adapter";
  const fs::path inputs = model / "golden.safetensors";
  const fs::path out =
      probed(folder, model, inputs, "--gradients dtype=float32 --adapter " + quoted(adapter));
  probe({model, inputs, folder / "again", true, adapter, {}});
  EXPECT_TRUE(data::read_file(out) == data::read_file(folder / "again"));
}

// What a call throws: the error's exit code and its message.
ProgramResult refusal(const ProbeRequest& request) {
  try {
    probe(request);
  } catch (const ConfigError& error) {
    return {2, error.what()};
  } catch (const Error& error) {
    return {1, error.what()};
  }
  return {0, ""};
}

TEST(Probe, BadCallsWriteNothing) {
  TemporaryFolder folder, outputs;
  fs::path good = write_inputs(folder / "good", {{"input_ids", {{1, 2}, {1, 2}}}});
  fs::path trained = write_inputs(folder / "trained",
                                  {{"input_ids", {{1, 2}, {1, 2}}}, {"labels", {{1, 2}, {2, 3}}}});
  fs::path bad = write_inputs(folder / "bad", {{"input_ids", {{1, 2}, {1, 307}}}});
  fs::path too_wide = folder / "wide";
  fs::create_directory(too_wide);
  std::string config = data::read_file(kModel / "config.json");
  size_t at = config.find("\"vocab_size\": 307");
  ASSERT_NE(at, std::string::npos);
  folder.write("wide/config.json", config.replace(at, 17, "\"vocab_size\": 2000000000"));
  fs::path other_weights = folder / "other";
  fs::create_directory(other_weights);
  fs::copy_file(kModel / "config.json", other_weights / "config.json");
  fs::create_symlink(kModel.parent_path() / "llama32_packed/model.safetensors",
                     other_weights / "model.safetensors");

  // An adapter of another model, and a folder that holds none.
  const fs::path goldens = kModel.parent_path(), adapter = goldens / "lora_llama/adapter";

  fs::path out = outputs / "out";
  struct Bad {
    ProbeRequest request;
    int exit_code;
    std::vector<std::string> words;
  };
  auto key = [&](const std::string& setting) {
    return ProbeRequest{
        .model = kModel, .inputs = trained, .out = out, .gradients = true, .overrides = {setting}};
  };
  auto unread = [&](const std::string& setting) {
    return ProbeRequest{.model = kModel, .inputs = good, .out = out, .overrides = {setting}};
  };
  const Bad calls[]{
      {{kModel, bad, out}, 1, {"bad: input_ids[0,1]: found 307, expected 0 to 306"}},
      {{kModel, good, out, true}, 1, {"good: labels: found nothing", "--gradients"}},
      {{kModel, folder / "none", out}, 1, {(folder / "none").string()}},
      {{folder / "none", good, out}, 1, {"none/config.json"}},
      {{too_wide, good, out}, 1, {"config.json: vocab_size: found 2000000000", "4194304"}},
      {{other_weights, good, out}, 1, {"other", "model.embed_tokens.weight is [149,48]"}},
      {{kModel, good, outputs / "no" / "out"}, 1, {(outputs / "no").string()}},
      {{kModel, good, out, false, adapter},
       1,
       {"adapter_model.safetensors: is not this model's",
        "not expected: base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight"}},
      {{kModel, good, out, false, goldens},
       2,
       {goldens.string() + ": found no adapter_config.json"}},
      {key("steps=3"), 2, {"command line steps", "of no use here", "dtype", "prefetch_layers"}},
      {key("base_emb_dim=64"), 2, {"command line base_emb_dim", "of no use here"}},
      {key("remat_polcy=full"), 2, {"unknown", "nearest: remat_policy"}},
      {key("remat_policy=fulll"), 2, {"remat_policy: found 'fulll'", "nearest: full"}},
      {key("dtype=float16"), 2, {"dtype: found float16", "bfloat16"}},
      {key("context=device"), 2, {"context", "remat_policy"}},
      {key("offload_layers=3"), 2, {"offload_layers: found 3", "the layers of decoder"}},
      {key("parameter_layers_on_device=3"),
       2,
       {"command line parameter_layers_on_device: found 3, expected at most 2, the layers of "}},
      {key("parameter_layers_on_device=auto"),
       2,
       {"command line parameter_layers_on_device: found auto, expected a number: auto goes by a "
        "profile, which is for train and plan"}},
      {unread("remat_policy=full"), 2, {"command line remat_policy: found a probe without"}},
      {unread("offload_layers=1"), 2, {"command line offload_layers: found a probe without"}},
      {unread("gradient_memory_host_offload=true"), 2, {"without --gradients"}},
  };
  for (const Bad& call : calls) {
    ProgramResult result = refusal(call.request);
    EXPECT_EQ(result.exit_code, call.exit_code) << result.output;
    for (const std::string& word : call.words) EXPECT_THAT(result.output, HasSubstr(word));
    EXPECT_EQ(outputs.file_count(), 0u) << result.output;
  }
}

// Under any name, in one file or several; what was written before may be written again.
TEST(Probe, NothingThatIsReadIsWrittenOver) {
  TemporaryFolder folder;
  const fs::path goldens = kModel.parent_path(), model = folder / "model",
                 adapter = folder / "adapter";
  fs::create_directory(model);
  for (const fs::directory_entry& entry : fs::directory_iterator(goldens / "llama31_gqa"))
    fs::copy(entry.path(), model / entry.path().filename());
  fs::copy(goldens / "lora_llama", adapter, fs::copy_options::recursive);
  fs::path inputs = write_inputs(model / "in", {{"input_ids", {{1, 2}, {1, 2}}}});
  fs::create_symlink(inputs, folder / "link");
  const fs::path parts = model / "model.safetensors.index.json";
  ASSERT_TRUE(fs::exists(parts));
  for (const fs::path& out :
       {inputs, folder / "link", model / "." / "in", parts, model / "config.json",
        model / data::parse_safetensors_index(data::read_file(parts)).begin()->second}) {
    const std::string before = data::read_file(out);
    const ProgramResult result = refusal({.model = model, .inputs = inputs, .out = out});
    EXPECT_EQ(result.exit_code, 2) << out;
    EXPECT_TRUE(result.output.starts_with(out.string() + ": found ")) << result.output;
    EXPECT_TRUE(data::read_file(out) == before) << out;
  }
  const fs::path of_adapter = adapter / "adapter/adapter_model.safetensors";
  EXPECT_EQ(refusal({.model = adapter,
                     .inputs = adapter / "golden.safetensors",
                     .out = of_adapter,
                     .adapter = adapter / "adapter"})
                .exit_code,
            2);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(refusal({.model = model, .inputs = inputs, .out = model / "out"}).output, "");
}

TEST(Probe, ErrorsBecomeExitCodes) {
  TemporaryFolder folder;
  fs::path bad = write_inputs(folder / "bad", {{"input_ids", {{1, 2}, {1, 307}}}});
  for (auto [arguments, exit_code, word] :
       {std::tuple{"", 1, "probe: "}, std::tuple{"steps=3", 2, "probe: command line steps"},
        std::tuple{"--no_such_option", 2, "no_such_option"}}) {
    ProgramResult result = run_probe(kModel, bad, folder / "out", arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.output;
    EXPECT_THAT(result.output, HasSubstr(word));
  }
  for (const ProgramResult& missing :
       {run_probe(folder / "none", bad, folder / "out", ""),
        run_probe(kModel, folder / "none", folder / "out", ""),
        run_probe(kModel, bad, folder / "out", "--adapter /no/such")}) {
    EXPECT_EQ(missing.exit_code, 2) << missing.output;
    EXPECT_THAT(missing.output, HasSubstr("does not exist"));
  }
  EXPECT_EQ(folder.file_count(), 1u);
}

}  // namespace
}  // namespace longshore::trainer
