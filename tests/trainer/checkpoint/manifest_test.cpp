#include "longshore/trainer/checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <tuple>

#include "longshore/base/error.h"
#include "longshore/trainer/config/key_values.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;

using data::TemporaryFolder;

Manifest sample() {
  return {.product_version = "1.2.3",
          .step = 12,
          .seed = 7,
          .batches = 24,
          .clipping_norm = 0.1234567890123456,
          .best = BestSoFar{.metric = "validation_loss",
                            .evaluated = 10,
                            .step = 8,
                            .value = 2.8333333333333335,
                            .without_improvement = 1},
          .data = {"abc", "def x 0.5"},
          .shards = {{.shard = 1, .rows = 30, .identity = "012"}},
          .frozen_weights = "",
          .config = {{"learning_rate", "0.001"}, {"run_name", "\"a \\\"b\\\"\""}},
          .files = {{.path = "model/config.json", .bytes = 5, .hash = "00ff"}}};
}

TEST(Manifest, ReadsBackWhatWasWritten) {
  EXPECT_EQ(parse_manifest(manifest_text(sample())), sample());
  Manifest without = sample();
  without.clipping_norm.reset();  // as it is in most, and the next two
  without.best.reset();
  without.shards.clear();
  EXPECT_EQ(parse_manifest(manifest_text(without)), without);
}

TEST(Manifest, RefusesAnyFlippedBitOrOtherLength) {
  const std::string text = manifest_text(sample());
  for (size_t i = 0; i < text.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      EXPECT_THROW(parse_manifest(flipped), DataError) << i << " " << bit;
    }
  for (size_t length = 0; length < text.size(); ++length)
    EXPECT_THROW(parse_manifest(text.substr(0, length)), DataError) << length;
  EXPECT_THROW(parse_manifest(text + "\n"), DataError);
}

// Whoever writes a hash that fits can write anything.
TEST(Manifest, NumbersAreWithinWhatARunCanHave) {
  auto fault = [](auto change) {
    Manifest manifest = sample();
    change(manifest);
    return message_of<DataError>([&] { parse_manifest(manifest_text(manifest)); });
  };
  EXPECT_EQ(fault([](Manifest& m) { m.step = -5; }), "step: found -5, expected 0 to 1000000000");
  EXPECT_EQ(fault([](Manifest& m) { m.step = INT64_MAX; }),
            "step: found 9223372036854775807, expected 0 to 1000000000");
  EXPECT_EQ(fault([](Manifest& m) { m.seed = -1; }),
            "seed: found -1, expected 0 to 9223372036854775807");
  EXPECT_EQ(fault([](Manifest& m) { m.batches = 12 * 65536 + 1; }),
            "batches: found 786433, expected 0 to 786432");
  EXPECT_EQ(fault([](Manifest& m) { m.batches = -1; }), "batches: found -1, expected 0 to 786432");
  EXPECT_EQ(fault([](Manifest& m) { m.clipping_norm = -1; }),
            "clipping_norm: found -1.000000, expected at least 0");
  EXPECT_NE(fault([](Manifest& m) { m.clipping_norm = NAN; }), "");
  EXPECT_EQ(fault([](Manifest& m) { m.best->evaluated = 13; }),
            "best: evaluated: found 13, expected 0 to 12");
  EXPECT_EQ(fault([](Manifest& m) { m.best->step = 11; }),
            "best: step: found 11, expected 0 to 10");
  EXPECT_EQ(fault([](Manifest& m) { m.best->without_improvement = -1; }),
            "best: without_improvement: found -1, expected 0 to 10");
  EXPECT_NE(fault([](Manifest& m) { m.best->value = NAN; }), "");
  EXPECT_EQ(fault([](Manifest& m) { m.shards[0].shard = 2; }),
            "shards: shard: found 2, expected 0 to 1");
  EXPECT_EQ(fault([](Manifest& m) { m.shards[0].rows = -1; }),
            "shards: rows: found -1, expected 0 to 1099511627776");
  EXPECT_EQ(fault([](Manifest& m) { m.files[0].bytes = -1; }),
            "files: model/config.json: bytes: found -1, expected 0 to 9223372036854775807");
}

// As transformers' EarlyStoppingCallback counts.
TEST(BestSoFar, ImprovesByMoreThanTheThreshold) {
  BestSoFar best;
  const auto noted = [&](int64_t steps, double value) {
    const bool is_best = note(best, steps, value, Better::smaller, 0.5);
    return std::tuple(is_best, best.step, best.without_improvement);
  };
  EXPECT_EQ(noted(1, NAN), std::tuple(false, 0, 1));
  EXPECT_EQ(noted(2, INFINITY), std::tuple(false, 0, 2));
  EXPECT_EQ(noted(3, 4), std::tuple(true, 3, 0));
  EXPECT_EQ(noted(3, 1), std::tuple(false, 3, 0));  // it is known
  EXPECT_EQ(noted(4, 4), std::tuple(false, 3, 1));
  EXPECT_EQ(noted(5, 3.75), std::tuple(true, 5, 2));
  EXPECT_EQ(noted(6, 3.25), std::tuple(true, 6, 3));  // by no more than 0.5
  EXPECT_EQ(noted(7, NAN), std::tuple(false, 6, 4));
  EXPECT_EQ(noted(8, 2.5), std::tuple(true, 8, 0));
  EXPECT_EQ(best.value, 2.5);
  EXPECT_FALSE(note(best, 9, 2, Better::larger, 0.5));
  EXPECT_TRUE(note(best, 10, 3, Better::larger, 0.5));
  EXPECT_EQ(best.without_improvement, 2);  // by no more than 0.5
}

