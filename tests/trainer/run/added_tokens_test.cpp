// Tokens that a run adds to the vocabulary of the model that it begins from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "longshore/data/tokenizers/tokenizer.h"
#include "longshore/trainer/weights/convert.h"
#include "longshore/trainer/weights/folder_model.h"
#include "longshore/trainer/weights/hf_folder.h"
#include "tests/data/temporary_folder.h"
#include "tests/trainer/golden.h"
#include "tests/trainer/run_program.h"

namespace longshore::trainer {
namespace {

using data::TemporaryFolder;
using nlohmann::json;
using testing::HasSubstr;

namespace fs = std::filesystem;

// The tokenizer has 709 tokens, one of which is <tool>.
constexpr int64_t kTokens = 709, kWidth = 32;
const std::string kTokenizer = "tests/goldens/tokenizers/bytelevel_bpe_llama3";

std::vector<float> numbers(const fs::path& folder, const std::string& name) {
  return floats(data::SafetensorsFile(folder / "model.safetensors").at(name));
}

std::vector<float> row(const std::vector<float>& matrix, int64_t i) {
  return {matrix.begin() + i * kWidth, matrix.begin() + (i + 1) * kWidth};
}

std::vector<float> mean_row(const std::vector<float>& matrix) {
  std::vector<double> sums(kWidth);
  for (size_t i = 0; i < matrix.size(); ++i) sums[i % kWidth] += matrix[i];
  std::vector<float> mean;
  for (const double sum : sums)
    mean.push_back(static_cast<float>(sum / static_cast<double>(matrix.size() / kWidth)));
  return mean;
}

class AddTokens : public testing::Test {
 protected:
  AddTokens() {
    std::string lines;
    for (int i = 0; i < 8; ++i)
      lines +=
          json{{"text", "so it goes on <tool> and </tool> on" + std::string(i, 'x')}}.dump() + "\n";
    folder_.write("text.jsonl", lines);
  }

  // A model of `rows` tokens with random weights.
  fs::path base(const std::string& name, int64_t rows, const std::string& keys = "") {
    train(name,
          "model_type=llama base_emb_dim=32 base_num_decoder_layers=2 head_dim=8 "
          "base_num_query_heads=4 base_num_kv_heads=2 base_mlp_dim=48 tokenizer_path=" +
              kTokenizer + " vocab_size=" + std::to_string(rows) + " steps=1 " + keys);
    return folder_ / name / "model";
  }

  ProgramResult run_train(const std::string& name, const std::string& keys) {
    return run_program(
        TRAIN_PROGRAM
        " --config quickstart.yml backend=cpu dtype=float32 model_name= "
        "sample_tokens=0 eval_dataset_path= eval_interval=-1 peak_tflops_per_device=1 "
        "max_target_length=32 per_device_batch_size=2 learning_rate=0.01 warmup_steps_fraction=0 "
        "dataset_type=documents dataset_path=" +
        (folder_ / "text.jsonl").string() + " base_output_directory=" + (folder_ / "").string() +
        " run_name=" + name + " " + keys);
  }
  fs::path train(const std::string& name, const std::string& keys) {
    const ProgramResult result = run_train(name, keys);
    EXPECT_EQ(result.exit_code, 0) << name << ": " << result.output;
    return folder_ / name;
  }
  fs::path merged(const std::string& name) {
    convert({.run = folder_ / name, .to = folder_ / (name + ".merged")});
    return folder_ / (name + ".merged");
  }
  json losses(const std::string& name) {
    std::istringstream lines(data::read_file(folder_ / name / "metrics.jsonl"));
    json list;
    for (std::string line; std::getline(lines, line);)
      if (const json record = json::parse(line); record.contains("loss"))
        list.push_back(record["loss"]);
    return list;
  }

