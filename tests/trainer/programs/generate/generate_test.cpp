// The generate program as a user meets it, on models of random weights with a tokenizer.
#include "longshore/trainer/programs/generate/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "longshore/base/error.h"
#include "longshore/base/utf8.h"
#include "longshore/data/tokenizers/tokenizer.h"
#include "longshore/models/families/decoder.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/weights/adapter.h"
#include "longshore/trainer/weights/convert.h"
#include "longshore/trainer/weights/export_parameters.h"
#include "longshore/trainer/weights/initialize.h"
#include "longshore/trainer/weights/text_files.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"
#include "tests/trainer/golden.h"
#include "tests/trainer/run_program.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;
using data::TemporaryFolder;

const fs::path kTokenizers = fs::path(LONGSHORE_SOURCE_DIR) / "tests/goldens/tokenizers";

models::DecoderConfig small_model() {
  return {.length = 8,
          .vocabulary = 900,
          .width = 48,
          .layers = 2,
          .query_heads = 4,
          .kv_heads = 2,
          .head_dim = 12,
          .mlp_width = 64};
}

// A folder as a published model has it, and an adapter of it that changes what it says.
class Models {
 public:
  Models() {
    write(small_model(), folder / "model");
    fs::copy(kTokenizers / "sp_bpe/tokenizer.model", folder / "model");
    models::DecoderConfig adapted = small_model();
    adapted.lora = {.rank = 2, .alpha = 64, .targets = {"q_proj", "down_proj"}};
    Weights weights(adapted);
    for (const auto& [name, location] : weights.layout.by_name) {
      if (!models::is_lora_weight(name)) continue;
      const offload::Bucket& bucket = weights.layout.bucket(location);
      const offload::Parameter& parameter = weights.layout.parameter(location);
      std::vector<float> values(static_cast<size_t>(parameter.type.shape.count()));
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 3;
      for (offload::Copy copy : {offload::Copy::compute, offload::Copy::master})
        if (bucket.has(copy))
          weights.arguments.write_part(argument_name(bucket, copy), parameter.offset * 4,
                                       values.data(),
                                       static_cast<int64_t>(values.size() * sizeof(float)));
    }
    write_adapter(folder / "adapter", adapted, "", weights.layout, weights.arguments);
  }

  TemporaryFolder folder;

 private:
  struct Weights {
    explicit Weights(const models::DecoderConfig& config)
        : layout(offload::lay_out(models::decoder(config))),
          backend(offload::make_cpu_backend()),
          arguments(*backend, ledger) {
      initialize(layout, 5, arguments);
    }
    offload::ParameterLayout layout;
    std::unique_ptr<offload::Backend> backend;
    offload::Ledger ledger;
    offload::Arguments arguments;
  };

  static void write(const models::DecoderConfig& config, const fs::path& to) {
    Weights weights(config);
    export_parameters(to, {config, weights.layout, weights.arguments}, models::Dtype::float32);
  }
};

// Made once: nothing changes them.
const fs::path& folder() {
  static const Models models;
  static const fs::path path = models.folder / "";
  return path;
}

std::string quoted(const std::string& text) { return "'" + text + "'"; }

// With standard error in a file of its own.
struct Generated {
  int exit_code;
  std::string text, errors;
};

Generated run_generate(const std::string& arguments) {
  TemporaryFolder errors;
  ProgramResult result = run_program("{ OMP_WAIT_POLICY=passive " GENERATE_PROGRAM " " + arguments +
                                     " 2>" + quoted((errors / "errors").string()) + "; }");
  return {result.exit_code, result.output, data::read_file(errors / "errors")};
}

GenerateRequest request() {
  return {.model = folder() / "model",
          .prompt = "The boats wait.",
          .max_tokens = 24,
          .sampling = {.temperature = 0}};
}

std::string text_of(const GenerateRequest& request) {
  testing::internal::CaptureStdout();
  generate(request);
  return testing::internal::GetCapturedStdout();
}

std::string text_of(const Sampling& sampling) {
  GenerateRequest sampled = request();
  sampled.sampling = sampling;
  return text_of(sampled);
}

void copy_model(const fs::path& from, const fs::path& to) {
  for (const char* file : {"config.json", "model.safetensors"}) fs::copy(from / file, to / file);
}

