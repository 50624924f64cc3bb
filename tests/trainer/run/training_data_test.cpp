// From files to the losses of their tokens.
#include "longshore/trainer/run/training_data.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "longshore/base/error.h"
#include "longshore/data/rows/token_file.h"
#include "longshore/data/text/tokenize_files.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/execution/executor.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/config/objective.h"
#include "longshore/trainer/run/eval_choices.h"
#include "longshore/trainer/step/batch_arguments.h"
#include "longshore/trainer/step/memory_report.h"
#include "longshore/trainer/step/training_plans.h"
#include "longshore/trainer/weights/initialize.h"
#include "longshore/trainer/weights/read_floats.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;

using data::TemporaryFolder;

const std::string kTokenizers = LONGSHORE_SOURCE_DIR "/tests/goldens/tokenizers/";

data::BatchShape shape_of(const Config& config) {
  return {config.per_device_batch_size, config.max_target_length};
}

TrainingData open_silently(const Config& config) {
  return open_data(config, shape_of(config), [](const std::string&) {});
}

class TrainingDataTest : public testing::Test {
 protected:
  Config config(const std::vector<std::string>& overrides) const {
    std::vector<std::string> all = {"model_type=llama",
                                    "base_emb_dim=32",
                                    "base_num_decoder_layers=2",
                                    "base_num_query_heads=4",
                                    "base_num_kv_heads=2",
                                    "head_dim=8",
                                    "base_mlp_dim=48",
                                    "vocab_size=2048",
                                    "max_target_length=64",
                                    "per_device_batch_size=3",
                                    "dtype=float32",
                                    "dataset_type=documents",
                                    "base_output_directory=" + (folder_ / "runs").string(),
                                    "tokenizer_path=" + kTokenizers + "sp_bpe"};
    for (const std::string& override : overrides) {
      std::erase_if(all, [&](const std::string& setting) {
        return setting.starts_with(override.substr(0, override.find('=') + 1));
      });
      all.push_back(override);
    }
    return load_config_text("steps: 1", folder_ / "test.yml", all, default_configs());
  }

  static std::filesystem::path default_configs() { return LONGSHORE_SOURCE_DIR "/configs"; }

  // Prompts and completions of many lengths, some longer than a row.
  std::string write_pairs(const std::string& name) const {
    std::string lines;
    auto words = [](int count) {
      std::string text;
      for (int i = 0; i < count; ++i) text += i % 3 ? " the boats" : " wait";
      return text;
    };
    for (int i = 0; i < 60; ++i)
      lines += R"({"prompt": ")" + std::to_string(i) + words(i * 7 % 13) + R"(", "completion": ")" +
               words(1 + i * 5 % 31) + "\"}\n";
    return folder_.write(name, lines).string();
  }

  std::string write_chat(const std::string& name) const {
    return folder_
        .write(name, R"({"messages": [{"role": "user", "content": "Where?"}, )"
                     R"({"role": "assistant", "content": "Here."}]})"
                     "\n")
        .string();
  }

  TemporaryFolder folder_;
};

TEST_F(TrainingDataTest, SaysHowManyEpochsTheStepsAre) {
  auto last_line = [&](const std::vector<std::string>& overrides, data::Rank rank) {
    std::string last;
    const Config read = config(overrides);
    open_data(
        read, shape_of(read), [&](const std::string& line) { last = line; }, rank);
    return last;
  };
  const std::string a = folder_
                            .write("a.jsonl", R"({"text": "the boats"})"
                                              "\n")
                            .string();
  const std::string b = folder_
                            .write("b.jsonl", R"({"text": "the boats"})"
                                              "\n"
                                              R"({"text": "wait"})"
                                              "\n")
                            .string();
  const std::string files = "dataset_path=" + a + "," + b;
  // Rows of one document: one in the first file, two in the second.
  const std::vector<std::string> plain{files, "packing=false", "steps=10"};
  EXPECT_EQ(last_line(plain, {}), "10 steps of 3 rows are 10.00 epochs");
  EXPECT_EQ(last_line(plain, {.rank = 1, .world_size = 2}), "10 steps of 6 rows are 20.00 epochs");
  EXPECT_EQ(last_line({"dataset_path=" + a + ":0.75," + b + ":0.25", "packing=false", "steps=2",
                       "gradient_accumulation_steps=2"},
                      {}),
            "2 steps of 6 rows are 9.00, 1.50 epochs of these files");
}

// The loss at each position of each sequence, by its tokens up to there and the target: sequences
// that begin alike have equal losses.
using Losses = std::multimap<std::vector<int32_t>, double>;

// Adds those of a batch, whose logits are [B,T,V].
void add_losses(const data::Batch& batch, const std::vector<float>& logits, Losses& losses) {
  const size_t vocabulary = logits.size() / batch["tokens"].size();
  std::vector<int32_t> sequence;
  for (size_t i = 0; i < batch["tokens"].size(); ++i) {
    if (batch["positions"][i] == 0) sequence.clear();
    sequence.push_back(batch["tokens"][i]);
    if (batch["targets"][i] == data::kIgnoredTarget) continue;
    const float* row = logits.data() + i * vocabulary;
    double sum = 0;
    for (size_t v = 0; v < vocabulary; ++v) sum += std::exp(static_cast<double>(row[v]));
    std::vector<int32_t> place = sequence;
    place.push_back(batch["targets"][i]);
    losses.emplace(place, std::log(sum) - row[batch["targets"][i]]);
  }
}

struct Evaluation {
  Losses losses;
  double sum = 0;  // of the losses, as the evaluation's plan adds them up
  int64_t weights = 0;
};

