// Preferences, from records to documents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "longshore/base/error.h"
#include "longshore/data/text/encode_example.h"
#include "longshore/data/text/tokenize_files.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kGoldens = "tests/goldens/tokenizers/";

Example preference_of(std::string_view record, ExampleOptions options = {}) {
  options.kind = ExampleKind::preference;
  return read_example(record, options).example;
}

std::string refusal(std::string_view record, ExampleOptions options = {}) {
  return message_of<DataError>([&] { preference_of(record, options); });
}

// "PROMPT|COMPLETION"; of messages the contents of each, with < before those that are learnt; "" of
// none.
std::string shown(const std::optional<PreferenceExample::Answer>& answer) {
  if (!answer) return "";
  if (const auto* pair = std::get_if<CompletionExample>(&*answer))
    return pair->prompt + "|" + pair->completion;
  std::string text;
  const Conversation& conversation = std::get<ChatExample>(*answer).conversation;
  for (size_t i = 0; i < conversation.messages.size(); ++i)
    text += (conversation.carries_loss[i] ? "<" : " ") +
            conversation.messages[i]["role"].get<std::string>().substr(0, 1) + ":" +
            text_of(conversation.messages[i]);
  return text;
}

std::array<std::string, 2> texts_of(const Example& example) {
  const auto& preference = std::get<PreferenceExample>(example);
  return {shown(preference.chosen), shown(preference.rejected)};
}

std::string user(const std::string& text) { return R"({"role":"user","content":")" + text + "\"}"; }
std::string assistant(const std::string& text) {
  return R"({"role":"assistant","content":")" + text + "\"}";
}

TEST(PreferenceExample, HasAPromptAsAStringOrMessages) {
  const std::string answers =
      R"("chosen": [)" + assistant("b") + R"(], "rejected": [)" + assistant("c") + "]}";
  EXPECT_THAT(texts_of(preference_of(R"({"prompt": "a", "chosen": " b", "rejected": " c"})")),
              ElementsAre("a| b", "a| c"));
  EXPECT_THAT(texts_of(preference_of(R"({"prompt": [)" + user("a") + "], " + answers)),
              ElementsAre(" u:a<a:b", " u:a<a:c"));
  EXPECT_THAT(texts_of(preference_of(R"({"system": "s", "prompt": "a", )" + answers)),
              ElementsAre(" s:s u:a<a:b", " s:s u:a<a:c"));
  EXPECT_THAT(texts_of(preference_of(R"({"prompt": [)" + user("a") +
                                     R"(], "chosen": "b", "rejected": "c"})")),
              ElementsAre(" u:a<a:b", " u:a<a:c"));
}

// As UltraFeedback and others have them.
TEST(PreferenceExample, MayHaveWholeConversations) {
  const std::string answers = R"("chosen": [)" + user("a") + "," + assistant("b") + "," +
                              user("d") + "," + assistant("e") + R"(], "rejected": [)" + user("a") +
                              "," + assistant("c") + "]}";
  const auto expected = ElementsAre(" u:a<a:b u:d<a:e", " u:a<a:c");
  EXPECT_THAT(texts_of(preference_of("{" + answers)), expected);
  EXPECT_THAT(texts_of(preference_of(R"({"prompt": "a\n", )" + answers)), expected);
  EXPECT_THAT(texts_of(preference_of(R"({"prompt": [)" + user("a") + "], " + answers)), expected);
  EXPECT_EQ(refusal(R"({"prompt": "f", )" + answers),
            "prompt: found a text that is in none of the messages that chosen and rejected begin "
            "with; expected it there, or answers that begin with the assistant's message");
  EXPECT_THAT(texts_of(preference_of(
                  R"({"chosen": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}],)"
                  R"( "rejected": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "c"},)"
                  R"( {"from": "human", "value": "d"}]})")),
              ElementsAre(" u:a<a:b", " u:a<a:c u:d"));
}

// What is expected is what TRL's extract_prompt gives.
TEST(PreferenceExample, FindsThePromptThatStringsBeginWith) {
  struct Case {
    const char *chosen, *rejected, *prompt;
  };
  for (const Case& one :
       {Case{"\\n\\nHuman: Hi\\n\\nAssistant: Hello", "\\n\\nHuman: Hi\\n\\nAssistant: Go",
             "\n\nHuman: Hi\n\nAssistant:"},
        Case{"Human: Hi Assistant: Hello", "Human: Hi Assistant: Hey", "Human: Hi Assistant: He"},
        Case{"The sky", "The sky is", "The sk"},              // nothing is left of the shorter else
        Case{"a", "b", ""}, Case{"x\u00e9", "x\u00e8", "x"},  // which share their first byte
        Case{"x\u00e9y", "x\u00e9z", "x\u00e9"}, Case{"x \u00e9", "x \u00e8", "x"}}) {
    const auto [chosen, rejected] =
        texts_of(preference_of(std::string(R"({"chosen": ")") + one.chosen + R"(", "rejected": ")" +
                               one.rejected + "\"}"));
    EXPECT_TRUE(chosen.starts_with(std::string(one.prompt) + "|")) << chosen;
    EXPECT_TRUE(rejected.starts_with(std::string(one.prompt) + "|")) << rejected;
  }
  EXPECT_THAT(texts_of(preference_of(R"({"chosen": "It is so", "rejected": "It is no"})")),
              ElementsAre("It is| so", "It is| no"));
}

