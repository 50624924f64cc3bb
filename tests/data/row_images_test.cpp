// Rows with images: places, blocks and pixels, of documents and synthetic ones.
#include "longshore/data/rows/row_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <set>

#include "longshore/base/error.h"
#include "longshore/data/files/content_hash.h"
#include "longshore/data/images/patches.h"
#include "longshore/data/rows/batches.h"
#include "longshore/data/rows/document_rows.h"
#include "longshore/data/rows/read_rows.h"
#include "tests/data/image_samples.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int32_t kImage = 7;

RowImages row_images(ImageText::Kind kind, int64_t images_per_row) {
  return {.text = {.kind = kind, .image_token = kImage, .tokens_per_image = 4},
          .pixels = {.height = 28, .width = 28},
          .patch_size = 14,
          .images_per_row = images_per_row};
}

BatchSchema schema_of(const RowImages& images, BatchShape shape,
                      Element element = Element::float32) {
  BatchSchema schema(shape);
  const int64_t slots = images.images_per_row;
  schema.inputs.push_back(
      {.name = kPixelValues, .element = element, .per_row = slots * images.pixels.value_count()});
  schema.inputs.push_back(
      {.name = kImagePlaces, .per_row = images.tokens_per_row(), .padding = kNoPlace});
  schema.inputs.push_back({.name = kBlocks, .per_row = shape.length});
  return schema;
}

// A document, and the names of its images.
struct WithImages {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> carries_loss;
  std::vector<std::string> images = {};
};

// Images, prompt and what is learnt, as PaliGemma has them.
WithImages before_text(const std::vector<std::string>& images, int prompt, int learnt,
                       int32_t first = 100) {
  WithImages document{std::vector<int32_t>(4 * images.size(), kImage), {}, images};
  for (int i = 0; i < prompt + learnt; ++i) document.tokens.push_back(first + i);
  document.carries_loss.assign(document.tokens.size(), 0);
  std::fill(document.carries_loss.end() - learnt, document.carries_loss.end(), 1);
  return document;
}

// Each image between two tokens of text, then what is learnt, as Gemma 3 has them.
WithImages in_text(const std::vector<std::string>& images, int learnt, int32_t first = 100) {
  WithImages document{{first}, {}, images};
  for (size_t i = 0; i < images.size(); ++i) {
    document.tokens.insert(document.tokens.end(), 4, kImage);
    document.tokens.push_back(++first);
  }
  document.carries_loss.assign(document.tokens.size(), 0);
  for (int i = 0; i < learnt; ++i) document.tokens.push_back(++first);
  document.carries_loss.resize(document.tokens.size(), 1);
  return document;
}

