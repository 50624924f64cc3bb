#include "longshore/data/text/find_chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "longshore/base/error.h"
#include "longshore/base/json_tree.h"
#include "tests/data/chat_example.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

// Where the clock of the goldens stands.
constexpr const char* kDate = "2026-11-27";

class FindChatTemplate : public testing::Test {
 protected:
  std::optional<ChatTemplate> find(const ChatTemplateChoice& choice = {}) const {
    return find_chat_template(choice, folder_ / "", tokenizer_);
  }
  // What it writes of one message of the user.
  std::string text(const ChatTemplateChoice& choice = {}) const {
    return find(choice)->text(user_says("A"), 1).text;
  }

  TemporaryFolder folder_;
  Tokenizer tokenizer_{"tests/goldens/tokenizers/bytelevel_bpe_qwen"};
};

// By files as Hugging Face has them, all that transformers has rendered is written alike.
TEST_F(FindChatTemplate, WritesAsTransformersDoes) {
  const std::filesystem::path goldens = "tests/goldens/chat_templates";
  const ordered_json cases = ordered_json_tree(read_file(goldens / "cases.json"))["cases"];
  ASSERT_GT(cases.size(), 60u);
  for (const auto& golden : cases) {
    SCOPED_TRACE(golden["template"].get<std::string>() + ", " + golden["name"].get<std::string>());
    folder_.write("tokenizer_config.json", json_text(golden["special_tokens"]));
    folder_.write("chat_template.jinja",
                  read_file(goldens / golden["template"].get<std::string>()));
    ChatTemplateChoice choice{.date = kDate};
    const ordered_json kwargs = golden.value("kwargs", ordered_json::object());
    for (const auto& item : kwargs.items())
      choice.kwargs.push_back(item.key() + "=" + item.value().dump());
    Conversation conversation{.messages = golden["messages"],
                              .tools = golden.value("tools", ordered_json())};
    auto write = [&] {
      return find(choice)
          ->text(conversation, conversation.messages.size(),
                 golden["add_generation_prompt"].get<bool>() ? ChatTemplate::Ending::assistant_opens
                                                             : ChatTemplate::Ending::complete)
          .text;
    };
    if (golden.contains("error"))
      EXPECT_NE(message_of<DataError>(write), "");
    else
      EXPECT_EQ(write(), golden["text"].get<std::string>());
  }
}

TEST_F(FindChatTemplate, ReadsAFolderAsTransformersDoes) {
  EXPECT_EQ(find(), std::nullopt);
  folder_.write("chat_template.json", R"({"chat_template": "of a processor"})");
  EXPECT_EQ(text(), "of a processor");
  folder_.write(
      "tokenizer_config.json",
      R"({"bos_token": {"content": "<b>"}, "eos_token": null, "x_token": 3,)"
      R"( "chat_template": [{"name": "rag", "template": "R"},)"
      R"( {"name": "default", "template": "{{ bos_token }}{{ eos_token }}{{ pad_token }}"}]})");
  folder_.write("special_tokens_map.json", R"({"pad_token": "<p>", "bos_token": "<no>"})");
  EXPECT_EQ(text(), "<b><p>");
  EXPECT_EQ(text({.name = "rag"}), "R");
  EXPECT_THAT(message_of<ConfigError>([&] { find({.name = "tools"}); }),
              HasSubstr("chatml, default, rag, or a file's path"));
  std::filesystem::create_directory(folder_ / "additional_chat_templates");
  folder_.write("additional_chat_templates/tool_use.jinja", "T");
  folder_.write("chat_template.jinja", "file\n");
  EXPECT_EQ(text(), "file");
  Conversation with_tools = user_says("A");
  with_tools.tools = ordered_json::array({1});
  EXPECT_EQ(find()->text(with_tools, 1).text, "T");
  EXPECT_EQ(text({.name = "tool_use"}), "T");
  EXPECT_EQ(find({.name = "none"}), std::nullopt);
  EXPECT_EQ(find({.name = "chatml"})->name(), "chatml");
  folder_.write("own.jinja", "own");
  EXPECT_EQ(text({.name = (folder_ / "own.jinja").string()}), "own");
}

TEST_F(FindChatTemplate, TakesFurtherVariables) {
  folder_.write("chat_template.jinja",
                "{{ x }}{{ y.a }}{{ z is defined }}{{ strftime_now('%j') }}");
  EXPECT_EQ(text({.kwargs = {"x=false", R"(y={"a": "b=c"})"}, .date = kDate}), "Falseb=cFalse331");
  EXPECT_EQ(text({.kwargs = {"x=as it is", "y=[]"}, .date = "2026-01-01"}), "as it isFalse001");
  EXPECT_THAT(message_of<DataError>([&] { text({.kwargs = {"y=1"}}); }),
              HasSubstr("nearest: chat_template_date=YYYY-MM-DD, the day that it shows"));
  EXPECT_NE(find({.kwargs = {"x=1"}})->fingerprint(), find({.kwargs = {"x=2"}})->fingerprint());
  EXPECT_NE(find({.date = kDate})->fingerprint(), find({.date = "2026-11-28"})->fingerprint());
}

TEST_F(FindChatTemplate, RefusesWhatIsNone) {
  auto refusal = [&](const ChatTemplateChoice& choice) {
    return message_of<ConfigError>([&] { find(choice); });
  };
  folder_.write("chat_template.jinja", "A");
  EXPECT_THAT(refusal({.name = "chatm"}),
              HasSubstr(R"(found "chatm", expected one of auto, none, )"));
  EXPECT_THAT(refusal({.name = "chatm"}),
              HasSubstr("chatml, default, or a file's path that ends "));
  EXPECT_THAT(refusal({.name = "chatm"}), HasSubstr("nearest: chatml"));
  EXPECT_THAT(refusal({.kwargs = {"thinking"}}), HasSubstr("expected NAME=VALUE, such as enable_"));
  EXPECT_THAT(refusal({.kwargs = {"messages=1"}}), HasSubstr("which the conversation itself says"));
  for (const char* none : {"27.11.2026", "2026-02-30", "2026-11-31", "2026-1-1"})
    EXPECT_THAT(refusal({.date = none}), HasSubstr("expected a day, such as 2026-07-26"));
  EXPECT_THAT(
      refusal({.name = "gemma", .kwargs = {"x=1"}}),
      HasSubstr("chat_template_kwargs: found x=1, of which the template gemma reads nothing"));
  auto fault = [&] { return message_of<DataError>([&] { find(); }); };
  folder_.write("chat_template.jinja", "\n{% if %}");
  EXPECT_THAT(fault(), HasSubstr("chat_template.jinja: line 2: "));
  std::filesystem::remove(folder_ / "chat_template.jinja");
  folder_.write("tokenizer_config.json", R"({"chat_template": 3})");
  EXPECT_THAT(fault(),
              HasSubstr("tokenizer_config.json: chat_template: expected a template, found 3"));
  folder_.write("tokenizer_config.json", R"({"chat_template": [3]})");
  EXPECT_THAT(fault(), HasSubstr("expected a list of objects with name and template, found 3"));
  folder_.write("tokenizer_config.json", "[]");
  EXPECT_THAT(fault(), HasSubstr("tokenizer_config.json: expected an object"));
}

}  // namespace
}  // namespace longshore::data
