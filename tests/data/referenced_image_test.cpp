// Images of lines of JSON, from the text to the token file and back.
#include "longshore/data/rows/referenced_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "longshore/base/error.h"
#include "longshore/data/text/tokenize_files.h"
#include "longshore/data/text/tokenized_file.h"
#include "tests/data/image_samples.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string sample(const std::string& name) {
  const ImageSamples samples("reference");
  const auto bytes = samples.file(name);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string base64(const std::string& bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (at + i < bytes.size() ? static_cast<uint8_t>(bytes[at + i]) : 0);
    for (size_t i = 0; i < 4; ++i)
      text += at + i > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * i) & 63];
  }
  return text;
}

std::string pair_line(const std::string& images) {
  return R"({"prefix": "caption en", "suffix": "two boats", "images": [)" + images + "]}\n";
}

// Images beside the text, whose tokens go to another folder. The image token is one that no text of
// the small tokenizer has.
class ReferencedImage : public testing::Test {
 protected:
  ReferencedImage() {
    fs::create_directories(folder_ / "text/images");
    fs::create_directories(folder_ / "out");
    for (const char* name : {"baseline.jpg", "grey.png", "palette.png"})
      folder_.write(std::string("text/images/") + name, sample(name));
  }

  TokenizeSummary tokenize(const std::string& lines, TokenizeOptions options = {}) {
    options.encode.image_text = kImageText;
    const fs::path text = folder_.write("text/a.jsonl", lines);
    return tokenize_files(tokenizer_, {{text}}, folder_ / "out/a.tokens", options);
  }
  std::string refusal(const std::string& lines, const TokenizeOptions& options = {}) {
    return message_of<DataError>([&] { tokenize(lines, options); });
  }
  TokenFile tokens() const { return TokenFile(folder_ / "out/a.tokens"); }

  static constexpr ImageText kImageText{
      .kind = ImageText::Kind::before_text, .image_token = 4, .tokens_per_image = 3};
  TemporaryFolder folder_;
  Tokenizer tokenizer_{"tests/goldens/tokenizers/gemma_bpe/tokenizer.json"};
};

TEST_F(ReferencedImage, IsWhatItsFileHolds) {
  const std::string path = (folder_ / "text/images/palette.png").string();
  const TokenizeSummary summary = tokenize(
      pair_line(R"("images/baseline.jpg", ")" + base64(sample("grey.png")) + '"') +
      "\n{\"prefix\": \"a\", \"suffix\": \"b\"}\n" +
      pair_line("\"data:image/png;base64," + base64(sample("rgba.png")) + "\", \"" + path + "\""));
  EXPECT_EQ(summary.documents, 3);
  EXPECT_EQ(summary.images, 4);
  const TokenFile file = tokens();
  ASSERT_EQ(file.image_count(), 4);
  const std::vector<std::string> names = {"baseline.jpg", "grey.png", "rgba.png", "palette.png"};
  const ImageSamples samples("reference");
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(file.image(i).line_number, i < 2 ? 1 : 4);
    expect_same_image(read_image(file, i), decode_image(samples.file(names[i])), names[i]);
  }
  EXPECT_EQ(file.image(0).contents, "../text/images/baseline.jpg");
  EXPECT_EQ(file.image(1).contents, sample("grey.png"));
  EXPECT_EQ(file.image(3).contents, path);
  EXPECT_EQ(file.images(1).count, 0);
  EXPECT_EQ(file.images(2).first, 2);
}

TEST_F(ReferencedImage, MovesWithItsText) {
  tokenize(pair_line("\"images/../images/grey.png\""));
  fs::create_directories(folder_ / "elsewhere");
  for (const char* name : {"text", "out"}) fs::rename(folder_ / name, folder_ / "elsewhere" / name);
  EXPECT_EQ(read_image(TokenFile(folder_ / "elsewhere/out/a.tokens"), 0).width,
            decode_image(ImageSamples("reference").file("grey.png")).width);
}

TEST_F(ReferencedImage, IsWhatItWasWhenItsTextWasTokenized) {
  tokenize("\n" + pair_line("\"images/grey.png\""));
  const TokenFile file = tokens();
  const std::string line = (folder_ / "text/images/grey.png").string() +
                           " (line 2 of the text of " + (folder_ / "out/a.tokens").string() + "): ";
  auto message = [&] { return message_of<DataError>([&] { read_image(file, 0); }); };
  const std::string whole = sample("grey.png");
  std::string changed = whole;
  changed.back() = static_cast<char>(changed.back() ^ 1);
  folder_.write("text/images/grey.png", changed);
  EXPECT_THAT(message(), HasSubstr(line + "changed since its text was tokenized: found 239 bytes "
                                          "with another hash; nearest: remove the token file, and "
                                          "tokenize its text again"));
  folder_.write("text/images/grey.png", whole + "x");
  EXPECT_THAT(message(), HasSubstr("found 240 bytes, expected 239; nearest: remove"));
  fs::remove(folder_ / "text/images/grey.png");
  EXPECT_THAT(message(), HasSubstr("cannot open: No such file or directory (line 2 of the text"));
  folder_.write("text/images/grey.png", whole);
  EXPECT_NO_THROW(read_image(file, 0));
}