Evaluation evaluate_all(const Config& config) {
  TrainingData data = open_silently(config);
  models::Model model = models::decoder(decoder_config(config, models::Target::cpu),
                                        {.head = models::Head::hidden_states});
  offload::ParameterLayout layout = offload::lay_out(model);
  offload::Plan plan = plan_forward(model, layout, "states", {}, models::Target::cpu);
  auto backend = offload::make_cpu_backend();
  offload::Ledger ledger;
  offload::Arguments arguments(*backend, ledger);
  offload::Arenas arenas(*backend, {&plan});
  initialize(layout, 1, arguments);
  offload::Executable executable(plan, *backend, arguments, arenas);
  Evaluation evaluation;
  models::Shape shape{config.per_device_batch_size, config.max_target_length,
                      config.model.vocabulary};
  for (int64_t i = 0; i < data.validation.at(0).count; ++i) {
    data::Batch batch = data.validation.at(0).batches(i);
    write_batch(batch, arguments);
    executable.run(ledger);
    backend->synchronize();
    std::vector<float> logits =
        read_floats(arguments, offload::host_name("output.1"), {shape, models::Dtype::float32});
    add_losses(batch, logits, evaluation.losses);
    float sum;
    arguments.read(offload::host_name(offload::kLoss), &sum, sizeof sum);
    evaluation.sum += sum;
    evaluation.weights += batch.total_weights;
  }
  return evaluation;
}

TEST_F(TrainingDataTest, PackedOrOneARowEachTokenHasTheSameLoss) {
  std::string pairs = write_pairs("a.jsonl");
  for (const char* excess : {"truncate", "split", "skip"}) {
    auto evaluation = [&](const std::string& packing) {
      return evaluate_all(
          config({"dataset_path=" + pairs, "eval_dataset_path=" + pairs,
                  std::string("excess_length_strategy=") + excess, "packing=" + packing}));
    };
    Evaluation packed = evaluation("true"), alone = evaluation("false");
    EXPECT_GT(packed.weights, 500);
    EXPECT_EQ(packed.weights, alone.weights);
    EXPECT_NEAR(packed.sum / alone.sum, 1, 1e-6);
    ASSERT_EQ(packed.losses.size(), static_cast<size_t>(packed.weights));
    ASSERT_EQ(alone.losses.size(), packed.losses.size());
    for (auto a = packed.losses.begin(), b = alone.losses.begin(); a != packed.losses.end();
         ++a, ++b) {
      ASSERT_EQ(a->first, b->first);
      ASSERT_NEAR(a->second, b->second, 1e-5);
    }
    double sum = 0;
    for (const auto& [place, loss] : packed.losses) sum += loss;
    EXPECT_NEAR(packed.sum / sum, 1, 1e-5);
  }
}

TEST_F(TrainingDataTest, MixesFilesOfAllKinds) {
  std::string pairs = write_pairs("a.jsonl");
  std::string text = folder_.write("b.txt", "One boat.\n\nTwo boats.\n").string();
  data::Tokenizer tokenizer(kTokenizers + "sp_bpe");
  data::TokenFileWriter writer(folder_ / "c.tokens", tokenizer.vocab_size(),
                               tokenizer.fingerprint());
  writer.append(std::vector<int32_t>{7, 7, 7, 7, 7});
  writer.finish();
  std::vector<std::string> said;
  const Config mixed = config({"dataset_path=" + pairs + ":0.5," + text + ":0.25," +
                                   (folder_ / "c.tokens").string() + ":0.25",
                               "per_device_batch_size=4", "packing=false"});
  TrainingData data =
      open_data(mixed, shape_of(mixed), [&](const std::string& line) { said.push_back(line); });
  ASSERT_EQ(said.size(), 7u);
  EXPECT_THAT(said[1], HasSubstr("a.jsonl: 60 documents, "));
  EXPECT_THAT(said[1], HasSubstr(" of them too long and truncated; 60 rows, "));
  EXPECT_THAT(said[4], HasSubstr("c.tokens: its texts begin without <s>, which generate"));
  EXPECT_THAT(said[5], HasSubstr("c.tokens: 1 document, 5 tokens; 1 row, 6.2 % full"));
  for (int64_t batch = 0; batch < 5; ++batch) {
    int from_file = 0;
    data::Batch rows = data.training(batch);
    for (int row = 0; row < 4; ++row) from_file += rows["tokens"][row * 64] == 7;
    EXPECT_EQ(from_file, 1);
  }
}

// The texts of all rows of some batches, one document in a row.
std::multiset<std::string> texts_of(const data::BatchSource& source, int64_t batches,
                                    int64_t length) {
  std::multiset<std::string> texts;
  for (int64_t i = 0; i < batches; ++i) {
    data::Batch batch = source(i);
    const int64_t rows = std::ssize(batch["tokens"]) / length;
    for (int64_t row = 0; row < rows; ++row) {
      std::string text;
      for (int64_t k = 0; k < length; ++k)
        text += std::to_string(batch["tokens"][static_cast<size_t>(row * length + k)]) + " ";
      texts.insert(text);
    }
  }
  return texts;
}

// Records of texts, all different.
std::string lines(int first, int end) {
  std::string text;
  for (int i = first; i < end; ++i)
    text += R"({"text": "the boats )" + std::to_string(i) + " wait\"}\n";
  return text;
}

// One epoch and a half of two files, whose last step has a row of five.
TEST_F(TrainingDataTest, EpochsEndWithinAStep) {
  const std::string a = folder_.write("a.jsonl", lines(0, 9)).string(),
                    b = folder_.write("b.jsonl", lines(9, 14)).string();
  const Config read = config(
      {"dataset_path=" + a + "," + b, "packing=false", "num_epoch=1.5", "per_device_batch_size=5"});
  std::string said;
  const TrainingData data = open_data(read, shape_of(read), [&](const std::string& line) {
    if (line.find("epochs") != line.npos) said = line;
  });
  EXPECT_EQ(data.steps, 5);
  EXPECT_EQ(said, "5 steps of 5 rows are 1.5 epochs, 1 row in the last");
  std::multiset<std::string> texts = texts_of(data.training, 5, 64);
  EXPECT_EQ(texts.size(), 25u);
  std::erase_if(texts, [](const std::string& text) { return text.starts_with("0 0 0 "); });
  EXPECT_EQ(texts.size(), 21u);
  const std::set<std::string> all(texts.begin(), texts.end());
  EXPECT_EQ(all.size(), 14u);
  for (const std::string& text : all) EXPECT_LE(texts.count(text), 2u);
  EXPECT_THAT(message_of<ConfigError>([&] {
                open_silently(config({"dataset_path=" + a + ":1," + b + ":1", "num_epoch=1"}));
              }),
              HasSubstr("num_epoch: found 1, expected 0 with weights in dataset_path"));
}

