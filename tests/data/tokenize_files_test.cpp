#include "longshore/data/text/tokenize_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include "longshore/base/error.h"
#include "longshore/data/files/conversion.h"
#include "longshore/data/rows/token_file.h"
#include "longshore/data/text/encode_example.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TokenizeFiles : public testing::Test {
 protected:
  std::vector<int32_t> tokens_of(const std::filesystem::path& path) {
    const TokenFile file(path);
    std::vector<int32_t> tokens(static_cast<size_t>(file.token_count()));
    file.read(0, tokens);
    return tokens;
  }

  TemporaryFolder folder_;
  Tokenizer tokenizer_{"tests/goldens/tokenizers/sp_bpe/tokenizer.model"};
};

TEST_F(TokenizeFiles, WritesEachDocumentBetweenBosAndEosInOrder) {
  // Many chunks' worth, so that several threads are at work.
  std::vector<std::filesystem::path> inputs;
  std::vector<int32_t> expected;
  int64_t document_count = 0;
  for (int file = 0; file < 2; ++file) {
    std::string text;
    for (int i = 0; i < 3000; ++i) {
      std::string document = "Document " + std::to_string(i) + " of file " + std::to_string(file);
      for (int line = 0; line < i % 50; ++line) document += "\nThe boats wait, \xc3\xa9t\xc3\xa9.";
      text += document + "\n\n";
      const auto ids = tokenizer_.encode(document);
      expected.push_back(tokenizer_.bos_id());
      expected.insert(expected.end(), ids.begin(), ids.end());
      expected.push_back(tokenizer_.eos_id());
      ++document_count;
    }
    inputs.push_back(folder_.write("in" + std::to_string(file) + ".txt", text));
  }
  const auto summary = tokenize_files(tokenizer_, inputs, folder_ / "out.tokens");
  EXPECT_EQ(tokens_of(folder_ / "out.tokens"), expected);
  EXPECT_EQ(summary.documents, document_count);
  EXPECT_EQ(summary.tokens, static_cast<int64_t>(expected.size()));
  const TokenFile file(folder_ / "out.tokens");
  EXPECT_EQ(file.document_count(), document_count);
  EXPECT_EQ(file.loss_mask(), LossMask::absent);
  EXPECT_EQ(file.vocab_size(), tokenizer_.vocab_size());
  EXPECT_NO_THROW(file.require_tokenizer(tokenizer_.fingerprint(), "the tokenizer"));
}

TEST_F(TokenizeFiles, LeavesNothingAfterAnError) {
  const std::filesystem::path good = folder_.write("good.txt", "Hello\n");
  const std::filesystem::path bad = folder_.write("bad.txt", "Hello\n\nw\xffrld\n");
  const std::filesystem::path blank = folder_.write("blank.txt", " \n\n");
  auto message = [&](std::vector<std::filesystem::path> inputs) {
    return message_of<DataError>(
        [&] { tokenize_files(tokenizer_, inputs, folder_ / "out.tokens"); });
  };
  EXPECT_THAT(message({good, bad}), HasSubstr("bad.txt:3: invalid UTF-8"));
  EXPECT_THAT(message({good, folder_ / "none.txt"}), HasSubstr("none.txt: cannot open"));
  EXPECT_THAT(message({blank}), HasSubstr("found no text"));
  EXPECT_EQ(folder_.file_count(), 3u);
}

TEST_F(TokenizeFiles, WritesOverNoText) {
  const std::filesystem::path text = folder_.write("a.txt", "The boats wait.\n");
  for (const char* name : {"kept.txt", "kept.jsonl"}) {
    const std::filesystem::path kept = folder_.write(name, "Mine.\n");
    EXPECT_EQ(
        message_of<ConfigError>([&] { tokenize_files(tokenizer_, {{text}}, kept); }),
        kept.string() + ": found the name of a text file, expected another to write tokens to");
    EXPECT_EQ(read_file(kept), "Mine.\n");
  }
}

TEST_F(TokenizeFiles, SaysOnceThatTextsWriteBosOrEos) {
  const std::string bos = "<|begin_of_text|>";
  const Tokenizer tokenizer("tests/goldens/tokenizers/bytelevel_bpe_llama3");
  const auto file =
      folder_.write("own.txt", bos + "One.\n\nTwo.\n\n" + bos + "Three.\n\n" + bos + "Four.\n");
  auto notes = [&](AddBosEos add) {
    std::vector<std::string> notes;
    auto say = [&](const std::string& note) { notes.push_back(note); };
    tokenize_files(tokenizer, {{file}}, folder_ / "out.tokens",
                   {.encode = {.add_bos_eos = add}, .say = say});
    return notes;
  };
  const std::string found = file.string() +
                            ": 3 texts begin or end with \"<|begin_of_text|>\" or "
                            "\"<|end_of_text|>\" themselves";
  EXPECT_THAT(notes(AddBosEos::missing),
              ElementsAre(found + ": no second one is put there (add_bos_eos: always would)"));
  EXPECT_THAT(
      notes(AddBosEos::always),
      ElementsAre(found + " and get a second one (add_bos_eos: missing would put none there)"));
  EXPECT_THAT(notes(AddBosEos::never), IsEmpty());
}

TEST_F(TokenizeFiles, RefusesOtherFormatsByName) {
  for (const char* name : {"chat.arrow.zst", "chat.jsonl.xz", "chat.parquet.gz", "chat.zip"}) {
    const std::filesystem::path file = folder_.write(name, "[{\"text\": \"Hello\"}]\n");
    const std::string message = message_of<DataError>(
        [&] { tokenize_files(tokenizer_, {{file}}, folder_ / "out.tokens"); });
    EXPECT_EQ(message, file.string() + ": found a " + file.extension().string() +
                           " file, expected plain text (.txt), or examples (.jsonl, .json, .csv, " +
                           ".tsv, .parquet, .arrow); nearest: " + conversion_command(file));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out.tokens"));
  }
}