class RowImagesTest : public testing::Test {
 protected:
  ImageReference reference(const std::string& name) {
    const auto bytes = samples_.file(name);
    ContentHash hash;
    hash.append(bytes);
    const std::string contents(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const bool is_embedded = name.ends_with(".png");
    if (!is_embedded) folder_.write(name, contents);
    return {.kind = is_embedded ? ImageSource::Kind::embedded : ImageSource::Kind::path,
            .line_number = 3,
            .size = std::ssize(bytes),
            .hash = hash.words(),
            .contents = is_embedded ? contents : name};
  }

  std::shared_ptr<const TokenFile> file_of(const std::vector<WithImages>& documents) {
    TokenFileWriter writer(folder_ / "a.tokens", 60'000, 0, LossMask::present);
    for (const WithImages& document : documents) {
      std::vector<ImageReference> images;
      for (const std::string& name : document.images) images.push_back(reference(name));
      writer.append(document.tokens, document.carries_loss, images);
    }
    writer.finish();
    return std::make_shared<TokenFile>(folder_ / "a.tokens");
  }

  std::vector<float> patches_of(const std::string& name, const RowImages& images) {
    std::vector<float> planes(static_cast<size_t>(images.pixels.value_count()));
    write_pixel_values(decode_image(samples_.file(name)), images.pixels, planes);
    return to_patches(planes, images.pixels.height, images.patch_size);
  }

  ImageSamples samples_{"reference"};
  TemporaryFolder folder_;
};

std::vector<float> slot(const Batch& batch, int64_t number, const RowImages& images) {
  const auto& values = std::get<std::vector<float>>(batch.inputs.at(kPixelValues));
  const auto begin = values.begin() + number * images.pixels.value_count();
  return {begin, begin + images.pixels.value_count()};
}

std::vector<int32_t> row_of(const Batch& batch, const char* name, int64_t row) {
  const std::vector<int32_t>& values = batch[name];
  const auto per_row = std::ssize(values) / batch.shape.rows;
  return {values.begin() + row * per_row, values.begin() + (row + 1) * per_row};
}

TEST_F(RowImagesTest, HavePixelsPlacesAndOneBlockBeforeText) {
  const RowImages images = row_images(ImageText::Kind::before_text, 2);
  const auto rows = std::make_shared<const DocumentRows>(
      file_of({before_text({"baseline.jpg"}, 2, 2), before_text({}, 1, 3),
               before_text({"grey.png", "palette.png"}, 1, 1)}),
      DocumentRowsOptions{.length = 12, .images = images});
  const Batch batch = sequential_batches(rows, schema_of(images, {3, 12}))(0);
  EXPECT_EQ(rows->counts().images, 3);
  EXPECT_THAT(row_of(batch, kBlocks, 0), ElementsAre(1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(row_of(batch, kBlocks, 1), ElementsAre(1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(row_of(batch, kBlocks, 2), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0));
  EXPECT_THAT(row_of(batch, kImagePlaces, 0), ElementsAre(0, 1, 2, 3, -1, -1, -1, -1));
  EXPECT_THAT(row_of(batch, kImagePlaces, 1), Each(-1));
  EXPECT_THAT(row_of(batch, kImagePlaces, 2), ElementsAre(24, 25, 26, 27, 28, 29, 30, 31));
  EXPECT_EQ(slot(batch, 0, images), patches_of("baseline.jpg", images));
  for (int64_t empty : {1, 2, 3}) EXPECT_THAT(slot(batch, empty, images), Each(0.0f));
  EXPECT_EQ(slot(batch, 4, images), patches_of("grey.png", images));
  EXPECT_EQ(slot(batch, 5, images), patches_of("palette.png", images));
  EXPECT_EQ(batch.total_weights, 6);
}

TEST_F(RowImagesTest, HaveABlockForEachImageInText) {
  const RowImages images = row_images(ImageText::Kind::in_text, 3);
  const auto rows = std::make_shared<const DocumentRows>(
      file_of({in_text({"grey.png", "baseline.jpg"}, 2), in_text({"palette.png"}, 2)}),
      DocumentRowsOptions{.length = 19, .packing = true, .images = images});
  ASSERT_EQ(rows->count(), 1);
  const Batch batch = sequential_batches(rows, schema_of(images, {1, 19}))(0);
  EXPECT_THAT(row_of(batch, kBlocks, 0),
              ElementsAre(0, 1, 1, 1, 1, 0, 2, 2, 2, 2, 0, 0, 0, 3, 3, 3, 3, 0, 0));
  EXPECT_THAT(row_of(batch, kImagePlaces, 0), ElementsAre(1, 2, 3, 4, 6, 7, 8, 9, 13, 14, 15, 16));
  EXPECT_EQ(slot(batch, 1, images), patches_of("baseline.jpg", images));
  EXPECT_EQ(slot(batch, 2, images), patches_of("palette.png", images));
}

TEST_F(RowImagesTest, HaveABlockForEachPackedPrompt) {
  const RowImages images = row_images(ImageText::Kind::before_text, 2);
  const auto rows = std::make_shared<const DocumentRows>(
      file_of({before_text({"grey.png"}, 1, 2), before_text({}, 2, 2)}),
      DocumentRowsOptions{.length = 10, .packing = true, .images = images});
  ASSERT_EQ(rows->count(), 1);
  const Batch batch = sequential_batches(rows, schema_of(images, {1, 10}))(0);
  EXPECT_THAT(row_of(batch, kBlocks, 0), ElementsAre(1, 1, 1, 1, 1, 0, 2, 2, 0, 0));
}

TEST_F(RowImagesTest, AreRoundedToBfloat16) {
  const RowImages images = row_images(ImageText::Kind::before_text, 1);
  const auto rows =
      std::make_shared<const DocumentRows>(file_of({before_text({"grey.png"}, 1, 1)}),
                                           DocumentRowsOptions{.length = 8, .images = images});
  const Batch batch = sequential_batches(rows, schema_of(images, {1, 8}, Element::bfloat16))(0);
  const auto& values = std::get<std::vector<bfloat16>>(batch.inputs.at(kPixelValues));
  const std::vector<float> expected = patches_of("grey.png", images);
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i].bits, to_bfloat16(expected[i]).bits) << i;
}

// Every document once, as many images in a row as there are slots at most, and each image's places
// where its document has its tokens; asked for in any order.
TEST_F(RowImagesTest, ArePackedWithinTheirSlots) {
  std::mt19937_64 random(3);
  const std::vector<std::string> names = {"grey.png", "palette.png", "one_pixel.png"};
  for (ImageText::Kind kind : {ImageText::Kind::before_text, ImageText::Kind::in_text}) {
    std::vector<WithImages> documents;
    std::multiset<std::vector<int32_t>> expected;
    for (int32_t i = 0; i < 400; ++i) {
      std::vector<std::string> images(random() % 4);
      for (std::string& name : images) name = names[random() % names.size()];
      const int length = static_cast<int>(1 + random() % 6);
      documents.push_back(kind == ImageText::Kind::before_text
                              ? before_text(images, length, 2, 100 + 16 * i)
                              : in_text(images, length, 100 + 16 * i));
      const auto& tokens = documents.back().tokens;
      if (images.size() <= 3) expected.insert({tokens.begin(), tokens.end() - 1});
    }
    const RowImages images = row_images(kind, 3);
    const auto rows = std::make_shared<const DocumentRows>(
        file_of(documents), DocumentRowsOptions{.length = 40, .packing = true, .images = images});
    const BatchSchema schema = schema_of(images, {1, 40});
    const BatchSource source = sequential_batches(rows, schema);
    std::multiset<std::vector<int32_t>> found;
    for (int64_t row = rows->count() - 1; row >= 0; --row) {
      const Batch batch = source(row);
      std::map<int32_t, std::vector<int32_t>> segments;
      std::map<int32_t, std::set<int32_t>> segments_of_block;
      std::vector<int32_t> places;
      for (int32_t i = 0; i < 40; ++i) {
        if (batch[kSegments][i] == kPadding) continue;
        segments[batch[kSegments][i]].push_back(batch[kTokens][i]);
        if (batch[kTokens][i] == kImage) places.push_back(i);
        if (batch[kBlocks][i] > 0) segments_of_block[batch[kBlocks][i]].insert(batch[kSegments][i]);
        if (batch[kTokens][i] == kImage) {
          EXPECT_GT(batch[kBlocks][i], 0);
        }
      }
      ASSERT_LE(places.size(), 12u);
      places.resize(12, kNoPlace);
      EXPECT_EQ(batch[kImagePlaces], places);
      for (const auto& [number, inside] : segments_of_block) EXPECT_EQ(inside.size(), 1u);
      for (const auto& [number, tokens] : segments) found.insert(tokens);
    }
    EXPECT_EQ(found, expected);
    EXPECT_EQ(rows->counts().too_many_images, 0);
  }
}

TEST_F(RowImagesTest, LeaveOutWhatHasTooMany) {
  const auto file = file_of({before_text({"grey.png", "grey.png"}, 1, 1),
                             before_text({"grey.png"}, 1, 1), before_text({}, 1, 1)});
  const DocumentRows rows(file,
                          {.length = 12, .images = row_images(ImageText::Kind::before_text, 1)});
  EXPECT_EQ(rows.count(), 2);
  EXPECT_EQ(rows.counts().too_many_images, 1);
  EXPECT_EQ(rows.counts().images, 1);
  const auto all = file_of({before_text({"grey.png", "grey.png"}, 1, 1)});
  EXPECT_THAT(message_of<DataError>([&] {
                DocumentRows(all,
                             {.length = 12, .images = row_images(ImageText::Kind::before_text, 1)});
              }),
              HasSubstr("1 with more than the 1 images of a row (max_num_images_per_example)"));
}

TEST_F(RowImagesTest, AreNeverCut) {
  const RowImages images = row_images(ImageText::Kind::in_text, 2);
  const std::vector<WithImages> documents = {in_text({"grey.png"}, 9),
                                             in_text({"grey.png", "grey.png"}, 4), in_text({}, 20),
                                             in_text({"grey.png"}, 3)};
  struct Case {
    ExcessLength excess_length;
    int64_t rows, cut;
  };
  for (const Case& one : {Case{ExcessLength::truncate, 3, 1},
                          {ExcessLength::split, 4, 2},
                          {ExcessLength::skip, 1, 0}}) {
    const auto rows = std::make_shared<const DocumentRows>(
        file_of(documents),
        DocumentRowsOptions{.length = 9, .excess_length = one.excess_length, .images = images});
    EXPECT_EQ(rows->count(), one.rows);
    EXPECT_EQ(rows->counts().too_long, 3);
    EXPECT_EQ(rows->counts().images_cut, one.cut);
    EXPECT_NO_THROW(sequential_batches(rows, schema_of(images, {rows->count(), 9}))(0));
  }
  // An image's last token as a row's last target would have no place.
  const auto exact =
      file_of({{{1, 2, kImage, kImage, kImage, kImage, 3}, {0, 1, 0, 0, 0, 0, 1}, {"grey.png"}},
               in_text({}, 3)});
  const DocumentRows rows(exact, {.length = 5, .images = images});
  EXPECT_EQ(rows.counts().images_cut, 1);
}

TEST_F(RowImagesTest, AreNotWhatTheTokensSay) {
  const RowImages images = row_images(ImageText::Kind::before_text, 2);
  for (const WithImages& document :
       {WithImages{{kImage, 1, 2}, {0, 0, 1}},
        {{kImage, 1, 2}, {0, 0, 1}, {"grey.png"}},
        {{1, 2, kImage}, {0, 1, 0}},
        {{1, kImage, kImage, kImage, kImage}, {0, 1, 1, 1, 1}, {"grey.png"}}}) {
    const auto rows = std::make_shared<const DocumentRows>(
        file_of({document}), DocumentRowsOptions{.length = 8, .images = images});
    const std::string message = message_of<DataError>([&] {
      sequential_batches(rows, schema_of(images, {1, 8}))(0);
    });
    EXPECT_THAT(message, HasSubstr("a.tokens: from token 0 on: found the token 7, which stands "));
    EXPECT_THAT(message, HasSubstr("Tokenize the text again, for this model"));
  }
  EXPECT_THAT(message_of<DataError>(
                  [&] { DocumentRows(file_of({before_text({"grey.png"}, 1, 1)}), {.length = 8}); }),
              HasSubstr("found 1 image, but the model reads none; nearest: use_multimodal=true"));
}

TEST_F(RowImagesTest, AreDecodedOnlyForRowsThatHavePixels) {
  const RowImages images = row_images(ImageText::Kind::before_text, 1);
  const auto rows =
      std::make_shared<const DocumentRows>(file_of({before_text({"baseline.jpg"}, 1, 1)}),
                                           DocumentRowsOptions{.length = 8, .images = images});
  folder_.write("baseline.jpg", "changed");
  EXPECT_NO_THROW(sequential_batches(rows, {1, 8})(0));
  EXPECT_THAT(message_of<DataError>([&] {
                sequential_batches(rows, schema_of(images, {1, 8}))(0);
              }),
              HasSubstr("baseline.jpg (line 3 of the text of "));
}

TEST_F(RowImagesTest, DoNotDependOnThreads) {
  const RowImages images = row_images(ImageText::Kind::before_text, 2);
  std::vector<WithImages> documents;
  for (int32_t i = 0; i < 40; ++i)
    documents.push_back(before_text({i % 2 ? "grey.png" : "baseline.jpg"}, 1 + i % 3, 2, 100 + i));
  const DocumentRows rows(file_of(documents), {.length = 16, .packing = true, .images = images});
  const BatchSchema schema = schema_of(images, {rows.count(), 16});
  auto read = [&](int64_t threads) {
    Batch batch = padding(schema);
    read_rows(rows.count(), threads, [&](int64_t row) { rows.read(row, Row(batch, row)); });
    return batch;
  };
  const Batch alone = read(1);
  for (int64_t threads : {2, 7, 100}) {
    const Batch found = read(threads);
    EXPECT_TRUE(std::get<std::vector<float>>(found.inputs.at(kPixelValues)) ==
                std::get<std::vector<float>>(alone.inputs.at(kPixelValues)));
    for (const char* name : {kTokens, kTargets, kBlocks, kImagePlaces})
      EXPECT_EQ(found[name], alone[name]) << name << ", " << threads;
  }
}

TEST(ReadRows, PassOnWhatTheFirstThatFailsThrows) {
  for (int64_t threads : {1, 2, 8})
    for (int round = 0; round < 20; ++round) {
      std::atomic<int64_t> read = 0;
      EXPECT_EQ(message_of<DataError>([&] {
                  read_rows(50, threads, [&](int64_t row) {
                    ++read;
                    if (row % 10 == 7) throw DataError("row " + std::to_string(row));
                  });
                }),
                "row 7");
      EXPECT_GE(read, 8);
    }
  EXPECT_NO_THROW(read_rows(0, 4, [](int64_t) { throw DataError("none"); }));
}

TEST(SyntheticBatches, HaveImagesInEachRow) {
  for (ImageText::Kind kind : {ImageText::Kind::before_text, ImageText::Kind::in_text}) {
    const RowImages images = row_images(kind, 2);
    const BatchSchema schema = schema_of(images, {3, 32});
    const BatchSource source = synthetic_batches(schema, 20, 5, {}, images);
    const Batch batch = source(1);
    for (int64_t row = 0; row < 3; ++row) {
      std::vector<int32_t> places;
      std::set<int32_t> blocks;
      for (int32_t i = static_cast<int32_t>(32 * row); i < 32 * (row + 1); ++i) {
        EXPECT_NE(batch[kTargets][i], kImage);
        if (batch[kTokens][i] != kImage) continue;
        places.push_back(i);
        blocks.insert(batch[kBlocks][i]);
      }
      EXPECT_EQ(row_of(batch, kImagePlaces, row), places);
      EXPECT_EQ(blocks.size(), kind == ImageText::Kind::before_text ? 1u : 2u);
      EXPECT_FALSE(blocks.contains(0));
    }
    const auto& values = std::get<std::vector<float>>(batch.inputs.at(kPixelValues));
    double sum = 0, squares = 0;
    for (float value : values) {
      EXPECT_GE(value, -1);
      EXPECT_LE(value, 1);
      sum += value;
      squares += value * value;
    }
    const auto count = static_cast<double>(values.size());
    EXPECT_NEAR(sum / count, 0, 0.03);
    EXPECT_NEAR(squares / count, 1.0 / 3, 0.03);
    EXPECT_NE(slot(batch, 0, images), slot(batch, 1, images));
    // A row is a function of its number alone.
    const Batch other = synthetic_batches(schema_of(images, {1, 32}), 20, 5, {}, images)(4);
    EXPECT_EQ(slot(other, 0, images), slot(batch, 2, images));
    EXPECT_EQ(row_of(other, kTokens, 0), row_of(batch, kTokens, 1));
    EXPECT_EQ(row_of(other, kBlocks, 0), row_of(batch, kBlocks, 1));
  }
  const RowImages images = row_images(ImageText::Kind::in_text, 2);
  EXPECT_THAT(message_of<ConfigError>([&] {
                synthetic_batches(schema_of(images, {1, 9}), 20, 5, {}, images);
              }),
              HasSubstr("max_target_length: found 9, expected at least 10 for 2 images a row"));
}

}  // namespace
}  // namespace longshore::data