TEST(Generate, WritesTextAndItsSpeed) {
  Generated generated =
      run_generate("--model " + quoted((folder() / "model").string()) +
                   " --prompt 'The boats wait.' --max-tokens 40 --temperature 3 dtype=float32");
  EXPECT_EQ(generated.exit_code, 0);
  EXPECT_GT(generated.text.size(), 30u);
  EXPECT_TRUE(generated.text.ends_with("\n"));
  EXPECT_EQ(valid_utf8_prefix(generated.text), generated.text.size());
  EXPECT_THAT(generated.text, Not(HasSubstr("The boats")));
  EXPECT_THAT(generated.errors, HasSubstr("weights: "));
  EXPECT_THAT(generated.errors, HasSubstr("; 39 more: "));
  EXPECT_THAT(generated.errors, HasSubstr(" tokens/s\n"));
}

// As transformers' generate() does, whichever file names them.
TEST(Generate, EndsWithAnyEosOfTheModelsFiles) {
  GenerateRequest whole = request();
  whole.max_tokens = 6;
  const std::string text = text_of(whole);
  for (const char* file : {"generation_config.json", "config.json"}) {
    TemporaryFolder ending;
    copy_model(folder() / "model", ending / "");
    fs::copy(folder() / "model/tokenizer.model", ending / "");
    auto object = fs::exists(ending / file) ? nlohmann::json::parse(data::read_file(ending / file))
                                            : nlohmann::json::object();
    object["eos_token_id"] = nlohmann::json::array({2});
    for (int32_t id = 3; id < 900; ++id) object["eos_token_id"].push_back(id);
    ending.write(file, object.dump());
    GenerateRequest ended = whole;
    ended.model = ending / "";
    EXPECT_EQ(text_of(ended), "\n") << "the text that would go on: " << text;
  }
}

TEST(Generate, SaysWhenTheTextCannotBeWritten) {
  const Generated generated = run_generate("--model " + quoted((folder() / "model").string()) +
                                           " --prompt 'The boats' --max-tokens 5 --temperature 0 "
                                           "--top-k 3 >/dev/full");
  EXPECT_EQ(generated.exit_code, 1);
  EXPECT_THAT(generated.errors, HasSubstr("warning: --top-k: found --temperature 0, which draws "
                                          "nothing and does not read it\n"));
  EXPECT_THAT(generated.errors,
              HasSubstr("generate: standard output: cannot be written: No space left"));
}

TEST(Generate, TheSeedGivesTheText) {
  const std::string text = text_of({.seed = 1});
  EXPECT_EQ(text_of({.seed = 1}), text);
  EXPECT_NE(text_of({.seed = 2}), text);
  const std::string greedy = text_of({.temperature = 0});
  EXPECT_NE(greedy, text);
  EXPECT_EQ(text_of({.temperature = 0, .seed = 9}), greedy);
  EXPECT_EQ(text_of({.top_k = 1}), greedy);
  EXPECT_EQ(text_of({.top_p = 1e-9}), greedy);
}

TEST(Generate, TheWeightsHomeChangesNothing) {
  GenerateRequest offloaded = request();
  offloaded.overrides = {"parameter_memory_host_offload=true"};
  EXPECT_EQ(text_of(offloaded), text_of(request()));
}

TEST(Generate, WarnsOfKeysWithoutEffect) {
  GenerateRequest unread = request();
  unread.overrides = {"parameter_layers_on_device=1", "frozen_weight_double_quantization=true"};
  testing::internal::CaptureStderr();
  EXPECT_EQ(text_of(unread), text_of(request()));
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      testing::AllOf(
          HasSubstr("warning: command line parameter_layers_on_device: 1 has no effect with "
                    "parameter_memory_host_offload = false (default)\n"),
          HasSubstr("warning: command line frozen_weight_double_quantization: true has no effect "
                    "with frozen_weight_dtype = auto (default)\n")));
  unread.overrides = {"parameter_layers_on_device=1", "parameter_memory_host_offload=true"};
  testing::internal::CaptureStderr();
  text_of(unread);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("no effect")));
}

// More than one run's tokens, with a rest.
TEST(Generate, TakesLongPrompts) {
  GenerateRequest longer = request();
  for (int i = 0; i < 120; ++i) longer.prompt += " The boats wait.";
  EXPECT_GT(text_of(longer).size(), 1u);
}