// JSON's integers may be larger than ours, and would be others there.
TEST(Manifest, NumbersOfAnySizeAreNamedAsTheyAre) {
  const std::string text = manifest_text(sample());
  for (const std::string key : {"format", "step", "seed", "batches", "shard", "rows", "bytes"}) {
    const size_t at = text.find("\"" + key + "\": ") + key.size() + 4;
    const std::string larger =
        text.substr(0, at) + "9223372036854775808" + text.substr(text.find_first_of(",\n", at));
    EXPECT_EQ(message_of<DataError>([&] { parse_manifest(larger); }),
              key + ": found 9223372036854775808, expected at most 9223372036854775807");
  }
}

TEST(Manifest, NamesFilesOfItsFolderAlone) {
  for (const char* path : {"../b", "/etc/passwd", "model/../../b", "model//b", "model/", ".", ""}) {
    Manifest manifest = sample();
    manifest.files[0].path = path;
    EXPECT_EQ(message_of<DataError>([&] { parse_manifest(manifest_text(manifest)); }),
              "files: found \"" + std::string(path) +
                  "\", expected the path of a file in the checkpoint's folder");
  }
}

// What no run writes is refused before it takes memory or time.
TEST(Manifest, HasItsBounds) {
  TemporaryFolder folder;
  folder.write(kManifestFile, std::string((size_t{4} << 20) + 1, ' '));
  EXPECT_EQ(message_of<DataError>([&] { read_manifest(folder / ""); }),
            (folder / kManifestFile).string() +
                ": found 4194305 bytes, expected at most 4194304: no checkpoint has more");
  EXPECT_EQ(message_of<DataError>([] { parse_manifest(std::string(1 << 20, '[')); }),
            "found values nested deeper than 32, expected less");
  // A key that is looked for among all before it, as ordered objects do, would take minutes.
  std::string keys;
  for (int i = 0; i < 300'000; ++i) keys += "\"" + std::to_string(i) + "\":\"\",";
  std::string text = manifest_text(sample());
  text.insert(text.find("\"learning_rate\""), keys);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(message_of<DataError>([&] { parse_manifest(text); }),
            "config: found 300002 keys, expected at most 4096");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

// The limits are those of the config's keys.
TEST(Manifest, HoldsWhatTheConfigCanAskFor) {
  EXPECT_THAT(expected(*find_key("steps")), HasSubstr("1000000000"))
      << expected(*find_key("steps"));
  EXPECT_THAT(expected(*find_key("gradient_accumulation_steps")), HasSubstr("65536"));
  Manifest most = sample();
  most.step = 1'000'000'000;
  most.batches = most.step * 65536;
  most.shards.clear();
  most.data.resize(10'000, std::string(32, 'f') + " x 0.12345678901234567");
  for (int64_t i = 0; i < 10'000; ++i)
    most.shards.push_back({.shard = i, .rows = 1 << 30, .identity = std::string(32, 'f')});
  EXPECT_LT(manifest_text(most).size(), size_t{3} << 20);
  EXPECT_EQ(parse_manifest(manifest_text(most)), most);
}

TEST(Manifest, ListsItsFilesAndNoticesAnyChange) {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder / "model");
  folder.write("model/a", "first");
  folder.write("b", std::string(100'000, 'x'));
  folder.write(kManifestFile, "not itself");
  Manifest manifest = sample();
  manifest.files = files_of(folder / "");
  ASSERT_EQ(manifest.files.size(), 2u);
  EXPECT_EQ(manifest.files[1].path, "model/a");
  verify_files(folder / "", manifest);

  auto fault = [&] { return message_of<DataError>([&] { verify_files(folder / "", manifest); }); };
  folder.write("model/a", "firsT");
  EXPECT_THAT(fault(), HasSubstr("model/a: found the hash"));
  folder.write("model/a", "firs");
  EXPECT_THAT(fault(), HasSubstr("model/a: found 4 bytes, expected 5"));
  std::filesystem::remove(folder / "model/a");
  EXPECT_THAT(fault(), HasSubstr("expected a file of 5 bytes"));
  folder.write("model/a", "first");
  verify_files(folder / "", manifest);
  folder.write("b", std::string(99'999, 'x') + "y");
  EXPECT_THAT(fault(), HasSubstr("/b: found the hash"));
}

}  // namespace
}  // namespace longshore::trainer