TEST(PreferenceExample, MayBeOneAnswer) {
  auto texts = [](const std::string& label) {
    return texts_of(preference_of(R"({"prompt": "a", "completion": "b", "label": )" + label + "}"));
  };
  for (const char* good : {"true", "1", "\"True\"", "\"1\""})
    EXPECT_THAT(texts(good), ElementsAre("a|b", "")) << good;
  for (const char* bad : {"false", "0", "\"false\"", "\"0\""})
    EXPECT_THAT(texts(bad), ElementsAre("", "a|b")) << bad;
  EXPECT_THAT(texts_of(preference_of(R"({"prompt": [)" + user("a") + R"(], "completion": [)" +
                                     assistant("b") + R"(], "label": false})")),
              ElementsAre("", " u:a<a:b"));
  EXPECT_EQ(refusal(R"({"prompt": "a", "completion": "b", "label": 0.5})"),
            "label: expected true or false, or 1 or 0, found 0.5");
  // Of other objectives it is one column among others.
  EXPECT_TRUE(std::holds_alternative<CompletionExample>(
      read_example(R"({"prompt": "a", "completion": "b", "label": 0.5})").example));
}

TEST(PreferenceExample, AnswersOrcasQuestions) {
  const char* const kRecord = R"({"system": "s", "question": "a", "chosen": "b", "rejected": "c"})";
  EXPECT_THAT(texts_of(preference_of(kRecord, {.has_template = true})),
              ElementsAre(" s:s u:a<a:b", " s:s u:a<a:c"));
  EXPECT_TRUE(texts_of(preference_of(kRecord))[0].starts_with("s\n\nBelow is an instruction"));
  const ReadExample read = read_example(kRecord, {.kind = ExampleKind::preference});
  EXPECT_EQ(read.form, "question, chosen and rejected");
  EXPECT_TRUE(read.takes_template);
}

TEST(PreferenceExample, ReadsTheColumnsThatAreNamed) {
  const char* const kRecord =
      R"({"q": "a", "good": "xb", "bad": "xc", "ok": false, "chosen": "", "rejected": 1})";
  auto texts = [&](const std::vector<std::string>& columns) {
    return texts_of(preference_of(kRecord, {.columns = columns}));
  };
  EXPECT_THAT(texts({"q", "good", "bad"}), ElementsAre("a|xb", "a|xc"));
  EXPECT_THAT(texts({"good", "bad"}), ElementsAre("x|b", "x|c"));
  EXPECT_THAT(texts({"q", "good", "ok"}), ElementsAre("", "a|xb"));
  EXPECT_THAT(refusal(kRecord, {.columns = {"good"}}), HasSubstr("expected two or three columns"));
  EXPECT_EQ(refusal(kRecord, {.columns = {"good", "ok"}}),
            "ok: expected a string or a list of messages, found false");
}

TEST(PreferenceExample, SaysWhatIsWrong) {
  const std::string answers = R"("chosen": [)" + assistant("b") + "], ";
  const std::array<std::pair<std::string, const char*>, 10> cases{{
      {R"({"chosen": "a"})", R"(expected chosen and rejected, found no "rejected")"},
      {R"({"prompt": "a", "completion": "b"})",
       "; found completion, prompt; nearest: objective: sft"},
      {R"({"messages": []})",
       "expected preferences: chosen and rejected, with a prompt or without"},
      {R"({"chose": "a", "reject": "b"})",
       R"(found the columns "chose", "reject"; nearest: chosen)"},
      {R"({"chosen": "a", "rejected": ""})", "rejected: found nothing, expected an answer"},
      {R"({"chosen": "a", "rejected": []})", "rejected: found nothing, expected an answer"},
      {R"({"chosen": "a", "rejected": [1]})",
       "rejected: expected a string, as chosen is, found an"},
      {R"({"chosen": [1], "rejected": [2]})", "chosen[0]: expected an object with role"},
      {"{" + answers + R"("rejected": [)" + user("c") + "]}", "rejected: found none of the assist"},
      {R"({"image": "a.png", "chosen": "a", "rejected": "b"})",
       "found 1 image, expected none: answers that are rated"},
  }};
  for (const auto& [record, expected] : cases)
    EXPECT_THAT(refusal(record), HasSubstr(expected)) << record;
  for (const char* record : {R"({"chosen": "a", "rejected": "b"})",
                             R"({"prompt": "a", "chosen": "a", "rejected": "b"})"})
    EXPECT_THAT(message_of<DataError>([&] { read_example(record); }),
                HasSubstr("; nearest: objective: dpo (tokenize: --preference)"));
  EXPECT_TRUE(std::holds_alternative<TextExample>(
      read_example(R"({"text": "a", "chosen": "a", "rejected": "b"})").example));
}

