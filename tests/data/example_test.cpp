#include "longshore/data/text/example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "longshore/base/error.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Example example_of(std::string_view record, const ExampleOptions& options = {}) {
  return read_example(record, options).example;
}
CompletionExample pair_of(std::string_view record, const ExampleOptions& options = {}) {
  return std::get<CompletionExample>(example_of(record, options));
}
ChatExample chat_of(std::string_view record, const ExampleOptions& options = {}) {
  return std::get<ChatExample>(example_of(record, options));
}
std::string form_of(std::string_view record) { return read_example(record).form; }
std::string refusal(std::string_view record, const ExampleOptions& options = {}) {
  return message_of<DataError>([&] { read_example(record, options); });
}

// The messages as JSON, a space behind each sign.
std::string messages_of(const ChatExample& chat) { return chat.conversation.messages.dump(); }

TEST(Example, IsRecognisedByItsColumns) {
  EXPECT_EQ(std::get<TextExample>(example_of(R"({"text": "a\nb \u00e9"})")).text, "a\nb \xc3\xa9");
  const CompletionExample pair = pair_of(R"({"completion": "b", "prompt": ""})");
  EXPECT_EQ(pair.prompt, "");
  EXPECT_EQ(pair.completion, "b");
  const char* kMessages = R"([{"role":"user","content":""},{"content":"c","role":"assistant"}])";
  const ChatExample chat = chat_of(std::string(R"({"messages": )") + kMessages + "}");
  EXPECT_EQ(messages_of(chat), kMessages);
  EXPECT_THAT(chat.conversation.carries_loss, ElementsAre(0, 1));
  EXPECT_TRUE(chat.conversation.tools.is_null());
  EXPECT_EQ(messages_of(chat_of(std::string(R"({"conversations": )") + kMessages + "}")),
            kMessages);
}

TEST(Example, ReadsWhatOthersCallMessages) {
  const ChatExample chat = chat_of(
      R"({"id": 1, "system": "Be kind.", "tools": "[{\"name\": \"f\"}]", "conversations": [)"
      R"({"from": "human", "value": "a"},)"
      R"({"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"},)"
      R"({"from": "observation", "value": "2"}, {"from": "gpt", "value": "b", "weight": 0},)"
      R"({"from": "human", "value": "c"}, {"from": "gpt", "value": "d", "weight": 1}]})");
  EXPECT_EQ(
      messages_of(chat),
      R"([{"role":"system","content":"Be kind."},{"role":"user","content":"a"},)"
      R"({"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"f",)"
      R"("arguments":{"x":1}}}]},{"role":"tool","content":"2"},)"
      R"({"role":"assistant","content":"b"},{"role":"user","content":"c"},)"
      R"({"role":"assistant","content":"d"}])");
  EXPECT_THAT(chat.conversation.carries_loss, ElementsAre(0, 0, 1, 0, 0, 0, 1));
  EXPECT_EQ(chat.conversation.tools.dump(), R"([{"name":"f"}])");
  const ChatExample call = chat_of(
      R"({"messages": [{"role": "user", "content": "a", "name": "b"}, {"role": "assistant",)"
      R"( "content": null, "tool_calls": [{"id": 1}], "refusal": null, "loss": true}]})");
  EXPECT_EQ(messages_of(call), R"([{"role":"user","content":"a","name":"b"},)"
                               R"({"role":"assistant","content":null,"tool_calls":[{"id":1}]}])");
}

TEST(Example, LearnsTheCompletionsMessages) {
  const ChatExample chat = chat_of(
      R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},)"
      R"( {"role": "user", "content": "c"}], "completion": [{"role": "assistant", "content": "d"}]})");
  EXPECT_EQ(chat.conversation.messages.size(), 4u);
  EXPECT_THAT(chat.conversation.carries_loss, ElementsAre(0, 0, 0, 1));
}

TEST(Example, MakesConversationsOfQuestionsWhereThereIsATemplate) {
  const char* const kAlpaca = R"({"instruction": "a", "input": "b", "output": "c", "text": null})";
  EXPECT_EQ(form_of(kAlpaca), "instruction and output");
  EXPECT_EQ(messages_of(chat_of(kAlpaca, {.has_template = true})),
            R"([{"role":"user","content":"a\nb"},{"role":"assistant","content":"c"}])");
  const CompletionExample pair = pair_of(kAlpaca);
  EXPECT_EQ(pair.prompt,
            "Below is an instruction that describes a task, paired with an input that provides "
            "further context. Write a response that appropriately completes the request.\n\n"
            "### Instruction:\na\n\n### Input:\nb\n\n### Response:\n");
  EXPECT_EQ(pair.completion, "c");
  EXPECT_EQ(pair_of(R"({"instruction": "a", "input": "", "output": "c"})").prompt,
            "Below is an instruction that describes a task. Write a response that appropriately "
            "completes the request.\n\n### Instruction:\na\n\n### Response:\n");
  EXPECT_EQ(messages_of(chat_of(R"({"question": "a", "answer": "b"})", {.has_template = true})),
            R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"}])");
  EXPECT_TRUE(read_example(kAlpaca).takes_template);
  EXPECT_FALSE(read_example(R"({"prompt": "a", "completion": "b"})").takes_template);
}