// That training reads a text of it makes it again.
TEST_F(ReferencedImage, OfAnotherSizeHasItsTextTokenizedAgain) {
  const fs::path text = folder_.write("text/a.jsonl", pair_line("\"images/grey.png\""));
  auto open = [&] {
    return open_tokenized(text, tokenizer_, {.encode = {.image_text = kImageText}},
                          folder_ / "cache");
  };
  const ImageReference first = open()->image(0);
  EXPECT_EQ(open()->image(0), first);
  folder_.write("text/images/grey.png", sample("rgba.png"));
  const auto again = open();
  EXPECT_NE(again->image(0), first);
  EXPECT_NO_THROW(read_image(*again, 0));
  fs::remove(folder_ / "text/images/grey.png");
  EXPECT_THAT(message_of<DataError>(open), HasSubstr("a.jsonl:1"));
}

TEST_F(ReferencedImage, IsABadLineWhereItIsBad) {
  std::string bomb = sample("one_pixel.png");
  bomb[17] = bomb[21] = 15;  // the second bytes of width and height
  std::string cut = sample("baseline.jpg");
  cut.resize(cut.size() / 2);
  const std::string wide = folder_.write("text/bomb.png", bomb).string();
  folder_.write("text/cut.jpg", cut);
  folder_.write("text/anim.gif", "GIF89a");
  struct Bad {
    std::string image, message;
  };
  const std::string good = pair_line("\"images/grey.png\"");
  const Bad kBad[] = {
      {"bomb.png", wide + ": found 983041 x 983041 pixels, expected at most 178956970 pixels"},
      {"cut.jpg", "text/cut.jpg: "},
      {"anim.gif", "text/anim.gif: found GIF, expected PNG or JPEG"},
      {"none.png", "text/none.png: cannot open: No such file"},
      {"images", "text/images: expected a regular file, found a folder"},
      {base64(bomb), "the image in base64: found 983041 x 983041 pixels"},
      {"http://a/b.png", "images[0]: found \"http://a/b.png\", expected the path of a file here"},
  };
  std::string all = good;
  for (const Bad& bad : kBad) {
    const std::string line = pair_line('"' + bad.image + '"');
    EXPECT_THAT(refusal(good + line), HasSubstr("a.jsonl:2: "));
    EXPECT_THAT(refusal(good + line), HasSubstr(bad.message));
    all += line;
  }
  EXPECT_THAT(refusal(good, {.max_image_pixels = 100}), HasSubstr("expected at most 100 pixels"));
  const TokenizeSummary summary = tokenize(all + good, {.skip_bad_lines = true});
  EXPECT_EQ(summary.documents, 2);
  EXPECT_EQ(summary.skipped_lines, std::ssize(kBad));
  EXPECT_EQ(tokens().image(1).line_number, std::ssize(kBad) + 2);
}

TEST_F(ReferencedImage, NeedsAModelThatReadsImages) {
  const fs::path text = folder_.write("text/a.jsonl", pair_line("\"images/grey.png\""));
  EXPECT_THAT(message_of<DataError>(
                  [&] { tokenize_files(tokenizer_, {{text}}, folder_ / "out/a.tokens"); }),
              HasSubstr("a.jsonl:1: found 1 image, but the model reads none; nearest: use_multi"));
  TokenizeOptions options{.encode = {.image_text = kImageText}};
  options.encode.image_text->image_token = tokenizer_.vocab_size();
  EXPECT_THAT(message_of<DataError>(
                  [&] { tokenize_files(tokenizer_, {{text}}, folder_ / "out/a.tokens", options); }),
              HasSubstr("expected one with the id 887, which stands for images"));
}

TEST_F(ReferencedImage, DoesNotDependOnChunks) {
  std::string lines;
  for (int i = 0; i < 100; ++i)
    lines += i % 3 == 0 ? "{\"prefix\": \"a\", \"suffix\": \"b\"}\n"
                        : pair_line(i % 2 ? "\"images/grey.png\"" : "\"images/baseline.jpg\"");
  tokenize(lines);
  const TokenFile file = tokens();
  ASSERT_EQ(file.document_count(), 100);
  for (int i = 0; i < 100; ++i) {
    const auto [first, count] = file.images(i);
    ASSERT_EQ(count, i % 3 == 0 ? 0 : 1);
    if (count == 1) {
      EXPECT_EQ(file.image(first).line_number, i + 1);
    }
  }
}

// As far as it decides about the tokens and where the images are.
TEST_F(ReferencedImage, DecidesAboutTheNameInTheCache) {
  const fs::path text = folder_.write("text/a.jsonl", pair_line("\"images/grey.png\"")),
                 plain = folder_.write("text/a.txt", "one");
  fs::copy(folder_ / "text", folder_ / "copy", fs::copy_options::recursive);
  auto name = [&](const fs::path& path, const TokenizeOptions& options, const char* cache = "out") {
    return open_tokenized(path, tokenizer_, options, folder_ / cache)->path().filename();
  };
  const TokenizeOptions options{.encode = {.image_text = kImageText}};
  const fs::path first = name(text, options);
  EXPECT_EQ(name(text, options), first);
  EXPECT_NE(name(folder_ / "copy/a.jsonl", options), first);
  EXPECT_NE(name(text, {.encode = {.image_text = kImageText}, .max_image_pixels = 1 << 20}), first);
  EXPECT_NE(name(text, options, "text/out"), first);
  TokenizeOptions more = options;
  more.encode.image_text->tokens_per_image = 4;
  EXPECT_NE(name(text, more), first);
  EXPECT_EQ(name(plain, options), name(plain, {}));
}

}  // namespace
}  // namespace longshore::data
