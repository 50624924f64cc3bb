#include "data/text/example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Example, HasThreeForms) {
  EXPECT_EQ(std::get<TextExample>(parse_example(R"({"text": "a\nb \u00e9"})")).text,
            "a\nb \xc3\xa9");
  const auto pair =
      std::get<CompletionExample>(parse_example(R"({"completion": "b", "prompt": ""})"));
  EXPECT_EQ(pair.prompt, "");
  EXPECT_EQ(pair.completion, "b");
  const auto chat = std::get<ChatExample>(parse_example(
      R"({"messages": [{"role": "user", "content": ""}, {"content": "c", "role": "assistant"}]})"));
  ASSERT_EQ(chat.messages.size(), 2u);
  EXPECT_EQ(chat.messages[0].role, "user");
  EXPECT_EQ(chat.messages[1].role, "assistant");
  EXPECT_EQ(chat.messages[1].content, "c");
}

TEST(Example, IgnoresOtherKeysOfTheObject) {
  const std::string line =
      R"({"id": 3, "meta": {"text": [1, {"prompt": null}], "x": []}, "text": "a", "tags": ["b", 1.5],)"
      R"( "ok": true, "none": null, "minus": -1, "empty": {}})";
  EXPECT_EQ(std::get<TextExample>(parse_example(line)).text, "a");
}

TEST(Example, SaysWhatItFoundAndExpected) {
  struct Bad {
    const char *line, *message;
  };
  const Bad kBad[] = {
      {"", "no valid JSON at byte 1"},
      {"{\"text\": \"a\"", "no valid JSON at byte 13"},
      {"{\"text\": \"a\"} {}", "no valid JSON at byte 15"},
      {"{'text': 'a'}", "no valid JSON at byte 2"},
      {"{\"text\": \"\\ud800\"}", "no valid JSON at byte 17"},
      {"{\"text\": \"a\xff\"}", "invalid UTF-8: found 0xFF at byte 12 of the line"},
      {"[]", "expected an object with text, prompt and completion, or messages, found an array"},
      {"\"text\"",
       "expected an object with text, prompt and completion, or messages, found a string"},
      {"{}", "expected text, prompt and completion, or messages; found an empty object"},
      {R"({"txt": "a", "id": 1})", R"(; found the keys "txt", "id"; nearest: text)"},
      {R"({"text": 5})", "text: expected a string, found 5"},
      {R"({"text": null})", "messages; found nothing but null"},
      {R"({"prompt": ["a"], "completion": "b"})", "prompt: expected a string, found an array"},
      {R"({"text": "a", "text": "b"})", R"("text": found the key again, expected it once)"},
      {R"({"text": ""})", "text: found nothing, expected text to learn"},
      {R"({"prompt": "a", "completion": ""})", "completion: found nothing, expected text to learn"},
      {R"({"prompt": "a", "compleiton": "b"})",
       R"(expected prompt and completion, found no "completion"; nearest: "compleiton")"},
      {R"({"completion": "b"})", R"(found no "prompt")"},
      {R"({"text": "a", "messages": []})",
       "expected one of text, prompt and completion, or messages; found messages, text"},
      {R"({"messages": {}})",
       "messages: expected a list of objects with role and content, found an object"},
      {R"({"messages": []})", "messages: found none of the assistant"},
      {R"({"messages": [{"role": "human", "content": "a"}, {"role": "gpt", "content": "b"}]})",
       R"(messages: found none of the assistant among those of "human", "gpt", expected one)"},
      {R"({"messages": ["a"]})",
       "messages[0]: expected an object with role and content, found a string"},
      {R"({"messages": [{"role": "user", "content": "a"}, 3]})", "messages[1]: expected an object"},
      {R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant"}]})",
       "messages[1]: expected a content, found none"},
      {R"({"messages": [{"content": "a"}]})", "messages[0]: expected a role, found none"},
      {R"({"messages": [{}]})", "messages[0]: expected role and content alone, found none"},
      {R"({"messages": [{"role": "user", "content": ["a"]}]})",
       "messages[0].content[0]: expected an object with type and text or image, found a string"},
      {R"({"messages": [{"role": "user", "content": 5}]})",
       "messages[0].content: expected a string or a list of parts, found 5"},
      {R"({"messages": [{"role": "user", "content": "a", "weight": 0}]})",
       R"(messages[0]: expected role and content alone, found the key "weight")"},
      {R"({"messages": [{"role": "user", "role": "user"}]})", R"(found the key "role" again)"},
  };
  for (const Bad& bad : kBad) {
    const std::string message = message_of<DataError>([&] { parse_example(bad.line); });
    EXPECT_THAT(message, HasSubstr(bad.message)) << bad.line;
  }
}