TEST(Example, ReadsTheColumnsThatAreNamed) {
  const char* const kRecord = R"({"text": "a", "story": "b", "talk": [{"role": "user", "content":)"
                              R"( "c"}, {"role": "assistant", "content": "d"}], "reply": "e"})";
  EXPECT_EQ(std::get<TextExample>(example_of(kRecord, {.columns = {"story"}})).text, "b");
  EXPECT_EQ(chat_of(kRecord, {.columns = {"talk"}}).conversation.messages.size(), 2u);
  const CompletionExample pair = pair_of(kRecord, {.columns = {"story", "reply"}});
  EXPECT_EQ(pair.prompt + pair.completion, "be");
  EXPECT_EQ(read_example(kRecord, {.columns = {"story", "reply"}}).form, "story and reply");
  EXPECT_EQ(
      std::get<TextExample>(example_of(R"({"text": "a", "messages": []})", {.columns = {"text"}}))
          .text,
      "a");
  EXPECT_THAT(refusal(kRecord, {.columns = {"stories"}}),
              HasSubstr(R"(expected the column "stories", which train_data_columns names, found)"));
}

TEST(Example, IgnoresOtherColumns) {
  const std::string line =
      R"({"id": 3, "meta": {"text": [1, {"prompt": null}], "x": []}, "text": "a", "tags": ["b", 1.5],)"
      R"( "ok": true, "none": null, "minus": -1, "empty": {}})";
  EXPECT_EQ(std::get<TextExample>(example_of(line)).text, "a");
  // A part of another layout.
  EXPECT_EQ(form_of(R"({"prompt": "a", "messages": [{"role": "assistant", "content": "b"}]})"),
            "messages");
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
      {"[]", "expected an object, found an array"},
      {"\"text\"", "expected an object, found a string"},
      {"{}", "or question and answer; found an empty object"},
      {R"({"txt": "a", "id": 1})", R"(; found the columns "txt", "id"; nearest: text)"},
      {R"({"wave": "a"})", R"(found the columns "wave"; nearest: train_data_columns, which names)"},
      {R"({"text": 5})", "text: expected a string, found 5"},
      {R"({"text": null})", "answer; found nothing but null"},
      {R"({"prompt": ["a"], "completion": "b"})", "completion: expected a list of messages, as"},
      {R"({"text": "a", "text": "b"})", R"("text": found the key again, expected it once)"},
      {R"({"text": ""})", "text: found nothing, expected text to learn"},
      {R"({"prompt": "a", "completion": ""})", "completion: found nothing, expected text to learn"},
      {R"({"prompt": "a", "compleiton": "b"})",
       R"(expected prompt and completion, found no "completion"; nearest: "compleiton")"},
      {R"({"completion": "b"})", R"(found no "prompt")"},
      {R"({"text": "a", "messages": []})",
       "; found messages, text; nearest: train_data_columns=messages"},
      {R"({"messages": {}})",
       "messages: expected a list of objects with role and content, found an object"},
      {R"({"messages": []})", "messages: found none of the assistant"},
      {R"({"messages": [{"role": "human", "content": "a"}, {"role": "AI", "content": "b"}]})",
       R"(messages: found none of the assistant among those of "user", "AI", expected one)"},
      {R"({"messages": ["a"]})",
       "messages[0]: expected an object with role and content, found a string"},
      {R"({"messages": [{"role": "user", "content": "a"}, 3]})", "messages[1]: expected an object"},
      {R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant"}]})",
       R"(messages[1]: expected a content, found none among the keys "role")"},
      {R"({"messages": [{"role": "assistant", "content": null}]})",
       "messages[0]: expected a content, found none"},
      {R"({"messages": [{"content": "a"}]})",
       R"(messages[0]: expected a role, found none among the keys "content")"},
      {R"({"messages": [{}]})", "messages[0]: expected a role, found none"},
      {R"({"messages": [{"role": "user", "content": ["a"]}]})",
       "messages[0].content[0]: expected an object with type and text or image, found a string"},
      {R"({"messages": [{"role": "user", "content": 5}]})",
       "messages[0].content: expected a string or a list of parts, found 5"},
      {R"({"messages": [{"role": "user", "content": "a", "weight": 1}]})",
       R"(messages[0].weight: found 1 on a message of the role "user", expected it of the)"},
      {R"({"messages": [{"role": "assistant", "content": "a", "weight": 0.5}]})",
       "messages[0].weight: expected 0 or 1, found 0.5"},
      {R"({"conversations": [{"from": "function_call", "value": "f"}]})",
       "conversations[0]: expected a function's call"},
      {R"({"tools": "[", "messages": []})", "tools: expected a list in JSON: no valid JSON"},
      {R"({"tools": {}, "messages": []})", "tools: expected a list of what the assistant may call"},
      {R"({"messages": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[)", "nested deeper than 32"},
  };
  for (const Bad& bad : kBad) EXPECT_THAT(refusal(bad.line), HasSubstr(bad.message)) << bad.line;
}

