#include "longshore/data/rows/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <span>

#include "longshore/base/error.h"
#include "longshore/data/files/content_hash.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

constexpr size_t kHeaderBytes = 80;

void write_token_file(const std::filesystem::path& path, int32_t vocab_size,
                      std::span<const int32_t> tokens) {
  TokenFileWriter writer(path, vocab_size, 0x1234);
  writer.append(tokens);
  writer.finish();
}

// Versions 1 to 3, which this program no longer writes.
std::string version1(std::string latest, int64_t documents) {
  latest[8] = 1;
  std::memcpy(latest.data() + 24, &documents, sizeof documents);
  uint64_t token_count;
  uint32_t bytes_per_token;
  std::memcpy(&token_count, latest.data() + 16, sizeof token_count);
  std::memcpy(&bytes_per_token, latest.data() + 12, sizeof bytes_per_token);
  return latest.substr(0, 48) + latest.substr(kHeaderBytes, token_count * bytes_per_token);
}

std::string version2(std::string latest) {
  latest[8] = 2;
  return latest.substr(0, 56) + std::string(8, '\0') + latest.substr(kHeaderBytes);
}

std::string version3(std::string latest) {
  latest[8] = 3;
  return latest.replace(72, 8, 8, '\0');
}

std::vector<int32_t> read_all(const TokenFile& file) {
  std::vector<int32_t> tokens(static_cast<size_t>(file.token_count()));
  file.read(0, tokens);
  return tokens;
}