TEST(Generate, WarnsOfTextsBeyondWhatTheModelIsMadeFor) {
  const int64_t most = small_model().length;
  const data::Tokenizer tokenizer(folder() / "model");
  GenerateRequest at_most = request();
  at_most.max_tokens = most - 1 - std::ssize(tokenizer.encode(at_most.prompt));
  ASSERT_GT(at_most.max_tokens, 0);
  auto warning = [](const GenerateRequest& request) {
    testing::internal::CaptureStderr();
    EXPECT_NE(text_of(request), "");
    const std::string errors = testing::internal::GetCapturedStderr();
    const size_t end = errors.find(
        "config.json: max_position_embeddings is 8, and prompt and "
        "--max-tokens have 9 tokens together");
    return end != std::string::npos;
  };
  EXPECT_FALSE(warning(at_most));
  ++at_most.max_tokens;
  EXPECT_TRUE(warning(at_most));
}

TEST(Generate, FramesPromptsByTheChatTemplate) {
  GenerateRequest chat = request();
  chat.chat_template = "llama2";
  EXPECT_NE(text_of(chat), text_of(request()));
  chat.chat_template = "llama3";
  std::string message = message_of<ConfigError>([&] { generate(chat); });
  EXPECT_TRUE(message.starts_with("--chat-template llama3: ")) << message;
  EXPECT_THAT(message, HasSubstr("<|begin_of_text|>"));
}

// Role and content share a token, as they do in training.
TEST(Generate, TokenizesConversationsAsTrainingDoes) {
  TemporaryFolder qwen;
  copy_model(folder() / "model", qwen / "");
  fs::copy(kTokenizers / "bytelevel_bpe_qwen/tokenizer.json", qwen / "tokenizer.json");
  const data::Tokenizer tokenizer(qwen / "");
  const size_t expected =
      tokenizer.encode("<|im_start|>user\n\nWhere are we?<|im_end|>\n<|im_start|>assistant\n")
          .size();
  GenerateRequest chat = request();
  chat.model = qwen / "";
  chat.prompt = "\nWhere are we?";
  chat.chat_template = "chatml";
  chat.max_tokens = 2;
  testing::internal::CaptureStderr();
  text_of(chat);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("prompt of " + std::to_string(expected) + " tokens"));
}

TEST(Generate, TakesAdaptersAndRuns) {
  GenerateRequest adapted = request();
  adapted.adapter = folder() / "adapter";
  const std::string text = text_of(adapted);
  EXPECT_NE(text, text_of(request()));

  // What a run leaves that trained this adapter.
  TemporaryFolder run;
  fs::copy(folder() / "adapter", run / "adapter");
  run.write("config.yml",
            "base_emb_dim: 48\nbase_num_decoder_layers: 2\nbase_num_query_heads: 4\n"
            "base_num_kv_heads: 2\nhead_dim: 12\nbase_mlp_dim: 64\nvocab_size: 900\n"
            "lora_rank: 2\nload_parameters_path: " +
                (folder() / "model").string() + "\n");
  GenerateRequest of_run = request();
  of_run.model.clear();
  of_run.run = run / "";
  EXPECT_EQ(text_of(of_run), text);

  // Or a checkpoint of it, such as the best, but none elsewhere.
  fs::create_directories(run / "checkpoints/00000002");
  fs::copy(folder() / "adapter", run / "checkpoints/00000002/adapter");
  fs::create_directory_symlink("checkpoints/00000002", run / "best");
  for (const char* checkpoint : {"best", "best/", "checkpoints/00000002"}) {
    of_run.run = run / checkpoint;
    EXPECT_EQ(text_of(of_run), text) << checkpoint;
  }
  of_run.run = run / "checkpoints";
  EXPECT_THAT(message_of<ConfigError>([&] { generate(of_run); }),
              HasSubstr("expected a run directory, which has config.yml, or a checkpoint in one"));
  TemporaryFolder other;
  other.write("config.yml", data::read_file(run / "config.yml"));
  fs::create_directories(other / "checkpoints");
  fs::rename(run / "checkpoints/00000002", other / "checkpoints/00000002");
  fs::remove(run / "best");
  fs::create_directory_symlink(other / "checkpoints/00000002", run / "best");
  of_run.run = run / "best";
  EXPECT_THAT(message_of<DataError>([&] { generate(of_run); }),
              HasSubstr("best: found a symbolic link that leads elsewhere"));
  of_run.run = run / "";

  // Converted, it is one model.
  run.write("config.yml", data::read_file(run / "config.yml") + "tokenizer_path: " +
                              (folder() / "model").string() + "\nchat_template: llama2\n" +
                              "dataset_type: documents\ndataset_path: /data/chat.jsonl\n");
  convert({.run = run / "", .to = run / "merged", .dtype = {}});
  GenerateRequest merged = request();
  merged.model = run / "merged";
  merged.chat_template = "none";
  EXPECT_EQ(text_of(merged), text);
  EXPECT_TRUE(fs::exists(run / "merged/chat_template.jinja"));
  EXPECT_TRUE(fs::exists(run / "merged/tokenizer.json"));
  EXPECT_EQ(eos_ids(run / "merged"), std::vector{2});
}