TEST_F(TokenizeFiles, WritesExamplesWithWhatIsLearnt) {
  std::string lines;
  std::vector<Document> expected;
  for (int i = 0; i < 5000; ++i) {
    const CompletionExample example{"Document " + std::to_string(i) + ":",
                                    std::string(" the boats wait.", 4 + i % 12)};
    lines += R"({"prompt": ")" + example.prompt + R"(", "completion": ")" + example.completion +
             "\"}" + (i % 3 ? "\n" : "\r\n\n");
    expected.push_back(encode(example, tokenizer_)[0]);
  }
  const auto jsonl = folder_.write("a.jsonl", lines);
  const auto text = folder_.write("b.txt", "Plain.\n");
  expected.push_back(encode(TextExample{"Plain."}, tokenizer_)[0]);
  const std::vector<std::filesystem::path> inputs = {jsonl, text};
  tokenize_files(tokenizer_, inputs, folder_ / "out.tokens");

  const TokenFile file(folder_ / "out.tokens");
  EXPECT_EQ(file.loss_mask(), LossMask::present);
  ASSERT_EQ(file.document_count(), 5001);
  for (int64_t i = 0; i < 5001; ++i) {
    const TokenFile::Range range = file.document(i);
    Document found{std::vector<int32_t>(range.count), std::vector<uint8_t>(range.count)};
    file.read(range.first, found.tokens);
    file.read_loss_mask(range.first, found.carries_loss);
    ASSERT_EQ(found.tokens, expected[i].tokens) << i;
    ASSERT_EQ(found.carries_loss, expected[i].carries_loss) << i;
  }
}

TEST_F(TokenizeFiles, DoesNotDependOnTheNumberOfThreads) {
  std::string lines;
  for (int i = 0; i < 20'000; ++i)
    lines += i % 97 == 5 ? "broken\n"
                         : "{\"text\": \"The boats wait, number " + std::to_string(i) + ".\"}\n";
  const std::vector<std::filesystem::path> inputs = {folder_.write("a.jsonl", lines)};
  auto file_with = [&](bool one_processor) {
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
      if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    if (one_processor) sched_setaffinity(0, sizeof one, &one);
    tokenize_files(tokenizer_, inputs, folder_ / "out.tokens", {.skip_bad_lines = true});
    sched_setaffinity(0, sizeof all, &all);
    return read_file(folder_ / "out.tokens");
  };
  EXPECT_EQ(file_with(true), file_with(false));
}

TEST_F(TokenizeFiles, NamesTheBadLineOrCountsIt) {
  const std::string good = "{\"text\": \"one\"}\n";
  auto summary = [&](const std::string& lines, bool skip) {
    const std::vector<std::filesystem::path> inputs = {folder_.write("a.jsonl", lines)};
    return tokenize_files(tokenizer_, inputs, folder_ / "out.tokens", {.skip_bad_lines = skip});
  };
  auto message = [&](const std::string& lines, bool skip = false) {
    std::filesystem::remove(folder_ / "out.tokens");
    const std::string text = message_of<DataError>([&] { summary(lines, skip); });
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out.tokens"));
    return text;
  };
  struct Bad {
    std::string line, message;
  };
  for (const Bad& bad :
       {Bad{"{\"text\": \"a\"", "no valid JSON"}, Bad{"{\"text\": \"caf\xe9\"}", "invalid UTF-8"},
        Bad{"{\"text\": \"\"}", "text: found nothing"}, Bad{"{\"txt\": \"a\"}", "nearest: text"},
        Bad{"{\"prompt\": \"a\", \"completion\": \"b\"}",
            "found prompt and completion, expected text as on line 1"}}) {
    const std::string text = message(good + "\n" + bad.line + "\n" + good);
    EXPECT_THAT(text, HasSubstr("a.jsonl:3: "));
    EXPECT_THAT(text, HasSubstr(bad.message));
    const TokenizeSummary skipped = summary(good + bad.line + "\n" + good + bad.line, true);
    EXPECT_EQ(skipped.documents, 2);
    EXPECT_EQ(skipped.skipped_lines, 2);
    EXPECT_EQ(TokenFile(folder_ / "out.tokens").skipped_lines(), 2);
  }
  EXPECT_THAT(message("{\n" + good), HasSubstr("a.jsonl:1: no valid JSON"));
  EXPECT_THAT(
      message("\n{\n{\n", true),
      HasSubstr("a.jsonl: found no text to learn: all lines were skipped, the first since"));
  EXPECT_THAT(message("\n \n"), HasSubstr("found no text to learn"));
  const std::string long_line = good + "{\"text\": \"" + std::string(9 << 20, 'x') + "\"}\n";
  for (bool skip : {false, true})
    EXPECT_THAT(message(long_line + good, skip),
                HasSubstr("a.jsonl:2: line of more than 8388608 bytes"));
  EXPECT_EQ(summary(good + "broken\n", true).documents, 1);
}

TEST_F(TokenizeFiles, DoesNotOverwriteItsInput) {
  const std::vector<std::filesystem::path> inputs = {folder_.write("a.txt", "Hello\n")};
  EXPECT_THROW(tokenize_files(tokenizer_, inputs, folder_ / "." / "a.txt"), ConfigError);
  EXPECT_EQ(read_file(inputs[0]), "Hello\n");
}

}  // namespace
}  // namespace longshore::data