// Each document is in one of the two, equal ones in the same, wherever they stand.
TEST_F(TrainingDataTest, HoldsOutAPartByWhatDocumentsHold) {
  folder_.write("in_two.a.jsonl", lines(40, 90));
  folder_.write("in_two.b.jsonl", lines(0, 40));
  const std::string one = folder_.write("one.jsonl", lines(0, 90)).string(),
                    two = (folder_ / "in_two.*.jsonl").string();
  struct Parts {
    std::multiset<std::string> trained, held_out;
  };
  auto parts = [&](const std::string& path, const char* fraction) {
    const Config read = config({"dataset_path=" + path, "packing=false", "per_device_batch_size=1",
                                std::string("eval_fraction=") + fraction});
    const TrainingData data = open_silently(read);
    const int64_t held = data.validation.at(0).count;
    return Parts{texts_of(data.training, 90 - held, 64),
                 texts_of(data.validation[0].batches, held, 64)};
  };
  const Parts of_one = parts(one, "0.2"), of_two = parts(two, "0.2");
  EXPECT_EQ(of_one.trained, of_two.trained);
  EXPECT_EQ(of_one.held_out, of_two.held_out);
  EXPECT_GT(of_one.held_out.size(), 8u);
  EXPECT_LT(of_one.held_out.size(), 30u);
  std::multiset<std::string> all = of_one.trained;
  all.insert(of_one.held_out.begin(), of_one.held_out.end());
  EXPECT_EQ(all.size(), 90u);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 90u);
  // More hold out more, and what was held out stays so.
  const Parts of_more = parts(one, "0.5");
  EXPECT_TRUE(std::ranges::includes(of_more.held_out, of_one.held_out));
  EXPECT_GT(of_more.held_out.size(), of_one.held_out.size());
  for (const char* wrong : {"1e-9", "0.9999"})
    EXPECT_THAT(message_of<DataError>([&] { parts(one, wrong); }),
                HasSubstr(std::string(wrong) == "1e-9" ? "holds out none of the documents"
                                                       : "all its documents are held out"));
}

// Everything that a batch of text holds.
std::vector<int32_t> values(const data::Batch& batch) {
  std::vector<int32_t> all;
  for (const char* input : {data::kTokens, data::kTargets, data::kPositions, data::kSegments})
    all.insert(all.end(), batch[input].begin(), batch[input].end());
  return all;
}

class StreamedData : public TrainingDataTest {
 protected:
  // Of rows of one text each.
  Config streamed(const std::string& paths, const std::vector<std::string>& more) const {
    std::vector<std::string> all{"dataset_path=" + paths, "packing=false",
                                 "per_device_batch_size=1"};
    all.insert(all.end(), more.begin(), more.end());
    return config(all);
  }

  // Noting what is said.
  TrainingData open(const Config& read) {
    return open_data(read, shape_of(read), [this](const std::string& line) {
      std::lock_guard lock(mutex_);
      said_.push_back(line);
    });
  }

  // Files that were read, of those that said so since this was asked.
  std::set<std::string> files_read() {
    std::lock_guard lock(mutex_);
    std::set<std::string> files;
    for (const std::string& line : said_)
      if (const size_t at = line.find(": reading it"); at != line.npos)
        files.insert(std::filesystem::path(line.substr(0, at)).filename());
    said_.clear();
    return files;
  }

  std::vector<std::string> said() {
    std::lock_guard lock(mutex_);
    return said_;
  }

  std::filesystem::path cache() const { return folder_ / "runs" / kTokensFolder; }
  size_t cached() const {
    using Iterator = std::filesystem::directory_iterator;
    return static_cast<size_t>(std::distance(Iterator(cache()), Iterator()));
  }

  std::mutex mutex_;
  std::vector<std::string> said_;
};

// Whatever the files are, with and without packing, and in streams of text.
TEST_F(StreamedData, HasEachRowOnceAnEpoch) {
  const std::string a = folder_.write("a.jsonl", lines(0, 9)).string(), b = write_pairs("b.jsonl"),
                    text = folder_.write("c.txt", "One boat.\n\nTwo boats.\n").string();
  data::Tokenizer tokenizer(kTokenizers + "sp_bpe");
  const std::vector<std::filesystem::path> made_of{folder_.write("d.jsonl", lines(20, 25))};
  data::tokenize_files(tokenizer, made_of, folder_ / "d.tokens");
  const std::string paths = a + "," + b + "," + text + "," + (folder_ / "d.tokens").string();
  const std::string plain = a + "," + text;
  for (const auto& [files, settings] :
       {std::pair{paths, std::vector<std::string>{}},
        {paths, {"packing=true"}},
        {plain, {"dataset_type=tokens", "max_target_length=8", "packing=true"}}}) {
    const Config whole = streamed(files, settings);
    const TrainingData all = open_silently(whole);
    std::vector<std::string> epoch = settings;
    epoch.push_back("num_epoch=1");
    const int64_t count = open_silently(streamed(files, epoch)).steps;
    ASSERT_GT(count, 5);
    const std::multiset<std::string> expected =
        texts_of(all.training, 2 * count, whole.max_target_length);
    for (const char* window : {"1", "5", "1000"}) {
      std::vector<std::string> in_windows = settings;
      in_windows.push_back(std::string("shuffle_window=") + window);
      const TrainingData streams = open_silently(streamed(files, in_windows));
      EXPECT_EQ(texts_of(streams.training, 2 * count, whole.max_target_length), expected) << window;
    }
  }
}