TEST(Generate, WritesPromptsAsTheRunWasTrained) {
  TemporaryFolder run;
  fs::create_directory(run / "model");
  copy_model(folder() / "model", run / "model");
  const std::string config =
      "base_emb_dim: 48\nbase_num_decoder_layers: 2\nbase_num_query_heads: 4\n"
      "base_num_kv_heads: 2\nhead_dim: 12\nbase_mlp_dim: 64\nvocab_size: 900\n"
      "dataset_type: documents\ndataset_path: /data/chat.jsonl\ntokenizer_path: " +
      (folder() / "model").string() + "\n";
  run.write("config.yml", config + "chat_template: llama2\n");
  GenerateRequest of_run = request(), of_model = request();
  of_run.model.clear();
  of_run.run = run / "";
  EXPECT_NE(text_of(of_run), text_of(of_model));
  of_model.chat_template = "llama2";
  EXPECT_EQ(text_of(of_run), text_of(of_model));
  of_run.chat_template = of_model.chat_template = "none";
  EXPECT_EQ(text_of(of_run), text_of(of_model));
  run.write("config.yml", config + "add_bos_eos: never\n");
  EXPECT_NE(text_of(of_run), text_of(of_model));
  run.write("config.yml", config + "add_bos_eos: always\n");
  EXPECT_EQ(text_of(of_run), text_of(of_model));
}

TEST(Generate, ReadsOfARunWhatIsInItsFolder) {
  TemporaryFolder run, outside;
  fs::create_directory(run / "model");
  copy_model(folder() / "model", run / "model");
  run.write("config.yml",
            "base_emb_dim: 48\nbase_num_decoder_layers: 2\nbase_num_query_heads: 4\n"
            "base_num_kv_heads: 2\nhead_dim: 12\nbase_mlp_dim: 64\nvocab_size: 900\n"
            "tokenizer_path: " +
                (folder() / "model").string() + "\n");
  GenerateRequest of_run = request();
  of_run.model.clear();
  of_run.run = run / "";
  auto refused = [&](const std::string& words) {
    EXPECT_THAT(message_of<DataError>([&] { generate(of_run); }), HasSubstr(words));
  };
  fs::create_symlink("/etc/passwd", run / "model/LICENSE");
  refused("model/LICENSE: found a symbolic link, expected a regular file");
  fs::remove(run / "model/LICENSE");
  fs::rename(run / "model", outside / "model");
  fs::create_directory_symlink(outside / "model", run / "model");
  refused("model: found a symbolic link that leads elsewhere, expected a folder, or a link to one");
  fs::rename(run / "config.yml", outside / "config.yml");
  fs::create_symlink(outside / "config.yml", run / "config.yml");
  refused("config.yml: found a symbolic link, expected a regular file");
}