TEST(PreferenceExample, IsTwoDocuments) {
  const Tokenizer tokenizer(kGoldens + "sp_bpe/tokenizer.model");
  const std::string prompt = "The capital of Norway is", chosen = " Oslo.", rejected = " Bergen.";
  auto document = [&](const std::string& answer) {
    return encode(CompletionExample{prompt, answer}, tokenizer).at(0);
  };
  const Example example =
      PreferenceExample{CompletionExample{prompt, chosen}, CompletionExample{prompt, rejected}};
  const std::vector<Document> both = encode(example, tokenizer);
  ASSERT_EQ(both.size(), 2u);
  std::vector<int32_t> expected = tokenizer.encode(prompt + chosen);
  expected.insert(expected.begin(), tokenizer.bos_id());
  expected.push_back(tokenizer.eos_id());
  EXPECT_EQ(both[0].tokens, expected);
  EXPECT_EQ(both[0].carries_loss, document(chosen).carries_loss);
  EXPECT_EQ(both[1].tokens, document(rejected).tokens);
  const std::vector<Document> one =
      encode(PreferenceExample{std::nullopt, CompletionExample{prompt, rejected}}, tokenizer);
  ASSERT_EQ(one.size(), 2u);
  EXPECT_THAT(one[0].tokens, ElementsAre(tokenizer.eos_id()));
  EXPECT_THAT(one[0].carries_loss, ElementsAre(0));
  EXPECT_EQ(one[1].tokens, both[1].tokens);
  EXPECT_EQ(message_of<DataError>([&] {
              encode(PreferenceExample{CompletionExample{prompt, chosen},
                                       CompletionExample{prompt, chosen}},
                     tokenizer);
            }),
            "found the same answer as chosen and as rejected, expected two");
}

std::string learnt(const Document& document, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < document.tokens.size(); ++i)
    if (document.carries_loss[i]) ids.push_back(document.tokens[i]);
  return tokenizer.decode(ids, SpecialTokens::keep);
}

TEST(PreferenceExample, LearnsTheTurnsBehindThePrompt) {
  const Tokenizer tokenizer(kGoldens + "bytelevel_bpe_qwen");
  const std::string prompt = user("Hi") + "," + assistant("Hello") + "," + user("Where?");
  const Example example = preference_of(
      R"({"chosen": [)" + prompt + "," + assistant("In port.") + "," + user("So?") + "," +
      assistant("Come.") + R"(], "rejected": [)" + prompt + "," + assistant("At sea.") + "]}");
  std::vector<Document> both =
      encode(example, tokenizer, {.chat_template = ChatTemplate::named("chatml")});
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(learnt(both[0], tokenizer), "In port.<|im_end|>Come.<|im_end|>");
  EXPECT_EQ(learnt(both[1], tokenizer), "At sea.<|im_end|>");
  EXPECT_EQ(tokenizer.decode(both[1].tokens, SpecialTokens::keep),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n"
            "<|im_start|>user\nWhere?<|im_end|>\n<|im_start|>assistant\nAt sea.<|im_end|>\n");
  // One that writes the last turn alone as it was said.
  const ChatTemplate forgetful(
      "forgetful",
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if loop.last or m.role == 'user' %}"
      "{{ m.content }}{% else %}-{% endif %}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  both = encode(example, tokenizer, {.chat_template = forgetful});
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(learnt(both[0], tokenizer), "Come.<|im_end|>");
  const Example unlearnt = preference_of(
      R"({"chosen": [)" + prompt + R"(, {"role": "assistant", "content": "a", "loss": false}],)" +
      R"("rejected": [)" + prompt + "," + assistant("b") + "]}");
  EXPECT_EQ(message_of<DataError>([&] {
              encode(unlearnt, tokenizer, {.chat_template = ChatTemplate::named("chatml")});
            }),
            "chosen: found nothing to learn");
}

TEST(PreferenceExample, BecomesATokenFileOfPairs) {
  TemporaryFolder folder;
  const Tokenizer tokenizer(kGoldens + "sp_bpe/tokenizer.model");
  const std::vector<std::filesystem::path> inputs{
      folder.write("pairs.jsonl", R"({"prompt": "a", "chosen": " b", "rejected": " the"})"),
      folder.write("one.csv", "prompt,completion,label\na, the,true\na, b,0\n")};
  const TokenizeSummary summary =
      tokenize_files(tokenizer, inputs, folder / "out.tokens", {.kind = ExampleKind::preference});
  EXPECT_EQ(summary.documents, 6);
  const TokenFile file(folder / "out.tokens");
  ASSERT_TRUE(file.has_pairs());
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < 6; ++i) counts.push_back(file.document(i).count);
  EXPECT_EQ(counts[4], 1);
  EXPECT_EQ(counts[3], 1);
  EXPECT_EQ(counts[0], counts[5]);
  EXPECT_EQ(counts[1], counts[2]);
  const std::vector<std::filesystem::path> plain{folder.write("a.txt", "the\n")};
  EXPECT_THAT(message_of<DataError>([&] {
                tokenize_files(tokenizer, plain, folder / "b.tokens",
                               {.kind = ExampleKind::preference});
              }),
              HasSubstr("a.txt: found plain text, expected records with preferences"));
}

}  // namespace
}  // namespace longshore::data