// A later file may be broken: what is before it is trained on, and can be gone on from.
TEST_F(StreamedData, BeginsBeforeLaterFilesAreRead) {
  const std::string a = folder_.write("a.jsonl", lines(0, 4)).string(),
                    b = folder_.write("b.jsonl", lines(4, 8)).string(),
                    c = folder_.write("c.jsonl", lines(8, 10) + "broken\n" + lines(10, 12))
                            .string(),
                    d = folder_.write("d.jsonl", lines(12, 16)).string(),
                    paths = a + "," + b + "," + c + "," + d;
  std::vector<data::ShardRecord> records;
  std::vector<std::string> identity;
  {
    const TrainingData data = open(streamed(paths, {"shuffle_window=1"}));
    EXPECT_EQ(said(), std::vector<std::string>{
                          "1 step of 1 row, from 4 files one after the other, as they stand"});
    EXPECT_FALSE(std::filesystem::exists(cache()));
    texts_of(data.training, 4, 64);
    EXPECT_FALSE(files_read().contains("d.jsonl"));
    texts_of(data.training, 8, 64);
    EXPECT_EQ(message_of<DataError>([&] { data.training(8); }),
              "command line dataset_path: " + c + ":3: no valid JSON at byte 1: found \"b\"");
    EXPECT_NO_THROW(data.training(7));
    records = shard_records(data);
    identity = data.identity;
  }
  EXPECT_EQ(records.size(), 2u);
  const TrainingData data = open(streamed(paths, {"shuffle_window=1", "skip_bad_lines=true"}));
  EXPECT_EQ(data.identity, identity);
  data.streams[0]->restore(records);
  files_read();
  data.training(8);
  EXPECT_FALSE(files_read().contains("b.jsonl"));
  EXPECT_EQ(values(data.training(12)), values(data.training(28)));
  EXPECT_EQ(shard_records(data)[2].rows, 4);
}

// Bit for bit, though tokens of what was passed are gone, and not made again.
TEST_F(StreamedData, GoesOnWithoutTheTokensOfPassedFiles) {
  constexpr int kFiles = 20, kRows = 5, kAll = kFiles * kRows;
  for (int i = 0; i < kFiles; ++i)
    folder_.write("shard-" + std::to_string(100 + i) + ".jsonl", lines(i * kRows, (i + 1) * kRows));
  const Config read =
      streamed((folder_ / "shard-*.jsonl").string(), {"shuffle_window=4", "keep_tokens=false"});
  const TrainingData straight = open_silently(read);
  std::vector<std::vector<int32_t>> expected;
  for (int64_t i = 0; i < 2 * kAll; ++i) {
    expected.push_back(values(straight.training(i)));
    // A window is of two files at most: two windows, as many files ahead, one more, and a lock.
    ASSERT_LE(cached(), 8u) << i;
  }
  for (const int64_t place : {37, kAll + 60}) {
    std::vector<data::ShardRecord> records;
    {
      const TrainingData stopped = open_silently(read);
      for (int64_t i = 0; i < place; ++i) stopped.training(i);
      records = shard_records(stopped);
    }
    EXPECT_EQ(std::ssize(records) == kFiles, place > kAll);
    std::filesystem::remove_all(cache());
    files_read();
    const TrainingData resumed = open(read);
    EXPECT_EQ(resumed.identity, straight.identity);
    resumed.streams[0]->restore(records);
    EXPECT_EQ(values(resumed.training(place)), expected[static_cast<size_t>(place)]);
    EXPECT_LE(files_read().size(), 4u);
    for (int64_t i = place; i < 2 * kAll; ++i)
      ASSERT_EQ(values(resumed.training(i)), expected[static_cast<size_t>(i)]) << i;
  }
}

// Before it is read, too.
TEST_F(StreamedData, KnowsAFileThatWasChanged) {
  const std::string a = folder_.write("a.jsonl", lines(0, 4)).string(),
                    b = folder_.write("b.jsonl", lines(4, 8)).string();
  auto identity = [&](const std::string& paths) {
    return open_silently(streamed(paths, {"shuffle_window=3"})).identity;
  };
  const std::vector<std::string> before = identity(a + "," + b);
  ASSERT_EQ(before.size(), 2u);
  EXPECT_NE(identity(a + ":1," + b + ":2"), identity(a + ":1," + b + ":3"));
  folder_.write("b.jsonl", lines(4, 7) + lines(9, 10));
  const std::vector<std::string> after = identity(a + "," + b);
  EXPECT_EQ(after[0], before[0]);
  EXPECT_NE(after[1], before[1]);
}

TEST_F(StreamedData, LeavesOutFilesWithoutRows) {
  const std::string
      a = folder_.write("a.jsonl", lines(0, 3)).string(),
      empty = folder_.write("b.jsonl", "").string(),
      long_text =
          folder_.write("c.jsonl", R"({"text": "One )" + std::string(900, 'x') + "\"}\n").string();
  const TrainingData data = open(streamed(a + "," + empty + "," + long_text,
                                          {"shuffle_window=1", "excess_length_strategy=skip"}));
  EXPECT_EQ(values(data.training(2)), values(data.training(5)));
  const std::vector<std::string> lines = said();
  for (const std::string& expected :
       {"command line dataset_path: " + empty + ": found no text to learn; left out",
        "command line dataset_path: " + long_text + ": found nothing to train on in 1 document: "})
    EXPECT_TRUE(std::ranges::any_of(lines, [&](const std::string& line) {
      return line.starts_with(expected);
    })) << expected;
  EXPECT_THAT(message_of<DataError>(
                  [&] { open_silently(streamed(empty, {"shuffle_window=1"})).training(0); }),
              HasSubstr("found nothing to train on in any of 1 files"));
}

// Each entry by itself, in its share.
TEST_F(StreamedData, IsMixedByWeights) {
  folder_.write("a1.jsonl", lines(0, 3));
  folder_.write("a2.jsonl", lines(3, 6));
  const std::string a = (folder_ / "a?.jsonl").string(),
                    b = folder_.write("b.jsonl", lines(50, 52)).string();
  const TrainingData data = open_silently(
      streamed(a + ":0.75," + b + ":0.25", {"shuffle_window=2", "per_device_batch_size=4"}));
  const std::multiset<std::string> of_b =
      texts_of(open_silently(streamed(b, {"shuffle_window=1"})).training, 2, 64);
  for (int64_t batch = 0; batch < 6; ++batch)
    EXPECT_EQ(std::ranges::count_if(texts_of([&](int64_t) { return data.training(batch); }, 1, 64),
                                    [&](const std::string& text) { return of_b.contains(text); }),
              1);
  EXPECT_EQ(shard_records(data).size(), 3u);
  EXPECT_EQ(shard_records(data)[2].rows, 2);
}