// As tables of lines with different keys, and OpenAI's library, write them; keys in any order.
TEST(Example, NullsAreAbsent) {
  const ChatExample chat =
      chat_of(R"({"text": null, "prompt": null, "messages": [{"role": "user", "content": "a"},)"
              R"({"refusal": null, "content": "x", "tool_calls": null, "role": "assistant"}]})");
  EXPECT_EQ(chat.conversation.messages[1].dump(), R"({"content":"x","role":"assistant"})");
  EXPECT_EQ(form_of(R"({"messages": null, "text": "a"})"), "text");
}

TEST(Example, InvalidJsonIsShown) {
  EXPECT_THAT(
      refusal(R"({"text": "a", "x": NaN})"),
      AllOf(HasSubstr("no valid JSON at byte 20: found "), HasSubstr("as in NaN or Infinity")));
  EXPECT_THAT(refusal("{ "), HasSubstr("found the end, where a line has a whole example"));
  EXPECT_THAT(refusal("{\"text\": \"\\ud83d of\"}"), HasSubstr("half of a surrogate pair"));
  EXPECT_NO_THROW(example_of(R"({"text": "a", "x": 1e999})"));
}

TEST(Example, NestingCostsNothing) {
  const std::string deep = R"({"text": "a", "x": )" + std::string(1 << 20, '[');
  EXPECT_THROW(example_of(deep), DataError);
  EXPECT_NO_THROW(example_of(deep + std::string(1 << 20, ']') + "}"));
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
      example_of(R"({"image": "a/b.png", "prefix": "caption en", "suffix": "a boat"})"));
  EXPECT_EQ(pair.prompt, "caption en");
  EXPECT_EQ(pair.completion, "a boat");
  EXPECT_THAT(texts_of(pair.images), ElementsAre("a/b.png"));
  const auto several = std::get<CompletionExample>(
      example_of(R"({"prompt": "p", "completion": "c", "images": ["/9j/AAAA", "iVBORw0KGgo=",)"
                 R"("data:image/jpeg;base64,QUJD", "x.jpg"]})"));
  EXPECT_THAT(texts_of(several.images),
              ElementsAre("bytes " + std::string("\xff\xd8\xff\0\0\0", 6),
                          "bytes \x89PNG\r\n\x1a\n", "bytes ABC", "x.jpg"));
  EXPECT_TRUE(images_of(example_of(R"({"prefix": "p", "suffix": "s", "images": []})")).empty());
  EXPECT_TRUE(images_of(example_of(R"({"text": "a", "image": null})")).empty());
  EXPECT_EQ(form_of(R"({"prefix": "p", "suffix": "s"})"), "prefix and suffix");
}

TEST(Example, HasImagesBetweenPartsOfMessages) {
  const auto chat = std::get<ChatExample>(
      example_of(R"({"images": ["1.png", "3.png"], "messages": [{"role": "user", "content": [)"
                 R"({"type": "text", "text": "a", "image": null}, {"type": "image", "url": null},)"
                 R"({"path": "2.png", "type": "image"}, {"type": "image"}]},)"
                 R"({"role": "assistant", "content": [{"type": "text", "text": "b"}]},)"
                 R"({"role": "user", "content": [{"image": "4.png", "type": "image"},)"
                 R"({"type": "image", "url": "5.png"}]}]})"));
  EXPECT_THAT(texts_of(chat.images), ElementsAre("1.png", "2.png", "3.png", "4.png", "5.png"));
  EXPECT_EQ(messages_of(chat),
            R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"image"},)"
            R"({"type":"image"},{"type":"image"}]},{"role":"assistant","content":"b"},)"
            R"({"role":"user","content":[{"type":"image"},{"type":"image"}]}])");
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
      {R"({"text": "a", "image": "b.png"})", "found 1 image with text, expected prompt and"},
      {R"({"image": "b.png"})", "or question and answer; found nothing but image"},
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
       "messages[0].content[0]: found image and path, expected one image"},
      {with_part(R"({"type": "text"})"), "expected a text beside the type text, found none"},
      {with_part(R"({"text": "a"})"), "messages[0].content[0].type: expected text or image"},
      {with_part(R"({"type": "video"})"), R"(.type: expected text or image, found "video")"},
      {with_part(R"({"type": "image_url", "image_url": {"url": "http://a"}})"),
       R"(messages[0].content[0].image_url.url: found "http://a", expected)"},
      {with_part(R"({"type": 5})"), "messages[0].content[0].type: expected a string, found 5"},
  };
  for (const Bad& bad : kBad) EXPECT_THAT(refusal(bad.line), HasSubstr(bad.message)) << bad.line;
}

}  // namespace
}  // namespace longshore::data
