#include "data/text/tokenized_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

class TokenizedFile : public testing::Test {
 protected:
  std::shared_ptr<const TokenFile> open(const std::filesystem::path& path,
                                        const TokenizeOptions& options = {}) {
    return open_tokenized(path, tokenizer_, options, folder_ / "cache");
  }
  size_t cached() const {
    using Iterator = std::filesystem::directory_iterator;
    return static_cast<size_t>(std::distance(Iterator(folder_ / "cache"), Iterator()));
  }

  TemporaryFolder folder_;
  Tokenizer tokenizer_{"tests/goldens/tokenizers/sp_bpe/tokenizer.model"};
};

TEST_F(TokenizedFile, IsMadeOnceForATextAndItsOptions) {
  const auto path = folder_.write("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  const auto first = open(path);
  EXPECT_EQ(first->document_count(), 2);
  const auto written = std::filesystem::last_write_time(first->path());
  EXPECT_EQ(open(path)->path(), first->path());
  EXPECT_EQ(std::filesystem::last_write_time(first->path()), written);
  EXPECT_EQ(cached(), 1u);

  EXPECT_EQ(open(path, {.skip_bad_lines = true})->document_count(), 2);
  EXPECT_EQ(open(path, {.encode = {.train_on = TrainOn::all}})->document_count(), 2);
  EXPECT_EQ(cached(), 3u);
  folder_.write("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"tow\"}\n");
  EXPECT_NE(open(path)->path(), first->path());
  EXPECT_EQ(cached(), 4u);
  // The same bytes as plain text are one paragraph.
  EXPECT_EQ(open(folder_.write("a.txt", read_file(path)))->document_count(), 1);
  const Tokenizer other("tests/goldens/tokenizers/sp_unigram/tokenizer.model");
  EXPECT_EQ(open_tokenized(path, other, {}, folder_ / "cache")->tokenizer_fingerprint(),
            other.fingerprint());
  EXPECT_EQ(cached(), 6u);
}

TEST_F(TokenizedFile, TellsPreferencesFromTexts) {
  const auto path = folder_.write("a.jsonl", R"({"prompt": "a", "completion": " b", "label": 1})");
  EXPECT_FALSE(open(path)->has_pairs());
  EXPECT_TRUE(open(path, {.preference = true})->has_pairs());
  EXPECT_FALSE(open(path)->has_pairs());
  EXPECT_EQ(cached(), 2u);
}

// Which one that is, tokenizer_config.json says beside the tokenizer.
TEST_F(TokenizedFile, EndsWithTheTokenizersEos) {
  const auto text = folder_.write("a.txt", "one"),
             file = folder_.write(
                 "tokenizer.json",
                 read_file("tests/goldens/tokenizers/bytelevel_bpe_llama3/tokenizer.json"));
  for (const auto& [eos, id] : {std::pair{"<|end_of_text|>", 704}, {"<|eot_id|>", 707}}) {
    folder_.write("tokenizer_config.json", std::string("{\"eos_token\": \"") + eos + "\"}");
    const Tokenizer tokenizer(file);
    const auto tokens = open_tokenized(text, tokenizer, {}, folder_ / "cache");
    int32_t last = -1;
    tokens->read(tokens->token_count() - 1, {&last, 1});
    EXPECT_EQ(last, id);
  }
}

TEST_F(TokenizedFile, LeavesNothingOfABadText) {
  const auto path = folder_.write("a.jsonl", "{\"text\": \"one\"}\n{\"text\": 2}\n");
  EXPECT_THAT(message_of<DataError>([&] { open(path); }),
              HasSubstr("a.jsonl:2: text: expected a string, found 2"));
  EXPECT_EQ(cached(), 0u);
  EXPECT_EQ(open(path, {.skip_bad_lines = true})->skipped_lines(), 1);
  EXPECT_THAT(message_of<DataError>([&] { open(folder_ / "none.txt"); }),
              HasSubstr("none.txt: cannot open"));
}

TEST_F(TokenizedFile, SaysWhatHelpsWhereItIsDamaged) {
  const auto path = folder_.write("a.txt", "one");
  const std::filesystem::path made = open(path)->path();
  std::filesystem::resize_file(made, std::filesystem::file_size(made) - 1);
  const std::string message = message_of<DataError>([&] { open(path); });
  EXPECT_TRUE(message.starts_with(made.string())) << message;
  EXPECT_TRUE(message.ends_with("nearest: remove it, and " + path.string() + " is tokenized again"))
      << message;
  std::filesystem::remove(made);
  EXPECT_EQ(open(path)->path(), made);
}

}  // namespace
}  // namespace longshore::data
