#include "longshore/data/text/prompt_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string read(std::string_view record) { return read_prompt(record).json().dump(); }
std::string refusal(std::string_view record) {
  return message_of<DataError>([&] { read_prompt(record); });
}

TEST(PromptRecord, IsATextOrAConversation) {
  EXPECT_EQ(read(R"({"prompt": "a\n\u00e9", "completion": 3})"), "{\"prompt\":\"a\\n\xc3\xa9\"}");
  EXPECT_EQ(read(R"({"messages": null, "prompt": ""})"), R"({"prompt":""})");
  const std::string asked = R"({"messages":[{"role":"user","content":"Where?"}]})";
  EXPECT_EQ(read(R"({"prompt": [{"role": "user", "content": "Where?"}]})"), asked);
  EXPECT_EQ(read(R"({"messages": [{"from": "human", "value": "Where?"},
                                  {"from": "gpt", "value": "Here."}, {"from": "gpt", "value": "."}]})"),
            asked);
  const PromptRecord whole = read_prompt(
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                       {"role": "user", "content": "c"}], "system": "s", "tools": "[{\"f\": 1}]"})");
  const auto& conversation = std::get<Conversation>(whole.prompt);
  EXPECT_EQ(conversation.messages.size(), 4u);
  EXPECT_EQ(conversation.messages[0]["content"], "s");
  EXPECT_EQ(conversation.carries_loss, (std::vector<uint8_t>{0, 0, 1, 0}));
  EXPECT_EQ(conversation.tools.size(), 1u);
}

TEST(PromptRecord, RefusesWhatIsNone) {
  EXPECT_EQ(refusal(R"({"promt": "a"})"),
            "expected prompt or messages, found neither; nearest: prompt");
  EXPECT_EQ(refusal(R"({"prompt": "a", "messages": []})"),
            "expected prompt or messages, found both");
  EXPECT_EQ(refusal(R"({"prompt": 3})"),
            "prompt: expected a string or a list of messages, found 3");
  EXPECT_EQ(refusal(R"({"messages": [{"role": "assistant", "content": "a"}]})"),
            "messages: found no message but the assistant's, expected one to answer");
  EXPECT_EQ(refusal(R"({"messages": [{"role": "user", "content":
                        [{"type": "image", "image": "a.png"}]}]})"),
            "messages: found an image, expected text alone");
  EXPECT_EQ(refusal(R"({"messages": [], "system": 3})"), "system: expected a string, found 3");
  EXPECT_THAT(refusal("{\"prompt\": \"\xff\"}"), HasSubstr("invalid UTF-8"));
  EXPECT_NE(refusal("[]"), "");
}

TEST(ReadPrompts, OfRecordsAndParagraphs) {
  TemporaryFolder folder;
  const auto all = [&](const std::filesystem::path& path) {
    std::vector<std::string> found;
    read_prompts(path, [&](const PromptRecord& record, const std::string& place) {
      found.push_back(place.substr((folder / "").string().size()) + " " + record.json().dump());
    });
    return found;
  };
  EXPECT_THAT(all(folder.write("a.jsonl", "\n{\"prompt\": \"a\"}\n\n{\"prompt\": \"b\"}")),
              ElementsAre(R"(a.jsonl:2 {"prompt":"a"})", R"(a.jsonl:4 {"prompt":"b"})"));
  EXPECT_THAT(all(folder.write("b.csv", "prompt,x\n\"a, b\",1\n")),
              ElementsAre(R"(b.csv:2 {"prompt":"a, b"})"));
  EXPECT_THAT(all(folder.write("c.txt", "a\nb\n\n\nc\n")),
              ElementsAre(R"(c.txt: paragraph 1 {"prompt":"a\nb"})",
                          R"(c.txt: paragraph 2 {"prompt":"c"})"));
  EXPECT_THAT(message_of<DataError>([&] { all(folder.write("d.jsonl", "{\"prompt\": 1}\n")); }),
              HasSubstr("d.jsonl:1: prompt: expected a string or a list of messages"));
}

}  // namespace
}  // namespace longshore::data