TEST(Generate, RefusesWhatIsNotThere) {
  auto expect = [](const GenerateRequest& bad, const std::string& words) {
    try {
      generate(bad);
      ADD_FAILURE() << words;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(words));
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  };
  auto of_model = [](const fs::path& model) {
    GenerateRequest bad = request();
    bad.model = model;
    return bad;
  };
  auto of_run = [](const fs::path& run) {
    GenerateRequest bad = request();
    bad.run = run;
    return bad;
  };
  expect(of_model("/no/such"), "/no/such/config.json");
  expect(of_run("/no/such"), "--run: found /no/such, expected a run directory");

  TemporaryFolder without_tokenizer;
  copy_model(folder() / "model", without_tokenizer / "");
  expect(of_model(without_tokenizer / ""), "tokenizer.json");

  TemporaryFolder without_adapter;
  without_adapter.write("config.yml",
                        "base_emb_dim: 8\nbase_num_decoder_layers: 1\nbase_num_query_heads: 1\n"
                        "base_num_kv_heads: 1\nhead_dim: 8\nbase_mlp_dim: 8\nvocab_size: 9\n");
  expect(of_run(without_adapter / ""), "found neither model/ nor adapter/");

  // The tokenizer of another model: it has more tokens.
  TemporaryFolder mixed;
  copy_model(golden_folder("llama2_mha_untied"), mixed / "");
  fs::copy(kTokenizers / "sp_bpe/tokenizer.model", mixed / "tokenizer.model");
  expect(of_model(mixed / ""), "in the prompt, expected 0 to 130: the model's vocab_size is 131");

  TemporaryFolder without_bos;
  copy_model(folder() / "model", without_bos / "");
  fs::copy(kTokenizers / "bytelevel_bpe_qwen/tokenizer.json", without_bos / "tokenizer.json");
  GenerateRequest empty = of_model(without_bos / "");
  empty.prompt = "";
  expect(empty, "--prompt: found nothing, expected some text");

  GenerateRequest bad = request();
  bad.chat_template = "lama2";
  expect(bad, "llama2");
  bad = request();
  bad.overrides = {"dtpe=float32"};
  expect(bad, "nearest: dtype");
  bad.overrides = {"parameter_layers_on_device=3"};
  expect(bad,
         "command line parameter_layers_on_device: found 3, expected at most 2, the layers of " +
             (folder() / "model").string());
  bad.overrides = {"parameter_layers_on_device=auto"};
  expect(bad, "parameter_layers_on_device: found auto, expected a number: auto goes by a profile");
  bad.overrides = {"steps=3"};
  expect(bad, "of no use here");
}

// Finite ones, so that reading them finds nothing.
TEST(Generate, NamesTheWeightsThatGiveNoNumbers) {
  TemporaryFolder broken;
  copy_model(folder() / "model", broken / "");
  fs::copy(kTokenizers / "sp_bpe/tokenizer.model", broken / "tokenizer.model");
  std::fstream file(broken / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  uint64_t size = 0;
  file.read(reinterpret_cast<char*>(&size), sizeof size);
  std::string header(size, '\0');
  file.read(header.data(), static_cast<std::streamsize>(size));
  const auto norm = nlohmann::json::parse(header).at("model.norm.weight");
  const std::vector<float> huge(small_model().width, std::numeric_limits<float>::max());
  file.seekp(static_cast<std::streamoff>(sizeof size + size) +
             norm.at("data_offsets").at(0).get<int64_t>());
  file.write(reinterpret_cast<const char*>(huge.data()), std::ssize(huge) * 4);
  file.close();
  for (const std::string& adapter : {std::string(), (folder() / "adapter").string()}) {
    const Generated generated =
        run_generate("--model " + quoted((broken / "").string()) + " --prompt x dtype=float32" +
                     (adapter.empty() ? "" : " --adapter " + quoted(adapter)));
    EXPECT_EQ(generated.exit_code, 1);
    EXPECT_THAT(generated.errors,
                HasSubstr("generate: " + (broken / "").string() +
                          (adapter.empty() ? "" : " with the adapter " + adapter) +
                          ": the logit of token "));
  }
}

TEST(Generate, RefusesCommandLines) {
  const std::string model = "--model " + quoted((folder() / "model").string()) + " ",
                    prompt = "--prompt x ";
  for (const auto& [arguments, word] : {std::pair{prompt, "--model"},
                                        {model, "--prompt"},
                                        {model + "--promt=x", "nearest: --prompt"},
                                        {model + "--run x " + prompt, "--run"},
                                        {prompt + "--model /no/such", "--model: "},
                                        {prompt + "--run /no/such", "--run: "},
                                        {model + prompt + "--adapter /no/such", "--adapter: "},
                                        {model + prompt + "--top-p 0", "--top-p"},
                                        {model + prompt + "--top-p nan", "--top-p: found nan"},
                                        {model + prompt + "--temperature NaN", "found NaN"},
                                        {model + prompt + "--temperature 1e-400", "found 1e-400"},
                                        {model + prompt + "--temperature inf", "--temperature"}}) {
    Generated generated = run_generate(arguments);
    EXPECT_EQ(generated.exit_code, 2) << arguments << "\n" << generated.errors;
    EXPECT_THAT(generated.errors, HasSubstr(word));
    EXPECT_EQ(generated.text, "") << arguments;
  }
}

}  // namespace
}  // namespace longshore::trainer