TEST_F(TrainingDataTest, PlainTextInWindowsIsAsBefore) {
  std::string text = folder_.write("b.txt", "One boat.\n\nTwo boats wait.\n").string();
  Config windows = config({"dataset_type=tokens", "dataset_path=" + text,
                           "eval_dataset_path=" + text, "max_target_length=4"});
  EXPECT_FALSE(decoder_config(windows, models::Target::cpu).segments);
  TrainingData data = open_silently(windows);
  data::Tokenizer tokenizer(kTokenizers + "sp_bpe");
  std::vector<int32_t> stream;
  for (const char* document : {"One boat.", "Two boats wait."}) {
    stream.push_back(tokenizer.bos_id());
    for (int32_t token : tokenizer.encode(document)) stream.push_back(token);
    stream.push_back(tokenizer.eos_id());
  }
  data::Batch batch = data.validation.at(0).batches(0);
  size_t targets = std::min<size_t>(stream.size() - 1, 12);
  for (size_t i = 0; i < targets; ++i) {
    EXPECT_EQ(batch["tokens"][i], stream[i]);
    EXPECT_EQ(batch["targets"][i], stream[i + 1]);
    EXPECT_EQ(batch["positions"][i], static_cast<int32_t>(i % 4));
  }
  // All rows of 4 targets in batches of 3, or as many batches as are asked for.
  const auto all = static_cast<int64_t>((stream.size() - 1 + 11) / 12);
  ASSERT_GT(all, 1);
  EXPECT_EQ(data.validation[0].count, all);
  for (int64_t steps : {int64_t{1}, all + 1}) {
    windows.eval_steps = steps;
    EXPECT_EQ(open_silently(windows).validation.at(0).count, std::min(steps, all));
  }
}

TEST_F(TrainingDataTest, TheSampleBeginsAsDocumentsDo) {
  data::Tokenizer tokenizer(kTokenizers + "sp_bpe");
  std::string pairs = write_pairs("a.jsonl");
  std::string text = folder_.write("b.txt", "One boat.\n\nTwo boats wait.\n").string();
  std::vector<int32_t> words = tokenizer.encode("A ship");
  ASSERT_GE(tokenizer.bos_id(), 0);
  data::TokenFileWriter writer(folder_ / "c.tokens", tokenizer.vocab_size(),
                               tokenizer.fingerprint());
  writer.append(std::vector<int32_t>{7, 7, 7, 7, 7});
  writer.finish();
  const std::string without = (folder_ / "c.tokens").string();
  for (auto [path, opening] : {std::pair{pairs, tokenizer.bos_id()},
                               {text, tokenizer.bos_id()},
                               {without, tokenizer.eos_id()}})
    for (const char* window : {"shuffle_window=4", "shuffle_window=0"}) {
      std::vector<int32_t> prompt =
          open_silently(
              config({"dataset_path=" + path, window, "sample_prompt=A ship", "sample_tokens=5"}))
              .sample_prompt.tokens;
      ASSERT_FALSE(prompt.empty());
      EXPECT_EQ(prompt.front(), opening) << path;
      EXPECT_EQ(std::vector(prompt.begin() + 1, prompt.end()), words);
    }
  // It ends with what the weights' folder says, too.
  folder_.write("generation_config.json", R"({"eos_token_id": [5, 9]})");
  Config tuned = config({"dataset_path=" + text, "sample_prompt=A ship", "sample_tokens=5"});
  tuned.load_parameters_path = (folder_ / "").string();
  EXPECT_EQ(open_silently(tuned).sample_prompt.end_tokens,
            (std::vector<int32_t>{tokenizer.eos_id(), 5, 9}));
}

TEST_F(TrainingDataTest, PromptsOfAFileBeginAsTheSampleDoes) {
  const std::string pairs = write_pairs("a.jsonl");
  const auto open = [&](const std::filesystem::path& prompts,
                        const std::vector<std::string>& more = {}) {
    std::vector<std::string> all{"dataset_path=" + pairs, "sample_prompt=A ship", "sample_tokens=5",
                                 "eval_prompts_path=" + prompts.string()};
    all.insert(all.end(), more.begin(), more.end());
    return open_silently(config(all));
  };
  const TrainingData data = open(folder_.write("p.txt", "A ship\n\nWait\n"));
  ASSERT_EQ(data.eval_prompts.size(), 2u);
  EXPECT_EQ(data.eval_prompts[0].prompt.tokens, data.sample_prompt.tokens);
  EXPECT_EQ(data.eval_prompts[0].prompt.end_tokens, data.sample_prompt.end_tokens);
  EXPECT_EQ(data.eval_prompts[1].record.json().dump(), R"({"prompt":"Wait"})");

  const std::string chat = write_chat("good.jsonl");
  const std::vector<std::string> templated{"tokenizer_path=" + kTokenizers + "bytelevel_bpe_qwen",
                                           "dataset_path=" + chat, "chat_template=chatml",
                                           "sample_prompt=Where?"};
  const TrainingData asked = open(chat, templated);
  ASSERT_EQ(asked.eval_prompts.size(), 1u);
  EXPECT_EQ(asked.eval_prompts[0].prompt.tokens, asked.sample_prompt.tokens);

  const auto refusal = [&](const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_.write(name, text);
    const std::string message = message_of<ConfigError>([&] { open(path); });
    const std::string start = "command line eval_prompts_path: " + path.string() + ":";
    EXPECT_TRUE(message.starts_with(start)) << message;
    return message.substr(std::min(message.size(), start.size()));
  };
  EXPECT_EQ(refusal("none.jsonl", "\n"), " found no prompt, expected some");
  EXPECT_EQ(refusal("chat.jsonl", R"({"messages": [{"role": "user", "content": "Where?"}]})"),
            "1: found messages, expected a prompt that is a text: no chat template has written "
            "what is trained on");
  std::string boats;
  for (int i = 0; i < 64; ++i) boats += " boats";
  EXPECT_THAT(refusal("long.jsonl", "{\"prompt\": \"a\"}\n{\"prompt\": \"" + boats + "\"}"),
              testing::AllOf(HasSubstr("2: found "),
                             HasSubstr("tokens, expected at most 64, for max_target_length = 64")));
  EXPECT_THAT(message_of<DataError>([&] { open(folder_.write("x.jsonl", "{}")); }),
              HasSubstr("x.jsonl:1: expected prompt or messages, found neither"));
}

