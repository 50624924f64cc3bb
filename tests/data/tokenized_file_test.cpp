#include "longshore/data/text/tokenized_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <set>
#include <thread>
#include <vector>

#include "longshore/base/error.h"
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
  EXPECT_TRUE(open(path, {.kind = ExampleKind::preference})->has_pairs());
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

TEST_F(TokenizedFile, IsMadeByOneOfSeveral) {
  std::string lines;
  for (int i = 0; i < 2000; ++i) lines += "{\"text\": \"<s>the boats wait\"}\n";
  const auto path = folder_.write("a.jsonl", lines);
  std::atomic<int> times = 0;
  std::barrier together(4);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        together.arrive_and_wait();
        EXPECT_EQ(open(path, {.say = [&](const std::string&) { ++times; }})->document_count(),
                  2000);
      });
  }
  EXPECT_EQ(times, 1);  // where tokenizing says that these texts have bos
  EXPECT_EQ(cached(), 1u);
  const auto tokens = open(path);
  remove_tokenized(tokens->path());
  remove_tokenized(tokens->path());
  EXPECT_EQ(cached(), 0u);
  EXPECT_EQ(tokens->document(1999).count, tokens->document(0).count);
}

TEST_F(TokenizedFile, IsGivenUpOnRequest) {
  const auto path = folder_.write("a.txt", "one");
  std::stop_source source;
  source.request_stop();
  EXPECT_THAT(message_of<Error>([&] { open(path, {.stop = source.get_token()}); }),
              HasSubstr("a.txt: the run ends before it is tokenized"));
  const auto tokens = folder_ / "a.tokens";
  EXPECT_EQ(message_of<Error>([&] {
              tokenize_files(tokenizer_, {&path, 1}, tokens, {.stop = source.get_token()});
            }),
            tokens.string() + ": the end of the run while it was written; nothing is left of it");
  EXPECT_FALSE(std::filesystem::exists(tokens));
}

TEST_F(TokenizedFile, TextsAreToldApartByWhatBecomesOfThem) {
  const std::string lines = "{\"text\": \"one\"}\n";
  const auto path = folder_.write("a.jsonl", lines), same = folder_.write("b.jsonl", lines),
             longer = folder_.write("c.jsonl", lines + lines),
             plain = folder_.write("d.txt", lines);
  const Tokenizer other("tests/goldens/tokenizers/sp_unigram/tokenizer.model");
  auto identity = [&](const std::filesystem::path& text, const TokenizeOptions& options = {}) {
    return text_identity(text, tokenizer_, options, folder_ / "cache");
  };
  EXPECT_EQ(identity(same), identity(path));
  EXPECT_EQ(identity(path, {.skip_bad_lines = true}), identity(path));
  EXPECT_EQ((std::set{identity(path), identity(longer), identity(plain),
                      identity(path, {.encode = {.train_on = TrainOn::all}}),
                      identity(path, {.columns = {"text"}}),
                      text_identity(path, other, {}, folder_ / "cache")})
                .size(),
            6u);
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
