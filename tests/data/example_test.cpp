#include "data/text/example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::AllOf;
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
       "messages[0].content: expected a string, found an array"},
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

TEST(Example, NamesItsForm) {
  EXPECT_EQ(form_of(TextExample{}), "text");
  EXPECT_EQ(form_of(CompletionExample{}), "prompt and completion");
  EXPECT_EQ(form_of(ChatExample{}), "messages");
}

}  // namespace
}  // namespace longshore::data