TEST_F(TrainingDataTest, QuestionsOfAFileAreRowsToScore) {
  const data::Tokenizer tokenizer(kTokenizers + "sp_bpe");
  Config read = config({"dataset_path=" + write_pairs("a.jsonl"), "max_target_length=16"});
  const auto questions = [&](const std::string& name, const std::string& text) {
    read.eval_choices_path = folder_.write(name, text);
    return read_eval_choices(read, tokenizer.bos_id(), tokenizer, 4);
  };
  const std::string two =
      R"({"prompt": "The boats", "choices": [" wait", " the boats wait", " caf\u00e9"], "answer": 2})"
      "\n"
      R"({"prompt": "the boats the boats the boats the boats the boats the boats the boats the boats the boats", "choices": ["a", "b"],)"
      R"( "answer": "b"})";
  const EvalChoices found = questions("a.jsonl", two);
  ASSERT_EQ(found.questions.size(), 2u);
  EXPECT_EQ(found.questions[0].choices.size(), 3u);
  EXPECT_EQ(found.questions[0].answer, 2u);
  EXPECT_EQ(found.questions[0].choices[2].characters, 4);
  EXPECT_EQ(found.questions[0].choices[2].bytes, 5);
  EXPECT_EQ(found.questions[1].answer, 1u);
  EXPECT_EQ(found.cut, 2);
  ASSERT_EQ(found.rows->places().size(), 5u);
  EXPECT_LT(found.rows->count(), 5);
  EXPECT_THAT(message_of<ConfigError>([&] { questions("none.jsonl", "\n"); }),
              HasSubstr("none.jsonl: found no question, expected some"));
  EXPECT_THAT(message_of<DataError>([&] { questions("bad.jsonl", "{}"); }),
              HasSubstr("bad.jsonl:1: expected prompt, choices and answer, found no prompt"));
  std::string boats;
  for (int i = 0; i < 20; ++i) boats += " boats";
  EXPECT_THAT(
      message_of<DataError>([&] {
        questions("long.jsonl",
                  R"({"prompt": "a", "answer": 0, "choices": ["b", ")" + boats + "\"]}");
      }),
      testing::AllOf(HasSubstr("eval_choices_path: "), HasSubstr("long.jsonl:1: choices[1]"),
                     HasSubstr("tokens, expected at most 16, those of a row")));
  read.model.vocabulary = 3;
  EXPECT_THAT(message_of<ConfigError>([&] { questions("b.jsonl", two); }),
              HasSubstr("expected ids below 3, the vocab_size"));
}

TEST_F(TrainingDataTest, ATemplateIsForMessages) {
  const std::string tokenizer = "tokenizer_path=" + kTokenizers + "bytelevel_bpe_qwen";
  auto open = [&](const std::string& path, const char* window = "shuffle_window=0") {
    return open_silently(config({tokenizer, "dataset_path=" + path, "chat_template=chatml", window,
                                 "sample_prompt=Where are we?", "sample_tokens=5"}));
  };
  const std::string pairs = write_pairs("pairs.jsonl");
  for (const char* window : {"shuffle_window=0", "shuffle_window=9"})
    EXPECT_EQ(message_of<ConfigError>([&] { open(pairs, window); }),
              "command line chat_template: found chatml, expected none: no file has messages, and "
              "other text is trained on as it stands");

  const data::Tokenizer known(kTokenizers + "bytelevel_bpe_qwen");
  const std::string good = write_chat("good.jsonl"), tokens = (folder_ / "chat.tokens").string();
  data::TokenizeOptions options{.encode = {.chat_template = data::ChatTemplate::named("chatml")}};
  data::tokenize_files(known, {{std::filesystem::path(good)}}, tokens, options);
  // A token file may be of messages, and what is read beside them may be anything.
  for (const std::string& paths : {good, pairs + "," + good, tokens})
    for (const char* window : {"shuffle_window=0", "shuffle_window=9"}) {
      const Prompt prompt = open(paths, window).sample_prompt;
      EXPECT_EQ(known.decode(prompt.tokens, data::SpecialTokens::keep),
                "<|im_start|>user\nWhere are we?<|im_end|>\n<|im_start|>assistant\n");
      EXPECT_EQ(prompt.end_tokens, (std::vector{*known.id_of("<|im_end|>"), known.eos_id()}));
    }
}