// As tables of lines with different keys, and OpenAI's library, write them; keys in any order.
TEST(Example, NullsAreAbsent) {
  const Example chat = parse_example(
      R"({"text": null, "prompt": null, "messages": [{"role": "user", "content": "a"},)"
      R"({"refusal": null, "content": "x", "tool_calls": null, "role": "assistant"}]})");
  ASSERT_EQ(form_of(chat), "messages");
  EXPECT_EQ(std::get<ChatExample>(chat).messages[1].content, "x");
  EXPECT_EQ(form_of(parse_example(R"({"messages": null, "text": "a"})")), "text");
  EXPECT_THAT(message_of<DataError>([] { parse_example(R"({"text": null})"); }),
              HasSubstr("expected text, prompt and completion, or messages"));
}

TEST(Example, InvalidJsonIsShown) {
  EXPECT_THAT(
      message_of<DataError>([] { parse_example(R"({"text": "a", "x": NaN})"); }),
      AllOf(HasSubstr("no valid JSON at byte 20: found "), HasSubstr("as in NaN or Infinity")));
  EXPECT_THAT(message_of<DataError>([] { parse_example("{ "); }),
              HasSubstr("found the end, where a line has a whole example"));
  EXPECT_THAT(message_of<DataError>([] { parse_example("{\"text\": \"\\ud83d of\"}"); }),
              HasSubstr("half of a surrogate pair"));
  EXPECT_NO_THROW(parse_example(R"({"text": "a", "x": 1e999})"));
}

TEST(Example, NestingCostsNothing) {
  const std::string deep = R"({"text": "a", "x": )" + std::string(1 << 20, '[');
  EXPECT_THROW(parse_example(deep), DataError);
  EXPECT_NO_THROW(parse_example(deep + std::string(1 << 20, ']') + "}"));
}

std::string text_of(const ImageSource& source) {
  if (source.kind == ImageSource::Kind::path) return source.path;
  return "bytes " +
         std::string(reinterpret_cast<const char*>(source.bytes.data()), source.bytes.size());
}

std::vector<std::string> texts_of(const std::vector<ImageSource>& images) {
  std::vector<std::string> texts;
  std::ranges::transform(images, std::back_inserter(texts), text_of);
  return texts;
}

TEST(Example, HasImages) {
  const auto pair = std::get<CompletionExample>(
      parse_example(R"({"image": "a/b.png", "prefix": "caption en", "suffix": "a boat"})"));
  EXPECT_EQ(pair.prompt, "caption en");
  EXPECT_EQ(pair.completion, "a boat");
  EXPECT_THAT(texts_of(pair.images), ElementsAre("a/b.png"));
  const auto several = std::get<CompletionExample>(
      parse_example(R"({"prompt": "p", "completion": "c", "images": ["/9j/AAAA", "iVBORw0KGgo=",)"
                    R"("data:image/jpeg;base64,QUJD", "x.jpg"]})"));
  EXPECT_THAT(texts_of(several.images),
              ElementsAre("bytes " + std::string("\xff\xd8\xff\0\0\0", 6),
                          "bytes \x89PNG\r\n\x1a\n", "bytes ABC", "x.jpg"));
  EXPECT_TRUE(images_of(parse_example(R"({"prefix": "p", "suffix": "s", "images": []})")).empty());
  EXPECT_TRUE(images_of(parse_example(R"({"text": "a", "image": null})")).empty());
  EXPECT_EQ(form_of(parse_example(R"({"prefix": "p", "suffix": "s"})")), "prompt and completion");
}

TEST(Example, HasImagesBetweenPartsOfMessages) {
  const auto chat = std::get<ChatExample>(parse_example(
      R"({"images": ["1.png", "3.png"], "messages": [{"role": "user", "content": [)"
      R"({"type": "text", "text": "a", "image": null}, {"type": "image", "url": null},)"
      R"({"path": "2.png", "type": "image"}, {"type": "image"}]},)"
      R"({"role": "assistant", "content": [{"type": "text", "text": "b"}]},)"
      R"({"role": "user", "content": [{"image": "4.png", "type": "image"},)"
      R"({"type": "image", "url": "5.png"}]}]})"));
  EXPECT_THAT(texts_of(chat.images), ElementsAre("1.png", "2.png", "3.png", "4.png", "5.png"));
  ASSERT_EQ(chat.messages.size(), 3u);
  EXPECT_EQ(chat.messages[0].parts.size(), 4u);
  EXPECT_EQ(chat.messages[0].parts[0].text, "a");
  EXPECT_TRUE(chat.messages[0].parts[1].is_image);
  EXPECT_EQ(chat.messages[1].content, "b");
  EXPECT_TRUE(chat.messages[1].parts.empty());
}