  TemporaryFolder folder_;
};

// Two that the tokenizer lacks, of which the model has a row for one, and one that it has.
const std::string kAdded = " 'add_tokens=[</tool>,<tool>,<more>]' ";

TEST_F(AddTokens, HaveRowsThatBeginAsTheMeanAndTrain) {
  for (const std::string tied : {"false", "true"}) {
    const fs::path model = base("base" + tied, kTokens + 1, "logits_via_embedding=" + tied);
    const std::string keys = "steps=2 load_parameters_path=" + model.string() + kAdded;
    const std::vector<float> embedding = numbers(model, "model.embed_tokens.weight");
    const std::string adapter = "adapter" + tied, saved = "saved" + tied, full = "full" + tied;
    train(adapter, keys + "lora_rank=2");
    train(saved, keys + "lora_rank=2 modules_to_save=[embed_tokens" +
                     (tied == "true" ? "]" : ",lm_head]"));
    train(full, keys);
    for (const fs::path& found : {merged(adapter), merged(saved), folder_ / full / "model"}) {
      SCOPED_TRACE(found);
      EXPECT_EQ(json::parse(data::read_file(found / "config.json"))["vocab_size"], kTokens + 2);
      const data::Tokenizer tokenizer(found);
      EXPECT_EQ(tokenizer.id_of("</tool>"), kTokens);
      EXPECT_EQ(tokenizer.id_of("<more>"), kTokens + 1);
      EXPECT_EQ(tokenizer.vocab_size(), kTokens + 2);
      const std::vector<float> now = numbers(found, "model.embed_tokens.weight");
      ASSERT_EQ(std::ssize(now), (kTokens + 2) * kWidth);
      EXPECT_NE(row(now, kTokens), mean_row(embedding));  // it is in the text
    }
    // Beside adapters only these rows train; <more> is in no text, and the tied head's share of its
    // gradient moves it.
    const std::vector<float> now =
        numbers(folder_ / (adapter + ".merged"), "model.embed_tokens.weight");
    if (tied == "false") {
      EXPECT_EQ(row(now, kTokens + 1), mean_row(embedding));
    }
    const int64_t tool = *data::Tokenizer(kTokenizer).id_of("<tool>");
    for (int64_t i = 0; i < kTokens; ++i)
      EXPECT_EQ(row(now, i) == row(embedding, i), i != tool) << i;
    if (tied == "true") continue;
    const std::vector<float> head = numbers(model, "lm_head.weight"),
                             frozen = numbers(folder_ / (adapter + ".merged"), "lm_head.weight");
    ASSERT_EQ(std::ssize(frozen), (kTokens + 2) * kWidth);
    for (const int64_t i : {kTokens, kTokens + 1}) EXPECT_EQ(row(frozen, i), mean_row(head));
    EXPECT_TRUE(std::equal(head.begin(), head.begin() + kTokens * kWidth, frozen.begin()));
  }
}

// What the run and the merged folder are asked has the new token in it.
TEST_F(AddTokens, AreGeneratedFromARunAsFromWhatIsMerged) {
  const fs::path model = base("base", kTokens);
  train("run", "steps=3 lora_rank=2 load_parameters_path=" + model.string() + kAdded);
  const std::string asked = " --prompt 'on </tool>' --max-tokens 8 --temperature 0 2>/dev/null )";
  const ProgramResult run =
                          run_program("( " GENERATE_PROGRAM " --run " + (folder_ / "run").string() +
                                      " backend=cpu dtype=float32" + asked),
                      of_merged =
                          run_program("( " GENERATE_PROGRAM " --model " + merged("run").string() +
                                      " backend=cpu dtype=float32" + asked);
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(run.output, of_merged.output);
  // The adapter's folder is read with its own tokenizer.
  EXPECT_EQ(data::Tokenizer(folder_ / "run/adapter").vocab_size(), kTokens + 2);
}

TEST_F(AddTokens, GoOnAsIfTheyHadNeverStoppedUnderEveryHome) {
  const fs::path model = base("base", kTokens);
  for (const std::string kind : {"lora_rank=2 frozen_weight_dtype=nf4", "remat_policy=full"}) {
    const std::string keys =
        "learning_rate_schedule_steps=4 load_parameters_path=" + model.string() + kAdded + kind +
        " ";
    train("straight", keys + "steps=4");
    train("stopped", keys + "steps=2");
    train("stopped", keys + "steps=4");
    train("offloaded", keys + "steps=4 parameter_memory_host_offload=true");
    EXPECT_EQ(losses("straight").size(), 4u);
    EXPECT_EQ(losses("stopped"), losses("straight"));
    EXPECT_EQ(losses("offloaded"), losses("straight"));
    for (const char* run : {"straight", "stopped", "offloaded"}) fs::remove_all(folder_ / run);
  }
}

TEST_F(AddTokens, AreRefusedByName) {
  const fs::path model = base("base", kTokens);
  auto refusal = [&](const std::string& keys) {
    const ProgramResult result =
        run_train("no", (keys.find("lora_rank") == keys.npos ? "lora_rank=2 " : "") +
                            (keys.find("load_parameters_path") == keys.npos
                                 ? "load_parameters_path=" + model.string() + " "
                                 : "") +
                            keys);
    EXPECT_NE(result.exit_code, 0) << result.output;
    EXPECT_FALSE(fs::exists(folder_ / "no"));
    return result.output;
  };
  EXPECT_THAT(refusal("add_tokens=[a,a]"),
              HasSubstr("add_tokens: found [\"a\", \"a\"], expected each"));
  EXPECT_THAT(refusal("'add_tokens=[<x>]' tokenizer_path=tests/goldens/tokenizers/sp_bpe"),
              HasSubstr("is a sentencepiece model, expected a tokenizer.json"));
  EXPECT_THAT(refusal("'add_tokens=[<x>]' trainable_parameters_mask=layers lora_rank=0"),
              HasSubstr("expected it with add_tokens"));
  EXPECT_THAT(refusal("'add_tokens=[<x>]' trainable_parameters_mask=embed_tokens"),
              HasSubstr("found model.embed_tokens.weight in it, expected none with add_tokens"));
  // A tokenizer of another model, and one that lacks what the model has learnt.
  EXPECT_THAT(refusal("'add_tokens=[<x>]' tokenizer_path=" + kTokenizer +
                      " load_parameters_path=" + golden_folder("llama2_mha_untied").string()),
              HasSubstr("has token ids up to 708 before any are added, but vocab_size is "));
  train("full", "steps=1 load_parameters_path=" + model.string() + kAdded);
  EXPECT_THAT(refusal(kAdded + "load_parameters_path=" + (folder_ / "full/model").string() +
                      " tokenizer_path=" + kTokenizer),
              HasSubstr("nearest: tokenizer_path=" + (folder_ / "full/model").string()));
  // An adapter's rows are of its tokens.
  train("adapter", "steps=1 lora_rank=2 load_parameters_path=" + model.string() + kAdded);
  EXPECT_THAT(refusal("'add_tokens=[<more>,<tool>,</tool>]' load_adapter_path=" +
                      (folder_ / "adapter/adapter").string()),
              HasSubstr("add_tokens: \"<more>\" is 709, 710 in the adapter"));
  EXPECT_THAT(refusal("'add_tokens=[<x>]' tokenizer_path="),
              HasSubstr("expected a path, to the tokenizer of add_tokens"));
}

// All matrices that have a row for each token.
TEST(AddedRows, AreInAllMatricesOfAVocabulary) {
  const fs::path folder = golden_folder("gemma4_e2b");
  const AddedRows added{.first = 120, .count = 20};  // beyond the folder's rows, and some of them
  const models::DecoderConfig before = read_folder_model(folder, {}),
                              model = read_folder_model(folder, {}, models::UnknownKeys::refuse,
                                                        models::Images::ignore, added);
  const StoredWeights weights(folder, model, added), plain(folder, before);
  EXPECT_NO_THROW(check_tensors(folder, offload::lay_out(models::decoder(model)), weights, model));
  for (const std::string name :
       {"model.embed_tokens.weight", "model.embed_tokens_per_layer.weight"}) {
    const int64_t rows = plain.info(name).shape[0], width = plain.info(name).shape[1];
    ASSERT_GT(rows, added.first);
    std::vector<float> old(static_cast<size_t>(rows * width)),
        all(static_cast<size_t>(added.end() * width));
    plain.read(name, 0, old);
    weights.read(name, 0, all);
    for (int64_t i = 0; i < std::ssize(all); ++i) {
      double expected = 0;
      if (i < added.first * width) {
        expected = old[static_cast<size_t>(i)];
      } else {
        for (int64_t r = 0; r < rows; ++r)
          expected += old[static_cast<size_t>(r * width + i % width)];
        expected = static_cast<float>(expected / static_cast<double>(rows));
      }
      ASSERT_EQ(all[static_cast<size_t>(i)], static_cast<float>(expected)) << name << " " << i;
    }
    for (const int64_t step : {1, 2, 3}) {
      const int64_t first = (added.first - 1) * width + 1;
      std::vector<float> some(static_cast<size_t>(3 * width / step));
      weights.read(name, first, some, step);
      for (size_t i = 0; i < some.size(); ++i)
        ASSERT_EQ(some[i], all[static_cast<size_t>(first) + i * static_cast<size_t>(step)]);
    }
  }
}

}  // namespace
}  // namespace longshore::trainer