// That of the tokenizer's folder, unless something else is said, where anything is to be written.
TEST_F(TrainingDataTest, TheFoldersTemplateWritesConversations) {
  const std::filesystem::path file = folder_.write(
      "tokenizer.json", data::read_file(kTokenizers + "bytelevel_bpe_qwen/tokenizer.json"));
  folder_.write(
      "chat_template.jinja",
      "{% for m in messages %}<|im_start|>{{ m.role }} {{ x }}\n{{ m.content }}<|im_end|>"
      "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant {{ x }}\n{% endif %}");
  const data::Tokenizer tokenizer(file);
  std::vector<std::string> lines;
  auto first_text = [&](const std::string& path, std::vector<std::string> settings = {}) {
    settings.insert(settings.end(), {"tokenizer_path=" + file.string(), "dataset_path=" + path});
    const Config read = config(settings);
    lines.clear();
    const TrainingData opened =
        open_data(read, shape_of(read), [&](const std::string& line) { lines.push_back(line); });
    const data::TokenFile& tokens = *opened.files.front();
    std::vector<int32_t> ids(static_cast<size_t>(tokens.document(0).count));
    tokens.read(tokens.document(0).first, ids);
    EXPECT_EQ(opened.chat_template.has_value(),
              tokenizer.decode(ids, data::SpecialTokens::keep).starts_with("<|im_start|>"));
    return tokenizer.decode(ids, data::SpecialTokens::keep);
  };
  const std::string chat = write_chat("chat.jsonl"), pairs = write_pairs("pairs.jsonl");
  EXPECT_EQ(first_text(chat, {"chat_template_kwargs=x=7"}),
            "<|im_start|>user 7\nWhere?<|im_end|><|im_start|>assistant 7\nHere.<|im_end|>");
  EXPECT_THAT(lines.front(), HasSubstr("reading it (messages, by the chat template "));
  EXPECT_EQ(first_text(chat, {"chat_template=chatml"}),
            "<|im_start|>user\nWhere?<|im_end|>\n<|im_start|>assistant\nHere.<|im_end|>\n");
  EXPECT_NE(first_text(pairs), "");
  const std::string asked =
      folder_.write("asked.jsonl", R"({"question": "a", "answer": "b"})").string();
  EXPECT_EQ(first_text(asked), "<|im_start|>user \na<|im_end|><|im_start|>assistant \nb<|im_end|>");
  EXPECT_THAT(first_text(asked, {"chat_template=none", "max_target_length=256"}),
              HasSubstr("### Instruction:\na\n"));
  EXPECT_EQ(first_text(chat, {"train_data_columns=messages", "train_on=all"}), first_text(chat));
  // A template that nothing is written by may be of any kind.
  folder_.write("chat_template.jinja", "{% none %}");
  EXPECT_NE(first_text(pairs), "");
  EXPECT_THAT(message_of<DataError>([&] { first_text(chat); }),
              HasSubstr("chat_template.jinja: line 1: "));
  std::filesystem::remove(folder_ / "chat_template.jinja");
  EXPECT_THAT(message_of<DataError>([&] { first_text(chat); }),
              HasSubstr("the tokenizer's folder has none without a name, so name one (chat_"));
}

// By which a run that goes on knows its data.
TEST_F(TrainingDataTest, IdentityIsOfTokensAndWeights) {
  auto identity = [&](const std::string& paths) {
    return open_silently(config({"dataset_path=" + paths})).identity;
  };
  const std::string a = folder_.write("a.txt", "One boat.\n").string(),
                    copy = folder_.write("b.txt", "One boat.\n").string(),
                    other = folder_.write("c.txt", "Two boats.\n").string();
  EXPECT_EQ(identity(a), identity(copy));
  EXPECT_NE(identity(a), identity(other));
  EXPECT_NE(identity(a + "," + other), identity(other + "," + a));
  EXPECT_NE(identity(a + ":0.5," + other + ":0.5"), identity(a + ":0.4," + other + ":0.6"));
}

TEST_F(TrainingDataTest, SegmentsArePlannedWhereDocumentsArePacked) {
  std::string path = "dataset_path=x.tokens";
  auto batch_bytes = [&](const std::string& setting) {
    TrainingPlans plans = plan_training({config({path, setting}), models::Target::cpu});
    return analyze(plans.all())[offload::MemoryKind::pinned_host].argument_bytes;
  };
  EXPECT_TRUE(decoder_config(config({path}), models::Target::cpu).segments);
  EXPECT_EQ(batch_bytes("packing=true") - batch_bytes("packing=false"), 3 * 64 * 4);
  EXPECT_EQ(batch_bytes("dataset_type=tokens"), batch_bytes("packing=false"));
}

TEST_F(TrainingDataTest, ReadsPairsWhereThesePairsOrTheirAnswersAreCounted) {
  std::string lines;
  for (int i = 0; i < 40; ++i)
    lines += fmt::format(R"({{"prompt": "boat {}", "chosen": " waits", "rejected": " the {}"}})"
                         "\n",
                         i / 2, i);
  const std::string pairs = folder_.write("pairs.jsonl", lines).string();
  const std::string one =
      folder_
          .write("one.jsonl", R"({"prompt": "a", "completion": " the", "label": true})"
                              "\n")
          .string();
  const std::string texts = write_pairs("texts.jsonl");
  std::vector<std::string> said;
  auto open = [&](std::vector<std::string> overrides, const std::string& objective) {
    overrides.push_back("objective=" + objective);
    const Config read = config(overrides);
    data::BatchSchema schema(shape_of(read));
    schema.counted = counted(read);
    said.clear();
    return open_data(read, schema, [&](const std::string& line) { said.push_back(line); });
  };
  TrainingData opened = open({"dataset_path=" + pairs, "eval_fraction=0.3", "num_epoch=1"}, "dpo");
  EXPECT_THAT(said[0],
              testing::StartsWith(pairs + ": reading it (prompt, chosen and rejected), tokenized"));
  EXPECT_THAT(said[1], testing::ContainsRegex("pairs.jsonl: 40 pairs, [0-9]+ tokens, of which "
                                              "[0-9]*[02468] are held out; [0-9]+ rows?, "));
  int64_t trained = 0, held_out = 0;
  for (int64_t step = 0; step < opened.steps; ++step)
    trained += opened.training(step).total_weights;
  for (int64_t batch = 0; batch < opened.validation[0].count; ++batch)
    held_out += opened.validation[0].batches(batch).total_weights;
  EXPECT_EQ(trained + held_out, 40);
  EXPECT_GT(held_out, 0);
  EXPECT_FALSE(opened.unigram_loss);
  EXPECT_FALSE(opened.training_of_others);

  opened = open({"dataset_path=" + pairs + "," + one, "num_epoch=1"}, "kto");
  EXPECT_THAT(said, testing::Contains(HasSubstr("one.jsonl: 1 pair, 5 tokens, 1 of them one answer "
                                                "alone; 1 row")));
  int64_t own = 0;
  for (int64_t step = 0; step < opened.steps; ++step) {
    own += opened.training(step).total_weights;
    EXPECT_EQ(opened.training_of_others(step)["segments"].size(), 3u * 64);
  }
  EXPECT_EQ(own, 81);
  EXPECT_THAT(
      message_of<DataError>([&] { open({"dataset_path=" + one}, "dpo"); }),
      HasSubstr("one.jsonl: found 1 answer without another to the same prompt, expected pairs of a "
                "chosen and a rejected one; nearest: objective: kto"));

  const data::Tokenizer tokenizer(kTokenizers + "sp_bpe");
  const std::vector<std::filesystem::path> inputs{pairs}, plain{texts};
  data::tokenize_files(tokenizer, inputs, folder_ / "pairs.tokens",
                       {.kind = data::ExampleKind::preference});
  data::tokenize_files(tokenizer, plain, folder_ / "texts.tokens");
  auto refusal = [&](const std::string& name, const std::string& objective) {
    return message_of<DataError>(
        [&] { open({"dataset_path=" + (folder_ / name).string()}, objective); });
  };
  EXPECT_NO_THROW(open({"dataset_path=" + (folder_ / "pairs.tokens").string()}, "dpo"));
  EXPECT_THAT(refusal("pairs.tokens", "sft"),
              HasSubstr("pairs.tokens: found pairs of answers, expected documents; nearest: "
                        "objective: dpo"));
  EXPECT_THAT(refusal("texts.tokens", "dpo"),
              HasSubstr("texts.tokens: found documents, expected pairs of answers; nearest: "
                        "tokenize --preference"));
  EXPECT_THAT(refusal("pairs.jsonl", "sft"), HasSubstr("pairs.jsonl:1: expected text, "));
  for (const auto& [setting, expected] :
       {std::pair{"dataset_type=tokens", "found tokens, expected documents with objective"},
        {"train_on=all", "found all, expected assistant or last_assistant"},
        {"excess_length_strategy=split", "found split, expected truncate or skip"}})
    EXPECT_THAT(message_of<ConfigError>([&] {
                  open({"dataset_path=" + pairs, setting}, "dpo");
                }),
                HasSubstr(expected));
}

