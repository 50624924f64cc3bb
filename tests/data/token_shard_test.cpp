#include "data/token_shard.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <numeric>
#include <random>

#include "base/error.h"
#include "tests/data/temporary_folder.h"

namespace longshore::data {
namespace {

constexpr size_t kHeaderBytes = 48;

void write_shard(const std::filesystem::path& path, int32_t vocab_size,
                 std::span<const int32_t> tokens) {
  TokenShardWriter writer(path, vocab_size, 0x1234);
  writer.append(tokens);
  writer.finish(1);
}

std::vector<int32_t> read_all(const TokenShard& shard) {
  std::vector<int32_t> tokens(static_cast<size_t>(shard.token_count()));
  shard.read(0, tokens);
  return tokens;
}

TEST(TokenShard, GivesBackWhatWasWritten) {
  TemporaryFolder folder;
  for (int32_t vocab_size : {1000, 65536, 65537, 1 << 20}) {
    std::vector<int32_t> tokens(700'001);  // more than the writer's buffer
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<int32_t>(i * 7919 % static_cast<size_t>(vocab_size));
    tokens[1] = vocab_size - 1;
    {
      TokenShardWriter writer(folder / "a.tokens", vocab_size, 0xfedcba9876543210);
      for (size_t first = 0; first < tokens.size(); first += 300'000)
        writer.append(
            std::span(tokens).subspan(first, std::min<size_t>(300'000, tokens.size() - first)));
      EXPECT_EQ(writer.token_count(), 700'001);
      writer.finish(12);
    }
    const TokenShard shard(folder / "a.tokens");
    EXPECT_EQ(shard.vocab_size(), vocab_size);
    EXPECT_EQ(shard.tokenizer_hash(), 0xfedcba9876543210);
    EXPECT_EQ(shard.document_count(), 12);
    EXPECT_EQ(read_all(shard), tokens);
    std::vector<int32_t> some(10);
    shard.read(500'000, some);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), tokens.begin() + 500'000));
    EXPECT_EQ(std::filesystem::file_size(folder / "a.tokens"),
              kHeaderBytes + tokens.size() * (vocab_size <= 65536 ? 2 : 4));
  }
}

TEST(TokenShard, AnEmptyOneIsValid) {
  TemporaryFolder folder;
  TokenShardWriter(folder / "a.tokens", 10, 1).finish(0);
  EXPECT_EQ(TokenShard(folder / "a.tokens").token_count(), 0);
}

TEST(TokenShardWriter, LeavesNothingWithoutFinish) {
  TemporaryFolder folder;
  {
    TokenShardWriter writer(folder / "a.tokens", 10, 1);
    writer.append(std::vector<int32_t>{1, 2, 3});
    EXPECT_FALSE(std::filesystem::exists(folder / "a.tokens"));
  }
  EXPECT_EQ(folder.file_count(), 0u);
}

TEST(TokenShardWriter, LeavesTheOldShardWithoutFinish) {
  TemporaryFolder folder;
  write_shard(folder / "a.tokens", 10, std::vector<int32_t>{1, 2, 3});
  {
    TokenShardWriter writer(folder / "a.tokens", 10, 1);
    writer.append(std::vector<int32_t>{4});
  }
  EXPECT_EQ(read_all(TokenShard(folder / "a.tokens")), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(folder.file_count(), 1u);
}

TEST(TokenShardWriter, NamesAFileItCannotWrite) {
  TemporaryFolder folder;
  const auto path = folder / "missing" / "a.tokens";
  const std::string message = message_of<DataError>([&] { TokenShardWriter(path, 10, 1); });
  EXPECT_NE(message.find(path.string()), std::string::npos) << message;
  EXPECT_NE(message.find("No such file"), std::string::npos) << message;
}

TEST(TokenShardWriter, RefusesTokensOutsideTheVocabulary) {
  TemporaryFolder folder;
  TokenShardWriter writer(folder / "a.tokens", 10, 1);
  EXPECT_THROW(writer.append(std::vector<int32_t>{10}), InternalError);
  EXPECT_THROW(writer.append(std::vector<int32_t>{-1}), InternalError);
}

TEST(TokenShard, EveryTruncationIsRefused) {
  TemporaryFolder folder;
  for (int32_t vocab_size : {100, 100'000}) {
    write_shard(folder / "a.tokens", vocab_size, std::vector<int32_t>{5, 6, 7, 8, 9});
    const std::string whole = read_file(folder / "a.tokens");
    for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
      const auto cut = folder.write("cut.tokens", whole.substr(0, bytes));
      const std::string message = message_of<DataError>([&] { TokenShard shard(cut); });
      EXPECT_NE(message.find(cut.string()), std::string::npos) << message;
    }
    EXPECT_THROW(TokenShard(folder.write("long.tokens", whole + '\0')), DataError);
    EXPECT_NO_THROW(TokenShard(folder.write("same.tokens", whole)));
  }
}

// Any header at all: refused, or everything readable is in range.
TEST(TokenShard, AnyHeaderIsRefusedOrSafe) {
  TemporaryFolder folder;
  std::mt19937_64 random(1);
  int refused = 0, valid = 0;
  auto attempt = [&](const std::string& bytes) {
    try {
      const TokenShard shard(folder.write("changed.tokens", bytes));
      ASSERT_LE(shard.token_count(), 20);
      ASSERT_LE(shard.document_count(), shard.token_count());
      for (int32_t token : read_all(shard)) {
        ASSERT_GE(token, 0);
        ASSERT_LT(token, shard.vocab_size());
      }
      ++valid;
    } catch (const DataError&) {
      ++refused;
    }
  };
  for (int32_t vocab_size : {100, 100'000}) {
    std::vector<int32_t> tokens(10);
    std::iota(tokens.begin(), tokens.end(), 60);
    write_shard(folder / "a.tokens", vocab_size, tokens);
    const std::string whole = read_file(folder / "a.tokens");
    for (size_t at = 0; at < kHeaderBytes; ++at)
      for (int value : {0, 1, 2, 4, 0x7f, 0x80, 0xff}) {
        std::string changed = whole;
        changed[at] = static_cast<char>(value);
        attempt(changed);
      }
    for (int i = 0; i < 500; ++i) {
      std::string changed = whole;
      for (size_t n = 1 + random() % 4; n > 0; --n)
        changed[random() % changed.size()] = static_cast<char>(random());
      attempt(changed);
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(valid, 100);
}

TEST(TokenShard, SaysWhatItFoundAndExpected) {
  TemporaryFolder folder;
  write_shard(folder / "a.tokens", 100, std::vector<int32_t>{5, 6, 7});
  const std::string whole = read_file(folder / "a.tokens");
  auto changed = [&](size_t at, char value) {
    std::string bytes = whole;
    bytes[at] = value;
    return message_of<DataError>([&] { TokenShard shard(folder.write("b.tokens", bytes)); });
  };
  EXPECT_NE(changed(0, 'X').find("b.tokens: not a token file"), std::string::npos);
  EXPECT_NE(changed(8, 9).find("version 9; expected version 1"), std::string::npos);
  EXPECT_NE(changed(12, 3).find("3 bytes per token; expected 2 or 4"), std::string::npos);
  EXPECT_NE(changed(16, 4).find("header says 4 tokens of 2 bytes, the file holds 6 bytes"),
            std::string::npos);
  EXPECT_NE(changed(16, 2).find("header says 2 tokens of 2 bytes, the file holds 6 bytes"),
            std::string::npos);
  EXPECT_NE(changed(44, 1).find("bytes 44 to 47 are not zero"), std::string::npos);
  EXPECT_NE(changed(24, 4).find("4 documents in 3 tokens"), std::string::npos);
  EXPECT_NE(changed(42, 1).find("vocabulary size 65636"), std::string::npos);
}

TEST(TokenShard, FindsTokensOutsideTheVocabularyWhenTheyAreRead) {
  TemporaryFolder folder;
  for (int32_t vocab_size : {100, 100'000}) {
    write_shard(folder / "a.tokens", vocab_size, std::vector<int32_t>{5, 6, 7, 8});
    std::string bytes = read_file(folder / "a.tokens");
    bytes.back() = '\xff';  // the last token's highest byte
    const TokenShard shard(folder.write("b.tokens", bytes));
    std::vector<int32_t> three(3);
    EXPECT_NO_THROW(shard.read(0, three));
    const std::string message = message_of<DataError>([&] { shard.read(1, three); });
    EXPECT_NE(message.find("b.tokens: corrupt: token 3 is "), std::string::npos) << message;
    EXPECT_NE(message.find("the vocabulary has " + std::to_string(vocab_size)), std::string::npos);
  }
}

TEST(TokenShard, TheVocabularysSizeIsNoToken) {
  TemporaryFolder folder;
  write_shard(folder / "a.tokens", 100, std::vector<int32_t>{99});
  EXPECT_EQ(read_all(TokenShard(folder / "a.tokens")).front(), 99);
  std::string bytes = read_file(folder / "a.tokens");
  bytes[kHeaderBytes] = 100;
  EXPECT_THROW(read_all(TokenShard(folder.write("b.tokens", bytes))), DataError);
}

TEST(TokenShard, RefusesWhatIsNoFile) {
  TemporaryFolder folder;
  EXPECT_NE(message_of<DataError>([&] { TokenShard(folder / "none"); }).find("No such file"),
            std::string::npos);
  EXPECT_THROW(TokenShard(folder / ""), DataError);
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(TokenShard(folder / "pipe"), DataError);
}

TEST(TokenShard, ReadsOnlyWithinItself) {
  TemporaryFolder folder;
  write_shard(folder / "a.tokens", 100, std::vector<int32_t>{5, 6, 7});
  const TokenShard shard(folder / "a.tokens");
  std::vector<int32_t> two(2), four(4);
  EXPECT_NO_THROW(shard.read(1, two));
  EXPECT_THROW(shard.read(2, two), InternalError);
  EXPECT_THROW(shard.read(-1, two), InternalError);
  EXPECT_THROW(shard.read(0, four), InternalError);
  EXPECT_THROW(shard.read(INT64_MAX, two), InternalError);
}

TEST(TokenShard, TellsTokenizersApart) {
  TemporaryFolder folder;
  write_shard(folder / "a.tokens", 100, std::vector<int32_t>{5});
  const TokenShard shard(folder / "a.tokens");
  EXPECT_NO_THROW(shard.require_tokenizer(0x1234, "x.model"));
  const std::string message =
      message_of<DataError>([&] { shard.require_tokenizer(0x1235, "x.model"); });
  for (const char* part : {"a.tokens", "x.model", "0000000000001234", "0000000000001235"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

}  // namespace
}  // namespace longshore::data
