#include "longshore/data/rows/document_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "longshore/base/error.h"
#include "longshore/data/rows/batches.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

struct Document {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> carries_loss;
  auto operator<=>(const Document&) const = default;
};

// Documents that all differ, of 2 to `longest` tokens.
std::vector<Document> some_documents(size_t count, size_t longest, LossMask marks) {
  std::mt19937_64 random(count + longest);
  std::vector<Document> documents(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t length = 2 + random() % (longest - 1);
    for (size_t t = 0; t < length; ++t) {
      documents[i].tokens.push_back(static_cast<int32_t>((i * 131 + t) % 60'000));
      documents[i].carries_loss.push_back(marks == LossMask::absent || random() % 2);
    }
    documents[i].carries_loss.back() = 1;
  }
  return documents;
}

std::shared_ptr<const TokenFile> file_of(const TemporaryFolder& folder,
                                         const std::vector<Document>& documents,
                                         LossMask marks = LossMask::present) {
  TokenFileWriter writer(folder / "a.tokens", 60'000, 0, marks);
  for (const Document& document : documents) writer.append(document.tokens, document.carries_loss);
  writer.finish();
  return std::make_shared<TokenFile>(folder / "a.tokens");
}

Batch all_of(const std::shared_ptr<const DocumentRows>& rows, int64_t length) {
  return sequential_batches(rows, {rows->count(), length})(0);
}

// The sequences of a batch: what a row has as one segment, with the last target. What is not
// trained has lost its target; it is the next token, but behind the last.
std::vector<Document> sequences_of(const Batch& batch) {
  std::vector<Document> found;
  const int64_t length = batch.shape.length;
  for (int64_t i = 0; i < batch.shape.rows * length; ++i) {
    const bool begins_row = i % length == 0;
    if (batch["segments"][i] == kPadding) {
      EXPECT_EQ(batch["targets"][i], kIgnoredTarget);
      EXPECT_EQ(batch["tokens"][i], 0);
      continue;
    }
    if (begins_row || batch["segments"][i] != batch["segments"][i - 1]) {
      EXPECT_EQ(batch["segments"][i], begins_row ? 1 : batch["segments"][i - 1] + 1);
      EXPECT_EQ(batch["positions"][i], 0);
      found.push_back({{batch["tokens"][i]}, {0}});
    } else {
      EXPECT_EQ(batch["positions"][i], batch["positions"][i - 1] + 1);
      EXPECT_EQ(found.back().tokens.back(), batch["tokens"][i]);
    }
    const bool ends = (i + 1) % length == 0 || batch["segments"][i + 1] != batch["segments"][i];
    const bool is_trained = batch["targets"][i] != kIgnoredTarget;
    EXPECT_TRUE(!is_trained || ends || batch["targets"][i] == batch["tokens"][i + 1]);
    found.back().tokens.push_back(ends ? batch["targets"][i] : batch["tokens"][i + 1]);
    found.back().carries_loss.push_back(is_trained);
  }
  return found;
}

// As a sequence shows it: nobody predicts the first token.
Document as_sequence(Document document) {
  document.carries_loss.front() = 0;
  return document;
}

TEST(DocumentRows, HoldEveryDocumentOnce) {
  TemporaryFolder folder;
  for (LossMask marks : {LossMask::absent, LossMask::present})
    for (size_t longest : {2, 9, 33}) {
      const std::vector<Document> documents = some_documents(700, longest, marks);
      const auto file = file_of(folder, documents, marks);
      std::vector<Document> expected;
      for (const Document& document : documents) expected.push_back(as_sequence(document));
      std::ranges::sort(expected);
      for (bool packing : {false, true}) {
        auto rows = std::make_shared<const DocumentRows>(
            file, DocumentRowsOptions{.length = 32, .packing = packing});
        std::vector<Document> found = sequences_of(all_of(rows, 32));
        std::ranges::sort(found);
        EXPECT_EQ(found, expected);
        if (!packing) {
          EXPECT_EQ(rows->count(), 700);
        }
        EXPECT_EQ(rows->counts().units, 700);
        EXPECT_EQ(rows->counts().too_long, 0);
        EXPECT_EQ(rows->counts().untrained, 0);

        // And once in each epoch of a shuffled source.
        const BatchSource source = shuffled_batches({{rows, std::nullopt}}, {rows->count(), 32}, 5);
        for (int64_t epoch : {0, 3}) {
          std::vector<Document> shuffled = sequences_of(source(epoch));
          EXPECT_NE(shuffled, found);
          std::ranges::sort(shuffled);
          EXPECT_EQ(shuffled, expected);
        }
      }
    }
}

TEST(DocumentRows, PackTightly) {
  TemporaryFolder folder;
  const auto file = file_of(folder, some_documents(20'000, 100, LossMask::absent));
  const DocumentRows rows(file, {.length = 256, .packing = true});
  const double full =
      static_cast<double>(rows.counts().positions) / static_cast<double>(rows.count() * 256);
  EXPECT_GT(full, 0.98);
  EXPECT_LE(full, 1);
}

TEST(DocumentRows, TruncateSplitOrSkipWhatIsTooLong) {
  TemporaryFolder folder;
  std::vector<Document> documents(3);
  for (int32_t t = 0; t < 12; ++t) {  // 12 tokens, and sequences have 5
    documents[0].tokens.push_back(100 + t);
    documents[0].carries_loss.push_back(t >= 3);
  }
  documents[1] = {{1, 2, 3, 4, 5}, {0, 0, 0, 0, 1}};
  documents[2] = {{11, 12, 13, 14, 15, 16}, {1, 0, 0, 0, 0, 1}};
  const auto file = file_of(folder, documents);
  auto sequences = [&](ExcessLength excess) {
    auto rows = std::make_shared<const DocumentRows>(
        file, DocumentRowsOptions{.length = 4, .excess_length = excess});
    EXPECT_EQ(rows->counts().too_long, 2);
    EXPECT_EQ(rows->counts().untrained, excess == ExcessLength::skip ? 0 : 1);
    return sequences_of(all_of(rows, 4));
  };
  const Document fits = as_sequence(documents[1]);
  const Document head = {{100, 101, 102, 103, 104}, {0, 0, 0, 1, 1}};
  // The first five tokens of document 2 have no target that carries loss.
  EXPECT_EQ(sequences(ExcessLength::truncate), (std::vector<Document>{head, fits}));
  EXPECT_EQ(sequences(ExcessLength::skip), std::vector<Document>{fits});
  EXPECT_EQ(sequences(ExcessLength::split),
            (std::vector<Document>{head,
                                   {{104, 105, 106, 107, 108}, {0, 1, 1, 1, 1}},
                                   {{108, 109, 110, 111}, {0, 1, 1, 1}},
                                   fits,
                                   {{15, 16}, {0, 1}}}));
}

TEST(DocumentRows, SplitDocumentsAreWhole) {
  TemporaryFolder folder;
  const std::vector<Document> documents = some_documents(200, 300, LossMask::absent);
  const auto file = file_of(folder, documents, LossMask::absent);
  int64_t targets = 0;
  for (const Document& document : documents) targets += std::ssize(document.tokens) - 1;
  for (bool packing : {false, true}) {
    auto rows = std::make_shared<const DocumentRows>(
        file, DocumentRowsOptions{
                  .length = 16, .packing = packing, .excess_length = ExcessLength::split});
    EXPECT_EQ(all_of(rows, 16).total_weights, targets);
    EXPECT_EQ(rows->counts().positions, targets);
  }
}

TEST(DocumentRows, ReadARowWithoutRegardToOthers) {
  TemporaryFolder folder;
  const auto file = file_of(folder, some_documents(3000, 30, LossMask::present));
  const auto rows = std::make_shared<const DocumentRows>(
      file, DocumentRowsOptions{.length = 20, .packing = true});
  const Batch all = all_of(rows, 20);
  const BatchSource one = sequential_batches(rows, {1, 20});
  for (int64_t row = rows->count() - 1; row >= 0; row -= 7) {
    const Batch alone = one(row);
    EXPECT_TRUE(std::equal(alone["tokens"].begin(), alone["tokens"].end(),
                           all["tokens"].begin() + row * 20));
    EXPECT_TRUE(std::equal(alone["targets"].begin(), alone["targets"].end(),
                           all["targets"].begin() + row * 20));
    EXPECT_GT(alone.total_weights, 0);
  }
}

TEST(DocumentRows, RefuseAFileWithoutDocumentsOrRows) {
  TemporaryFolder folder;
  const Document document{{1, 2, 3, 4, 5, 6}, {0, 0, 0, 0, 0, 1}};
  auto message = [&](ExcessLength excess) {
    return message_of<DataError>(
        [&] { DocumentRows(file_of(folder, {document}), {.length = 4, .excess_length = excess}); });
  };
  EXPECT_EQ(message(ExcessLength::skip),
            "found nothing to train on in 1 document: 1 with more than the 5 tokens that a row of "
            "4 takes, 0 with nothing to learn in it");
  EXPECT_THAT(message(ExcessLength::truncate), HasSubstr("1 with nothing to learn"));
  EXPECT_THROW(DocumentRows(file_of(folder, {}), {.length = 4}), DataError);

  file_of(folder, {document});
  std::string old = read_file(folder / "a.tokens").substr(0, 48);
  old[8] = 1;
  old[16] = old[44] = 0;
  old[24] = 0;
  const auto version1 = std::make_shared<TokenFile>(folder.write("old.tokens", old));
  EXPECT_THAT(message_of<DataError>([&] { DocumentRows(version1, {.length = 4}); }),
              HasSubstr("a token file of version 1, which does not know"));
}

}  // namespace
}  // namespace longshore::data