TEST(TokenFile, GivesBackWhatWasWritten) {
  TemporaryFolder folder;
  for (int32_t vocab_size : {1000, 65536, 65537, 1 << 20}) {
    std::vector<int32_t> tokens(700'001);  // more than the writer's buffer
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<int32_t>(i * 7919 % static_cast<size_t>(vocab_size));
    tokens[1] = vocab_size - 1;
    {
      TokenFileWriter writer(folder / "a.tokens", vocab_size, 0xfedcba9876543210);
      for (size_t first = 0; first < tokens.size(); first += 300'000)
        writer.append(
            std::span(tokens).subspan(first, std::min<size_t>(300'000, tokens.size() - first)));
      EXPECT_EQ(writer.token_count(), 700'001);
      EXPECT_EQ(writer.document_count(), 3);
      writer.finish(12);
    }
    const TokenFile file(folder / "a.tokens");
    EXPECT_EQ(file.vocab_size(), vocab_size);
    EXPECT_EQ(file.tokenizer_fingerprint(), 0xfedcba9876543210);
    EXPECT_EQ(file.document_count(), 3);
    EXPECT_EQ(file.skipped_lines(), 12);
    EXPECT_EQ(file.document(0).first, 0);
    EXPECT_EQ(file.document(2).first, 600'000);
    EXPECT_EQ(file.document(2).count, 100'001);
    EXPECT_EQ(file.loss_mask(), LossMask::absent);
    EXPECT_EQ(read_all(file), tokens);
    std::vector<int32_t> some(10);
    file.read(500'000, some);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), tokens.begin() + 500'000));
    const size_t token_bytes = tokens.size() * (vocab_size <= 65536 ? 2 : 4);
    EXPECT_EQ(std::filesystem::file_size(folder / "a.tokens"),
              kHeaderBytes + (token_bytes + 7) / 8 * 8 + 3 * 8);
  }
}

TEST(TokenFile, KeepsDocumentsAndTheirLossMask) {
  TemporaryFolder folder;
  std::mt19937_64 random(1);
  for (int32_t vocab_size : {1000, 32768, 32769, 1 << 20}) {
    std::vector<std::vector<int32_t>> documents(300);
    std::vector<std::vector<uint8_t>> marks(documents.size());
    TokenFileWriter writer(folder / "a.tokens", vocab_size, 1, LossMask::present);
    for (size_t i = 0; i < documents.size(); ++i) {
      for (size_t n = 1 + random() % 40; n > 0; --n) {
        documents[i].push_back(static_cast<int32_t>(random() % vocab_size));
        marks[i].push_back(random() % 2);
      }
      documents[i].back() = vocab_size - 1;
      if (i % 7 == 0) marks[i].assign(marks[i].size(), 1);
      writer.append(documents[i], i % 7 == 0 ? std::vector<uint8_t>() : marks[i]);
    }
    writer.finish();
    const TokenFile file(folder / "a.tokens");
    EXPECT_EQ(file.loss_mask(), LossMask::present);
    ASSERT_EQ(file.document_count(), std::ssize(documents));
    int64_t first = 0;
    for (size_t i = 0; i < documents.size(); ++i) {
      const TokenFile::Range range = file.document(static_cast<int64_t>(i));
      EXPECT_EQ(range.first, first);
      ASSERT_EQ(range.count, std::ssize(documents[i]));
      std::vector<int32_t> tokens(documents[i].size());
      std::vector<uint8_t> carries_loss(tokens.size());
      file.read(first, tokens);
      file.read_loss_mask(first, carries_loss);
      EXPECT_EQ(tokens, documents[i]);
      EXPECT_EQ(carries_loss, marks[i]);
      first += range.count;
    }
    EXPECT_EQ(std::filesystem::file_size(folder / "a.tokens"),
              kHeaderBytes + (first * (vocab_size <= 32768 ? 2 : 4) + 7) / 8 * 8 + 300 * 8);
    EXPECT_THROW(file.document(300), InternalError);
    EXPECT_THROW(file.document(-1), InternalError);
  }
}

TEST(TokenFile, Version1IsAStreamWithoutDocuments) {
  TemporaryFolder folder;
  for (int32_t vocab_size : {100, 100'000}) {
    write_token_file(folder / "a.tokens", vocab_size, std::vector<int32_t>{5, 6, 7});
    const std::string old = version1(read_file(folder / "a.tokens"), 2);
    const TokenFile file(folder.write("old.tokens", old));
    EXPECT_EQ(read_all(file), (std::vector<int32_t>{5, 6, 7}));
    EXPECT_EQ(file.document_count(), 2);
    EXPECT_FALSE(file.has_documents());
    EXPECT_EQ(file.skipped_lines(), 0);
    EXPECT_THROW(file.document(0), InternalError);
    for (size_t bytes = 0; bytes < old.size(); ++bytes)
      EXPECT_THROW(TokenFile(folder.write("cut.tokens", old.substr(0, bytes))), DataError);
    EXPECT_THROW(TokenFile(folder.write("long.tokens", old + '\0')), DataError);
  }
}

TEST(TokenFile, Version2HasNoHash) {
  TemporaryFolder folder;
  for (int32_t vocab_size : {100, 100'000}) {
    write_token_file(folder / "a.tokens", vocab_size, std::vector<int32_t>{5, 6, 7});
    const std::string old = version2(read_file(folder / "a.tokens"));
    const TokenFile file(folder.write("old.tokens", old));
    EXPECT_EQ(read_all(file), (std::vector<int32_t>{5, 6, 7}));
    ASSERT_EQ(file.document_count(), 1);
    EXPECT_EQ(file.document(0).count, 3);
    file.verify({});
    for (size_t bytes = 0; bytes < old.size(); ++bytes)
      EXPECT_THROW(TokenFile(folder.write("cut.tokens", old.substr(0, bytes))), DataError);
    EXPECT_THROW(TokenFile(folder.write("long.tokens", old + '\0')), DataError);
    std::string changed = old;
    changed[56] = 1;
    EXPECT_THAT(
        message_of<DataError>([&] { TokenFile damaged(folder.write("b.tokens", changed)); }),
        HasSubstr("bytes 56 to 63 are not zero"));
  }
}

TEST(TokenFile, Version3HasNoHashOfItsHeader) {
  TemporaryFolder folder;
  write_token_file(folder / "a.tokens", 100, std::vector<int32_t>{5, 6, 7});
  const std::string old = version3(read_file(folder / "a.tokens"));
  const TokenFile file(folder.write("old.tokens", old));
  EXPECT_EQ(read_all(file), (std::vector<int32_t>{5, 6, 7}));
  EXPECT_EQ(file.tokenizer_fingerprint(), 0x1234u);
  file.verify({});
  std::string changed = old;
  changed[72] = 1;
  EXPECT_THAT(message_of<DataError>([&] { TokenFile damaged(folder.write("b.tokens", changed)); }),
              HasSubstr("bytes 72 to 79 are not zero"));
  changed = old;
  changed[kHeaderBytes] = 4;
  EXPECT_THAT(
      message_of<DataError>([&] { TokenFile(folder.write("b.tokens", changed)).verify({}); }),
      HasSubstr("changed since it was written"));
}

// Whatever it is: a field of the header, a token, a mark, a document's end, what fills the gap
// between them.
TEST(TokenFile, NoticesAnyChangedBit) {
  TemporaryFolder folder;
  TokenFileWriter writer(folder / "a.tokens", 1000, 0, LossMask::present);
  writer.append(std::vector<int32_t>{5, 6, 7}, std::vector<uint8_t>{0, 1, 1});
  writer.append(std::vector<int32_t>{8, 9});
  writer.finish();
  const std::string whole = read_file(folder / "a.tokens");
  TokenFile(folder / "a.tokens").verify({});
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string changed = whole;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    const auto path = folder.write("changed.tokens", changed);
    const bool is_in_header = bit < 8 * kHeaderBytes;
    std::optional<TokenFile> file;
    const std::string message = message_of<DataError>([&] {
      file.emplace(path);  // the last end at once
      if (!is_in_header) file->verify({});
    });
    EXPECT_THAT(message, HasSubstr(path.string()));
    if (!is_in_header) {
      EXPECT_THAT(message, testing::AnyOf(HasSubstr("changed since it was written"),
                                          HasSubstr("the last document ends")));
    }
  }
}

// Wherever it is, in a file of any size.
TEST(TokenFile, ATokenMoreOrLessOrAnotherIsAnotherFile) {
  TemporaryFolder folder;
  std::vector<int32_t> tokens(6 << 20);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 7919 % 60'000);
  auto identity = [&] {
    write_token_file(folder / "a.tokens", 60'000, tokens);
    return TokenFile(folder / "a.tokens").identity();
  };
  const std::string before = identity();
  EXPECT_EQ(identity(), before);
  std::mt19937_64 random(1);
  for (int i = 0; i < 8; ++i) {
    int32_t& token = tokens[random() % tokens.size()];
    token = (token + 1) % 60'000;
    EXPECT_NE(identity(), before) << i;
    token = (token + 59'999) % 60'000;
  }
  EXPECT_EQ(identity(), before);
}

TEST(TokenFile, FindsDocumentsThatCannotBe) {
  TemporaryFolder folder;
  TokenFileWriter writer(folder / "a.tokens", 100, 1);
  for (int i = 0; i < 3; ++i) writer.append(std::vector<int32_t>{1, 2, 3, 4});
  writer.finish();
  const std::string whole = read_file(folder / "a.tokens");
  auto with_end = [&](size_t document, char end) {
    std::string bytes = whole;
    bytes[bytes.size() - 8 * (3 - document)] = end;
    return folder.write("b.tokens", bytes);
  };
  EXPECT_THAT(message_of<DataError>([&] { TokenFile file(with_end(2, 11)); }),
              HasSubstr("b.tokens: corrupt: the last document ends at token 11 of 12"));
  for (char end : {'\0', '\x0c', '\x0d', '\x7f'}) {
    const TokenFile file(with_end(1, end));
    EXPECT_NO_THROW(file.document(0));
    EXPECT_THAT(message_of<DataError>([&] {
                  file.document(1);
                  file.document(2);
                }),
                HasSubstr("b.tokens: corrupt: document "));
  }
}

std::vector<std::vector<ImageReference>> some_images() {
  using enum ImageSource::Kind;
  return {{{path, 1, 100, {1, 2}, "a/b.png"}, {embedded, 1, 3, {3, 4}, "JPG"}},
          {},
          {{path, 9, 7, {5, 6}, "../c.jpg"}}};
}

std::string file_with_images(const TemporaryFolder& folder) {
  TokenFileWriter writer(folder / "a.tokens", 1000, 0, LossMask::present);
  for (const std::vector<ImageReference>& images : some_images())
    writer.append(std::vector<int32_t>{5, 6, 7}, std::vector<uint8_t>{0, 1, 1}, images);
  EXPECT_EQ(writer.image_count(), 3);
  writer.finish();
  return read_file(folder / "a.tokens");
}

std::vector<std::vector<ImageReference>> images_of(const TokenFile& file) {
  std::vector<std::vector<ImageReference>> images;
  for (int64_t document = 0; document < file.document_count(); ++document) {
    const auto [first, count] = file.images(document);
    images.emplace_back();
    for (int64_t i = 0; i < count; ++i) images.back().push_back(file.image(first + i));
  }
  return images;
}

TEST(TokenFile, KeepsImages) {
  TemporaryFolder folder;
  const std::string whole = file_with_images(folder);
  EXPECT_EQ(whole[8], 5);
  EXPECT_EQ(folder.file_count(), 1u);
  const TokenFile file(folder / "a.tokens");
  file.verify({});
  EXPECT_EQ(file.image_count(), 3);
  EXPECT_EQ(images_of(file), some_images());
  EXPECT_EQ(read_all(file), (std::vector<int32_t>{5, 6, 7, 5, 6, 7, 5, 6, 7}));
  EXPECT_EQ(file.document(2).first, 6);
  EXPECT_THROW(file.image(3), InternalError);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_THROW(TokenFile(folder.write("cut.tokens", whole.substr(0, bytes))), DataError);
  EXPECT_THROW(TokenFile(folder.write("long.tokens", whole + '\0')), DataError);
}

TEST(TokenFile, KeepsManyImages) {
  TemporaryFolder folder;
  TokenFileWriter writer(folder / "a.tokens", 10, 0);
  const std::string large(3 << 20, 'x');
  for (int64_t i = 0; i < 2000; ++i) {
    const std::string contents = i % 500 == 0 ? large : "image " + std::to_string(i);
    writer.append(std::vector<int32_t>{1}, {}, {{{.line_number = i + 1, .contents = contents}}});
  }
  EXPECT_EQ(folder.file_count(), 1u);
  writer.finish();
  const TokenFile file(folder / "a.tokens");
  file.verify({});
  for (int64_t i = 0; i < 2000; ++i) {
    const auto [first, count] = file.images(i);
    ASSERT_EQ(count, 1);
    EXPECT_EQ(file.image(first).line_number, i + 1);
    EXPECT_TRUE(file.image(first).contents ==
                (i % 500 == 0 ? large : "image " + std::to_string(i)));
  }
}

TEST(TokenFile, IsOfVersion4WithoutImages) {
  TemporaryFolder folder;
  write_token_file(folder / "a.tokens", 100, std::vector<int32_t>{5, 6, 7});
  EXPECT_EQ(read_file(folder / "a.tokens")[8], 4);
  const TokenFile file(folder / "a.tokens");
  EXPECT_EQ(file.image_count(), 0);
  EXPECT_EQ(file.images(0).count, 0);
}

// Where no hash is asked for, what is read is refused or in range.
TEST(TokenFile, NoticesAnyChangedByteOfImages) {
  TemporaryFolder folder;
  const std::string whole = file_with_images(folder);
  int refused = 0;
  for (size_t byte = 0; byte < whole.size(); ++byte) {
    std::string changed = whole;
    changed[byte] = static_cast<char>(changed[byte] ^ (1 << byte % 8));
    const auto path = folder.write("changed.tokens", changed);
    try {
      const TokenFile file(path);
      EXPECT_GE(byte, kHeaderBytes);
      EXPECT_THAT(message_of<DataError>([&] { file.verify({}); }), HasSubstr(path.string()));
      for (int64_t document = 0; document < file.document_count(); ++document)
        file.document(document);
      read_all(file);
      EXPECT_EQ(images_of(file).size(), 3u);
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr(path.string()));
      ++refused;
    }
  }
  EXPECT_GT(refused, static_cast<int>(kHeaderBytes));
}

std::string file_with_pairs(const TemporaryFolder& folder,
                            const std::vector<ImageReference>& images = {}) {
  TokenFileWriter writer(folder / "a.tokens", 1000, 0, LossMask::present, Pairing::present);
  writer.append(std::vector<int32_t>{5, 6, 7}, std::vector<uint8_t>{0, 1, 1}, images);
  writer.append(std::vector<int32_t>{5, 8}, std::vector<uint8_t>{0, 1}, images);
  writer.append(std::vector<int32_t>{0}, std::vector<uint8_t>{0});
  writer.append(std::vector<int32_t>{9, 9}, std::vector<uint8_t>{0, 1});
  writer.finish();
  return read_file(folder / "a.tokens");
}

// The header's hash is made that of the header.
std::string with_hash(std::string bytes) {
  ContentHash hash;
  hash.append(std::as_bytes(std::span(bytes).first(72)));
  std::memcpy(bytes.data() + 72, hash.words().data(), 8);
  return bytes;
}

TEST(TokenFile, KeepsPairs) {
  TemporaryFolder folder;
  for (const std::vector<ImageReference>& images :
       {std::vector<ImageReference>(), some_images()[0]}) {
    const std::string whole = file_with_pairs(folder, images);
    EXPECT_EQ(whole[8], 6);
    const TokenFile file(folder / "a.tokens");
    file.verify({});
    EXPECT_TRUE(file.has_pairs());
    EXPECT_EQ(file.loss_mask(), LossMask::present);
    EXPECT_EQ(read_all(file), (std::vector<int32_t>{5, 6, 7, 5, 8, 0, 9, 9}));
    EXPECT_EQ(images_of(file), (std::vector{images, images, {}, {}}));
  }
  file_with_images(folder);
  EXPECT_FALSE(TokenFile(folder / "a.tokens").has_pairs());
}

TEST(TokenFile, FindsPairsThatCannotBe) {
  TemporaryFolder folder;
  const std::string whole = file_with_pairs(folder);
  auto changed = [&](size_t at, char value) {
    std::string bytes = whole;
    bytes[at] = value;
    return message_of<DataError>(
        [&] { TokenFile file(folder.write("b.tokens", with_hash(std::move(bytes)))); });
  };
  EXPECT_NO_THROW(TokenFile(folder.write("b.tokens", with_hash(whole))));
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_THROW(TokenFile(folder.write("b.tokens", whole.substr(0, bytes))), DataError);
  EXPECT_THROW(TokenFile(folder.write("b.tokens", whole + '\0')), DataError);
  EXPECT_THAT(changed(24, 3), HasSubstr("b.tokens: corrupt header: 3 documents; expected an even"));
  EXPECT_THAT(changed(44, 0),
              HasSubstr("b.tokens: corrupt header: bytes 44 to 47 are 0; expected"));
  EXPECT_THAT(changed(8, 4), HasSubstr("truncated or corrupt"));
  TokenFileWriter half(folder / "c.tokens", 1000, 0, LossMask::present, Pairing::present);
  half.append(std::vector<int32_t>{5, 6, 7});
  EXPECT_THROW(half.finish(), InternalError);
  EXPECT_THROW(TokenFileWriter(folder / "c.tokens", 9, 0, LossMask::absent, Pairing::present),
               InternalError);
}

TEST(TokenFile, FileWithoutTokensIsValid) {
  TemporaryFolder folder;
  TokenFileWriter(folder / "a.tokens", 10, 1).finish();
  EXPECT_EQ(TokenFile(folder / "a.tokens").token_count(), 0);
}

TEST(TokenFileWriter, LeavesNothingWithoutFinish) {
  TemporaryFolder folder;
  {
    TokenFileWriter writer(folder / "a.tokens", 10, 1);
    writer.append(std::vector<int32_t>{1, 2, 3});
    EXPECT_FALSE(std::filesystem::exists(folder / "a.tokens"));
  }
  EXPECT_EQ(folder.file_count(), 0u);
}

TEST(TokenFileWriter, LeavesTheOldFileWithoutFinish) {
  TemporaryFolder folder;
  write_token_file(folder / "a.tokens", 10, std::vector<int32_t>{1, 2, 3});
  {
    TokenFileWriter writer(folder / "a.tokens", 10, 1);
    writer.append(std::vector<int32_t>{4});
  }
  EXPECT_EQ(read_all(TokenFile(folder / "a.tokens")), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(folder.file_count(), 1u);
}

TEST(TokenFileWriter, NamesAFileItCannotWrite) {
  TemporaryFolder folder;
  const auto path = folder / "missing" / "a.tokens";
  const std::string message = message_of<FileError>([&] { TokenFileWriter(path, 10, 1); });
  EXPECT_THAT(message, HasSubstr(path.string()));
  EXPECT_THAT(message, HasSubstr("No such file"));
}

TEST(TokenFileWriter, RefusesTokensOutsideTheVocabulary) {
  TemporaryFolder folder;
  TokenFileWriter writer(folder / "a.tokens", 10, 1);
  EXPECT_THROW(writer.append(std::vector<int32_t>{10}), InternalError);
  EXPECT_THROW(writer.append(std::vector<int32_t>{-1}), InternalError);
  EXPECT_THROW(writer.append(std::vector<int32_t>{}), InternalError);
  EXPECT_THROW(writer.append(std::vector<int32_t>{1, 2}, std::vector<uint8_t>{1}), InternalError);
  EXPECT_THROW(writer.append(std::vector<int32_t>{1, 2}, std::vector<uint8_t>{1, 0}),
               InternalError);
}

TEST(TokenFile, EveryTruncationIsRefused) {
  TemporaryFolder folder;
  for (int32_t vocab_size : {100, 100'000}) {
    write_token_file(folder / "a.tokens", vocab_size, std::vector<int32_t>{5, 6, 7, 8, 9});
    const std::string whole = read_file(folder / "a.tokens");
    for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
      const auto cut = folder.write("cut.tokens", whole.substr(0, bytes));
      const std::string message = message_of<DataError>([&] { TokenFile file(cut); });
      EXPECT_THAT(message, HasSubstr(cut.string()));
    }
    EXPECT_THROW(TokenFile(folder.write("long.tokens", whole + '\0')), DataError);
    EXPECT_NO_THROW(TokenFile(folder.write("same.tokens", whole)));
  }
}

// Any header at all: refused, or everything readable is in range.
TEST(TokenFile, AnyHeaderIsRefusedOrSafe) {
  TemporaryFolder folder;
  std::mt19937_64 random(1);
  int refused = 0, valid = 0;
  auto attempt = [&](const std::string& bytes) {
    try {
      const TokenFile file(folder.write("changed.tokens", bytes));
      ASSERT_LE(file.token_count(), 20);
      ASSERT_LE(file.document_count(), file.token_count());
      for (int32_t token : read_all(file)) {
        ASSERT_GE(token, 0);
        ASSERT_LT(token, file.vocab_size());
      }
      for (int64_t i = 0; file.has_documents() && i < file.document_count(); ++i) {
        const TokenFile::Range range = file.document(i);
        ASSERT_GE(range.first, 0);
        ASSERT_GE(range.count, 1);
        ASSERT_LE(range.first + range.count, file.token_count());
      }
      ++valid;
    } catch (const DataError&) {
      ++refused;
    }
  };
  for (int32_t vocab_size : {100, 100'000}) {
    std::vector<int32_t> tokens(10);
    std::iota(tokens.begin(), tokens.end(), 60);
    write_token_file(folder / "a.tokens", vocab_size, tokens);
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

TEST(TokenFile, SaysWhatItFoundAndExpected) {
  TemporaryFolder folder;
  write_token_file(folder / "a.tokens", 100, std::vector<int32_t>{5, 6, 7});
  const std::string whole = read_file(folder / "a.tokens");
  auto changed = [&](size_t at, char value) {
    std::string bytes = whole;
    bytes[at] = value;
    return message_of<DataError>([&] { TokenFile file(folder.write("b.tokens", bytes)); });
  };
  EXPECT_THAT(changed(0, 'X'), HasSubstr("b.tokens: not a token file"));
  EXPECT_THAT(changed(8, 9), HasSubstr("version 9; expected version 1 to 7"));
  EXPECT_THAT(changed(12, 3), HasSubstr("3 bytes per token; expected 2 or 4"));
  EXPECT_THAT(
      changed(17, 15),
      HasSubstr("header says 3843 tokens of 2 bytes in 1 documents, the file holds 16 bytes"));
  EXPECT_THAT(changed(24, 2),
              HasSubstr("header says 3 tokens of 2 bytes in 2 documents, the file holds 16"));
  EXPECT_THAT(changed(16, 2), HasSubstr("changed since it was written: its header has the hash"));
  EXPECT_THAT(changed(44, 2), HasSubstr("bytes 44 to 47 are 2"));
  EXPECT_THAT(changed(72, 1), HasSubstr("its header has the hash"));
  EXPECT_THAT(changed(55, 127), HasSubstr(" lines skipped"));
  EXPECT_THAT(changed(24, 4), HasSubstr("4 documents in 3 tokens"));
  EXPECT_THAT(changed(42, 1), HasSubstr("vocabulary size 65636"));
}

TEST(TokenFile, FindsTokensOutsideTheVocabularyWhenTheyAreRead) {
  TemporaryFolder folder;
  for (int32_t vocab_size : {100, 100'000}) {
    write_token_file(folder / "a.tokens", vocab_size, std::vector<int32_t>{5, 6, 7, 8});
    std::string bytes = read_file(folder / "a.tokens");
    bytes[kHeaderBytes + 4 * (vocab_size == 100 ? 2 : 4) - 1] = '\xff';  // its highest byte
    const TokenFile file(folder.write("b.tokens", bytes));
    std::vector<int32_t> three(3);
    EXPECT_NO_THROW(file.read(0, three));
    const std::string message = message_of<DataError>([&] { file.read(1, three); });
    EXPECT_THAT(message, HasSubstr("b.tokens: corrupt: token 3 is "));
    EXPECT_THAT(message, HasSubstr("the vocabulary has " + std::to_string(vocab_size)));
  }
}

TEST(TokenFile, TheVocabularysSizeIsNoToken) {
  TemporaryFolder folder;
  write_token_file(folder / "a.tokens", 100, std::vector<int32_t>{99});
  EXPECT_EQ(read_all(TokenFile(folder / "a.tokens")).front(), 99);
  std::string bytes = read_file(folder / "a.tokens");
  bytes[kHeaderBytes] = 100;
  EXPECT_THROW(read_all(TokenFile(folder.write("b.tokens", bytes))), DataError);
}

TEST(TokenFile, RefusesWhatIsNoFile) {
  TemporaryFolder folder;
  EXPECT_THAT(message_of<DataError>([&] { TokenFile(folder / "none"); }),
              HasSubstr("No such file"));
  EXPECT_THROW(TokenFile(folder / ""), DataError);
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(TokenFile(folder / "pipe"), DataError);
}

TEST(TokenFile, ReadsOnlyWithinItself) {
  TemporaryFolder folder;
  write_token_file(folder / "a.tokens", 100, std::vector<int32_t>{5, 6, 7});
  const TokenFile file(folder / "a.tokens");
  std::vector<int32_t> two(2), four(4);
  EXPECT_NO_THROW(file.read(1, two));
  EXPECT_THROW(file.read(2, two), InternalError);
  EXPECT_THROW(file.read(-1, two), InternalError);
  EXPECT_THROW(file.read(0, four), InternalError);
  EXPECT_THROW(file.read(INT64_MAX, two), InternalError);
}

TEST(TokenFile, TellsTokenizersApart) {
  TemporaryFolder folder;
  write_token_file(folder / "a.tokens", 100, std::vector<int32_t>{5});
  const TokenFile file(folder / "a.tokens");
  EXPECT_NO_THROW(file.require_tokenizer(0x1234, "x.model"));
  const std::string message =
      message_of<ConfigError>([&] { file.require_tokenizer(0x1235, "x.model"); });
  for (const char* part : {"a.tokens", "x.model", "0000000000001234", "0000000000001235"})
    EXPECT_THAT(message, HasSubstr(part));
}

}  // namespace
}  // namespace longshore::data