TEST_F(TrainingDataTest, RefusesFilesThatDoNotBelongTogether) {
  std::string pairs = write_pairs("a.jsonl");
  auto file = [&](const char* name, int32_t vocab_size, uint64_t hash) {
    data::TokenFileWriter writer(folder_ / name, vocab_size, hash);
    writer.append(std::vector<int32_t>(100, 1));
    writer.finish();
    return (folder_ / name).string();
  };
  auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_THAT(message, HasSubstr(part));
  };
  std::string other = file("other.tokens", 100, 1);
  expect(message_of<ConfigError>([&] { open_silently(config({"dataset_path=" + other})); }),
         "command line dataset_path: " + other +
             ": made by a tokenizer whose model file has the hash 0000000000000001");
  expect(message_of<DataError>([&] {
           open_silently(config({"dataset_path=" + pairs, "tokenizer_path=" + pairs}));
         }),
         "command line tokenizer_path: " + pairs);
  std::string another = file("another.tokens", 100, 2);
  expect(message_of<ConfigError>([&] {
           open_silently(config({"dataset_path=" + other + "," + another, "tokenizer_path="}));
         }),
         "another.tokens: made by a tokenizer");
  std::string large = file("large.tokens", 5000, 1);
  expect(message_of<ConfigError>([&] {
           open_silently(config({"dataset_path=" + large, "tokenizer_path="}));
         }),
         "command line dataset_path: ");
  expect(message_of<ConfigError>([&] {
           open_silently(config({"dataset_path=" + pairs, "vocab_size=99"}));
         }),
         "nearest: vocab_size=");
  expect(message_of<ConfigError>([&] {
           open_silently(config({"dataset_path=" + pairs, "dataset_type=tokens"}));
         }),
         "command line dataset_type: found tokens, but " + pairs +
             " has prompts, which are not trained on; expected dataset_type=documents");
}

// Gemma 3's smallest models have no row for the last token of their tokenizer.
TEST_F(TrainingDataTest, SpecialTokensMayBeBeyondTheModelUntilTheyOccur) {
  nlohmann::json tokenizer =
      nlohmann::json::parse(std::ifstream(kTokenizers + "bytelevel_bpe_llama3/tokenizer.json"));
  ASSERT_EQ(tokenizer["added_tokens"].back()["id"], 708);
  tokenizer["added_tokens"].back()["special"] = true;
  const std::string file = folder_.write("tokenizer.json", tokenizer.dump()).string();
  auto open = [&](const std::string& text, const std::string& vocab_size) {
    const std::string path = folder_.write(text.substr(0, 3) + ".jsonl", text).string();
    open_silently(config({"dataset_path=" + path, "tokenizer_path=" + file, vocab_size}));
  };
  const std::string plain = "{\"text\": \"the boats wait\"}\n",
                    special = "{\"text\":  \"the <tool> waits\"}\n";
  EXPECT_NO_THROW(open(plain, "vocab_size=709"));
  EXPECT_NO_THROW(open(plain, "vocab_size=708"));
  for (const auto& [text, vocab_size, part] :
       {std::tuple{special, "vocab_size=708", "is 708, a special token"},
        {plain, "vocab_size=700", "nearest: vocab_size="}}) {
    const std::string message = message_of<ConfigError>([&] { open(text, vocab_size); });
    EXPECT_THAT(message, HasSubstr(part));
  }
  // However far into a file.
  const data::Tokenizer known(file);
  std::vector<int32_t> tokens((1 << 20) + 1, 1);
  tokens.back() = 708;
  data::TokenFileWriter writer(folder_ / "far.tokens", known.vocab_size(), known.fingerprint());
  writer.append(tokens);
  writer.finish();
  const std::string message = message_of<ConfigError>([&] {
    open_silently(config({"dataset_path=" + (folder_ / "far.tokens").string(),
                          "tokenizer_path=" + file, "vocab_size=708"}));
  });
  EXPECT_THAT(message, HasSubstr("token 1048576 is 708, a special token"));
}

}  // namespace
}  // namespace longshore::trainer