TEST(Example, SaysWhatItExpectedOfImages) {
  const std::string assistant = R"({"role": "assistant", "content": "b"}]})";
  auto with_part = [&](const std::string& part) {
    return R"({"messages": [{"role": "user", "content": [)" + part + "]}, " + assistant;
  };
  struct Bad {
    std::string line, message;
  };
  const Bad kBad[] = {
      {R"({"prefix": "a"})", R"(expected prefix and suffix, found no "suffix")"},
      {R"({"prefix": "a", "completion": "b"})", "; found completion, prefix"},
      {R"({"text": "a", "suffix": "b"})", "; found suffix, text"},
      {R"({"text": "a", "image": "b.png"})", "found 1 image with text, expected prompt and"},
      {R"({"image": "b.png"})", "expected text, prompt and completion, or messages; found"},
      {R"({"prefix": "a", "suffix": "b", "image": "c", "images": []})", "one of image or images"},
      {R"({"prefix": "a", "suffix": "b", "image": 3})",
       "image: expected a string or a list of strings, paths or base64, found 3"},
      {R"({"prefix": "a", "suffix": "b", "images": ["c", null]})",
       "images[1]: expected a string, a path or base64, found null"},
      {R"({"prefix": "a", "suffix": "b", "images": [["c"]]})", "images[0]: expected a string"},
      {R"({"prefix": "a", "suffix": "b", "image": ""})", R"(image: found "", expected the path)"},
      {R"({"prefix": "a", "suffix": "b", "image": "a\u0000.png"})", "image: found"},
      {R"({"prefix": "a", "suffix": "b", "image": "HTTPS://a/b.png"})",
       R"(image: found "HTTPS://a/b.png", expected the path of a file here, or base64: nothing)"},
      {R"({"prefix": "a", "suffix": "b", "image": "/9j/A"})", "image: base64: found 5 characters"},
      {R"({"prefix": "a", "suffix": "b", "image": "data:image/gif;base64,AA=="})",
       "image: found \"data:image/gif;base64\", expected data:image/png;base64,"},
      {with_part(R"({"type": "image"})"),
       R"(found 0 images, expected 1: one for each part {"type": "image"})"},
      {R"({"image": "a.png", "messages": [)" + assistant, "found 1 image, expected 0: one for"},
      {with_part(R"({"type": "image", "url": "http://a/b.png"})"),
       R"(messages[0].content[0].url: found "http://a/b.png", expected)"},
      {with_part(R"({"type": "image", "image": "a", "path": "b"})"),
       R"(messages[0].content[0]: expected type and text or image alone, found the key "path" ag)"},
      {with_part(R"({"type": "image", "text": "a"})"), "expected an image or nothing else beside"},
      {with_part(R"({"type": "text", "image": "a"})"), "expected a text alone beside the type"},
      {with_part(R"({"type": "text"})"), "expected a text alone beside the type text, found none"},
      {with_part(R"({"text": "a"})"), "messages[0].content[0].type: expected text or image"},
      {with_part(R"({"type": "video"})"), R"(.type: expected text or image, found "video")"},
      {with_part(R"({"type": "image_url", "image_url": {"url": "a"}})"),
       R"(found the key "image_url", which would have to be null)"},
      {with_part(R"({"type": 5})"), "messages[0].content[0].type: expected a string, found 5"},
  };
  for (const Bad& bad : kBad)
    EXPECT_THAT(message_of<DataError>([&] { parse_example(bad.line); }), HasSubstr(bad.message))
        << bad.line;
}

TEST(Example, NamesItsForm) {
  EXPECT_EQ(form_of(TextExample{}), "text");
  EXPECT_EQ(form_of(CompletionExample{}), "prompt and completion");
  EXPECT_EQ(form_of(ChatExample{}), "messages");
}

}  // namespace
}  // namespace longshore::data
