#include "data/tokenize_files.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/token_shard.h"
#include "tests/data/temporary_folder.h"

namespace longshore::data {
namespace {

class TokenizeFiles : public testing::Test {
 protected:
  std::vector<int32_t> tokens_of(const std::filesystem::path& path) {
    const TokenShard shard(path);
    std::vector<int32_t> tokens(static_cast<size_t>(shard.token_count()));
    shard.read(0, tokens);
    return tokens;
  }

  TemporaryFolder folder_;
  Tokenizer tokenizer_{"tests/goldens/tokenizers/sp_bpe/tokenizer.model"};
};

TEST_F(TokenizeFiles, WritesEachDocumentThenEosInOrder) {
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
  const TokenShard shard(folder_ / "out.tokens");
  EXPECT_EQ(shard.document_count(), document_count);
  EXPECT_EQ(shard.vocab_size(), tokenizer_.vocab_size());
  EXPECT_NO_THROW(shard.require_tokenizer(tokenizer_.content_hash(), "the tokenizer"));
}

TEST_F(TokenizeFiles, LeavesNothingAfterAnError) {
  const std::filesystem::path good = folder_.write("good.txt", "Hello\n");
  const std::filesystem::path bad = folder_.write("bad.txt", "Hello\n\nw\xffrld\n");
  const std::filesystem::path blank = folder_.write("blank.txt", " \n\n");
  auto message = [&](std::vector<std::filesystem::path> inputs) {
    return message_of<DataError>(
        [&] { tokenize_files(tokenizer_, inputs, folder_ / "out.tokens"); });
  };
  EXPECT_NE(message({good, bad}).find("bad.txt:3: invalid UTF-8"), std::string::npos);
  EXPECT_NE(message({good, folder_ / "none.txt"}).find("none.txt: cannot open"), std::string::npos);
  EXPECT_NE(message({blank}).find("found no text"), std::string::npos);
  EXPECT_EQ(folder_.file_count(), 3u);
}

TEST_F(TokenizeFiles, DoesNotOverwriteItsInput) {
  const std::vector<std::filesystem::path> inputs = {folder_.write("a.txt", "Hello\n")};
  EXPECT_THROW(tokenize_files(tokenizer_, inputs, folder_ / "." / "a.txt"), DataError);
  EXPECT_EQ(read_file(inputs[0]), "Hello\n");
}

}  // namespace
}  // namespace longshore::data
