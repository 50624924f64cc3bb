#include "longshore/data/text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "longshore/base/error.h"
#include "longshore/data/text/learnt_texts.h"
#include "tests/data/chat_example.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Ending = ChatTemplate::Ending;

const std::filesystem::path kGoldens = "tests/goldens/tokenizers";
const char* const kNames[] = {"llama2", "llama3", "gemma", "chatml"};

const Tokenizer& tokenizer_of(const std::string& name) {
  static const Tokenizer llama2(kGoldens / "llama2_bpe" / "tokenizer.json");
  static const Tokenizer llama3(kGoldens / "bytelevel_bpe_llama3" / "tokenizer.json");
  static const Tokenizer gemma(kGoldens / "gemma_bpe" / "tokenizer.json");
  static const Tokenizer qwen(kGoldens / "bytelevel_bpe_qwen" / "tokenizer.json");
  return name == "llama2" ? llama2 : name == "llama3" ? llama3 : name == "gemma" ? gemma : qwen;
}

using Turns = std::vector<std::pair<std::string, nlohmann::ordered_json>>;

std::string text_of(const std::string& name, const Turns& turns, Ending ending = Ending::complete) {
  return ChatTemplate::named(name).text(conversation_of(turns), turns.size(), ending).text;
}

// The learnt texts, each in one string with what is learnt between braces.
std::vector<std::string> marked(const std::vector<LearntText>& texts) {
  std::vector<std::string> result;
  for (const LearntText& text : texts) {
    std::string marks = text.text;
    for (auto span = text.learnt.rbegin(); span != text.learnt.rend(); ++span)
      marks.insert(span->end, "}").insert(span->begin, "{");
    result.push_back(marks);
  }
  return result;
}

std::string marked(const std::string& name, const Turns& turns) {
  const auto texts = marked(learnt_texts(conversation_of(turns), ChatTemplate::named(name),
                                         TrainOn::assistant, tokenizer_of(name)));
  return texts.size() == 1 ? texts[0] : std::to_string(texts.size()) + " texts";
}

const Turns kTurns = {{"user", " Hi\n"},
                      {"assistant", "Hello! "},
                      {"user", "Who are you?"},
                      {"assistant", "\nA model."}};

Turns with_system(Turns turns) {
  turns.insert(turns.begin(), {"system", " Be kind. "});
  return turns;
}

// Written by hand from the chat_template entries of the published tokenizer_config.json files.
TEST(ChatTemplate, WritesTurnsAsPublishedTemplatesDo) {
  EXPECT_EQ(marked("llama2", kTurns),
            "<s>[INST] Hi [/INST]{ Hello! </s>}<s>[INST] Who are you? [/INST]{ A model. </s>}");
  EXPECT_EQ(marked("llama3", kTurns),
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n{Hello!<|eot_id|>}"
            "<|start_header_id|>user<|end_header_id|>\n\nWho are you?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n{A model.<|eot_id|>}");
  EXPECT_EQ(marked("gemma", kTurns),
            "<bos><start_of_turn>user\nHi<end_of_turn>\n"
            "<start_of_turn>model\n{Hello!<end_of_turn>}\n"
            "<start_of_turn>user\nWho are you?<end_of_turn>\n"
            "<start_of_turn>model\n{A model.<end_of_turn>}\n");
  EXPECT_EQ(marked("chatml", kTurns),
            "<|im_start|>user\n Hi\n<|im_end|>\n"
            "<|im_start|>assistant\n{Hello! <|im_end|>}\n"
            "<|im_start|>user\nWho are you?<|im_end|>\n"
            "<|im_start|>assistant\n{\nA model.<|im_end|>}\n");
}

TEST(ChatTemplate, WritesTheSystemMessage) {
  const auto messages = with_system({{"user", " Hi"}, {"assistant", "Yes"}});
  EXPECT_EQ(text_of("llama2", messages),
            "<s>[INST] <<SYS>>\n Be kind. \n<</SYS>>\n\n Hi [/INST] Yes </s>");
  EXPECT_EQ(text_of("llama3", messages),
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nYes<|eot_id|>");
  EXPECT_EQ(text_of("chatml", messages),
            "<|im_start|>system\n Be kind. <|im_end|>\n<|im_start|>user\n Hi<|im_end|>\n"
            "<|im_start|>assistant\nYes<|im_end|>\n");
  EXPECT_EQ(text_of("gemma", messages),
            "<bos><start_of_turn>user\n Be kind. \n\nHi<end_of_turn>\n"
            "<start_of_turn>model\nYes<end_of_turn>\n");
}

TEST(ChatTemplate, EndsWithTheAssistantsHeaderWhereAsked) {
  const Turns messages = {{"user", "Hi"}};
  EXPECT_EQ(text_of("llama2", messages, Ending::assistant_opens), "<s>[INST] Hi [/INST]");
  EXPECT_EQ(text_of("llama3", messages, Ending::assistant_opens),
            text_of("llama3", messages) + "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(text_of("gemma", messages, Ending::assistant_opens),
            text_of("gemma", messages) + "<start_of_turn>model\n");
  EXPECT_EQ(text_of("chatml", messages, Ending::assistant_opens),
            text_of("chatml", messages) + "<|im_start|>assistant\n");
}

TEST(ChatTemplate, TheAssistantsTurnHasAnEnd) {
  const char* const kEnds[] = {"</s>", "<|eot_id|>", "<end_of_turn>", "<|im_end|>"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    const Tokenizer& tokenizer = tokenizer_of(kNames[i]);
    EXPECT_EQ(ChatTemplate::named(kNames[i]).end_of_turn(tokenizer), tokenizer.id_of(kEnds[i]));
  }
}

TEST(ChatTemplate, RefusesConversationsThatTheTemplateForbids) {
  auto message = [](const std::string& name, const Turns& turns) {
    return message_of<DataError>([&] { marked(name, turns); });
  };
  for (const char* name : kNames) {
    EXPECT_THAT(message(name, {}), HasSubstr("no messages"));
    EXPECT_THAT(
        message(name, {{"user", "a"}, {"tool", "b"}, {"assistant", "c"}}),
        HasSubstr(std::string("the chat template ") + name + " refuses the conversation: "));
  }
  for (const char* name : {"llama2", "gemma"})
    for (const Turns& turns :
         {Turns{{"user", "a"}, {"user", "b"}, {"assistant", "c"}}, Turns{{"assistant", "a"}},
          Turns{{"user", "a"}, {"assistant", "b"}, {"assistant", "c"}},
          Turns{{"user", "a"}, {"system", "b"}, {"assistant", "c"}}})
      EXPECT_NE(message(name, turns), "") << name << turns[0].first;
  EXPECT_EQ(text_of("chatml", {{"user", "a"}, {"user", "b"}}),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>user\nb<|im_end|>\n");
}

TEST(ChatTemplate, ABuiltInOneRefusesWhatItDoesNotKnow) {
  Conversation conversation = conversation_of(kTurns);
  conversation.messages[1] = {{"role", "assistant"}, {"content", nullptr}};
  auto message = [&] {
    return message_of<DataError>(
        [&] { ChatTemplate::named("chatml").text(conversation, conversation.messages.size()); });
  };
  EXPECT_THAT(message(), HasSubstr("message 1: found no content"));
  conversation.tools = nlohmann::ordered_json::array({1});
  EXPECT_THAT(message(), HasSubstr("found tools, of which the chat template chatml knows nothing"));
}

TEST(ChatTemplate, NamesWhatIsMissing) {
  const std::string token = message_of<DataError>([] {
    learnt_texts(conversation_of(kTurns), ChatTemplate::named("chatml"), TrainOn::assistant,
                 tokenizer_of("gemma"));
  });
  EXPECT_THAT(token, HasSubstr("needs the token \"<|im_start|>\", which the tokenizer lacks"));
  const std::string name = message_of<ConfigError>([] { ChatTemplate::named("llama-3"); });
  EXPECT_THAT(name,
              HasSubstr("\"llama-3\"; there are llama2, llama3, gemma, chatml; nearest: llama3"));
}

// ---- What is learnt

std::vector<std::string> learnt(const std::string& source, const Conversation& conversation,
                                TrainOn train_on = TrainOn::assistant,
                                TemplateVariables variables = {}) {
  return marked(learnt_texts(conversation, ChatTemplate("a test", source, std::move(variables)),
                             train_on, tokenizer_of("chatml")));
}

const Turns kQuestions = {{"user", "A"}, {"assistant", "b"}, {"user", "C"}, {"assistant", "d"}};
constexpr const char *kHead = "<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant\n",
                     *kNext = "<|im_start|>user\nC<|im_end|>\n<|im_start|>assistant\n";

const std::string kChatml =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

TEST(LearntTexts, AreWhatTheAssistantSaysWithTheEndOfItsTurn) {
  const Conversation all = conversation_of(kQuestions);
  const std::string first = std::string(kHead) + "{b<|im_end|>}\n", last = "{d<|im_end|>}\n";
  EXPECT_THAT(learnt(kChatml, all), ElementsAre(first + kNext + last));
  EXPECT_THAT(learnt(kChatml, all, TrainOn::last_assistant),
              ElementsAre(std::string(kHead) + "b<|im_end|>\n" + kNext + last));
  EXPECT_THAT(learnt(kChatml, all, TrainOn::all),
              ElementsAre("{" + std::string(kHead) + "b<|im_end|>\n" + kNext + "d<|im_end|>\n}"));
  Conversation some = all;
  some.carries_loss[3] = 0;
  EXPECT_THAT(learnt(kChatml, some), ElementsAre(first + kNext + "d<|im_end|>\n"));
  some.carries_loss[1] = 0;
  EXPECT_TRUE(learnt(kChatml, some).empty());
  EXPECT_TRUE(learnt(kChatml, some, TrainOn::last_assistant).empty());
}

TEST(LearntTexts, AreWhatTheTemplateEncloses) {
  const std::string source =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}"
      "{% generation %}{{ m.content }}<|im_end|>\n{% endgeneration %}{% else %}{{ m.content }}"
      "<|im_end|>\n{% endif %}{% endfor %}";
  Conversation conversation = conversation_of(kQuestions);
  const std::string first = std::string(kHead) + "{b<|im_end|>\n}", last = "{d<|im_end|>\n}";
  EXPECT_THAT(learnt(source, conversation), ElementsAre(first + kNext + last));
  EXPECT_THAT(learnt(source, conversation, TrainOn::last_assistant),
              ElementsAre(std::string(kHead) + "b<|im_end|>\n" + kNext + last));
  conversation.carries_loss[3] = 0;
  EXPECT_THAT(learnt(source, conversation), ElementsAre(first + kNext + "d<|im_end|>\n"));
}

// As Qwen 3 writes the last turn's thoughts alone: each turn is learnt as it is written when it is
// the last.
TEST(LearntTexts, AreOneForEachTurnWhereHistoryIsRewritten) {
  const std::string source =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and loop.last "
      "%}"
      "<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}<|im_end|>\n"
      "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% if not thinks "
      "%}<think>\n"
      "\n</think>\n\n{% endif %}{% endif %}";
  Conversation conversation = conversation_of(kQuestions);
  conversation.messages[1]["reasoning"] = "x";  // known by other names
  conversation.messages[3]["thinking"] = "y";
  TemplateVariables thinks{.values = {{"thinks", true}}};
  EXPECT_THAT(learnt(source, conversation, TrainOn::assistant, thinks),
              ElementsAre(std::string(kHead) + "{<think>\nx\n</think>\n\nb<|im_end|>}\n",
                          std::string(kHead) + "b<|im_end|>\n" + kNext +
                              "{<think>\ny\n</think>\n\nd<|im_end|>}\n"));
  EXPECT_THAT(learnt(source, conversation, TrainOn::last_assistant, thinks),
              ElementsAre(std::string(kHead) + "b<|im_end|>\n" + kNext +
                          "{<think>\ny\n</think>\n\nd<|im_end|>}\n"));
  // What the text that asks writes itself, here an empty thought, is not learnt.
  for (auto& message : conversation.messages) {
    message.erase("reasoning");
    message.erase("thinking");
    message["reasoning_content"] = "";
  }
  EXPECT_THAT(learnt(source, conversation, TrainOn::last_assistant),
              ElementsAre(std::string(kHead) + "b<|im_end|>\n" + kNext +
                          "<think>\n\n</think>\n\n{d<|im_end|>}\n"));
}

// An opened thought that the turn does not have; a second end, which only the last turn has.
TEST(LearntTexts, BeginWhereTurnAndQuestionPart) {
  const std::string opened =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}";
  EXPECT_THAT(learnt(opened, conversation_of({kQuestions[0], kQuestions[1]})),
              ElementsAre(std::string(kHead) + "{b<|im_end|>}\n"));
  const std::string twice = kChatml.substr(0, kChatml.find("{% if")) +
                            "{% if add_generation_prompt %}<|im_start|>assistant\n{% else %}"
                            "<|endoftext|>{% endif %}";
  EXPECT_THAT(
      learnt(twice, conversation_of(kQuestions)),
      ElementsAre(std::string(kHead) + "{b<|im_end|>}\n" + kNext + "{d<|im_end|>\n<|endoftext|>}"));
  // But an end that is another one while it is the last is learnt as that.
  const std::string other =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% if loop.last %}"
      "<|endoftext|>{% else %}<|im_end|>\n{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  const Conversation asked = conversation_of(kQuestions);
  EXPECT_THAT(learnt(other, asked), testing::SizeIs(2));
}

// As GLM's models: the next message's first token ends a turn, also the last one.
TEST(LearntTexts, EndWithTheNextMessageWhereTurnsHaveNoEnd) {
  const std::string source =
      "{% for m in messages %}{{ '<|im_start|>' if m.role == 'user' else '<|im_end|>' }}\n"
      "{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|im_end|>{% endif %}";
  EXPECT_THAT(
      learnt(source, conversation_of(kQuestions)),
      ElementsAre("<|im_start|>\nA<|im_end|>{\nb<|im_start|>}\nC<|im_end|>{\nd<|im_start|>}"));
  const Tokenizer& tokenizer = tokenizer_of("chatml");
  EXPECT_EQ(ChatTemplate("a test", source).end_of_turn(tokenizer), tokenizer.id_of("<|im_start|>"));
}

// As Mistral's have what the system says, at the question that is the last; then as generate asks.
TEST(LearntTexts, StandBehindTheQuestionAsItIsAsked) {
  const std::string source =
      "{% for m in messages %}{% if m.role == 'user' %}<|im_start|>{% if loop.last %}Be kind. "
      "{% endif %}{{ m.content }}<|im_end|>{% else %}{{ m.content }}<|endoftext|>{% endif %}"
      "{% endfor %}";
  EXPECT_THAT(learnt(source, conversation_of(kQuestions)),
              ElementsAre("<|im_start|>Be kind. A<|im_end|>{b<|endoftext|>}",
                          "<|im_start|>A<|im_end|>b<|endoftext|><|im_start|>Be kind. C<|im_end|>"
                          "{d<|endoftext|>}"));
  const std::string without =
      "{% for m in messages %}{{ m.content if m.role == 'user' or loop.index0 % 2 else 'x' }}"
      "{% endfor %}{{ 'asked' if add_generation_prompt else 'told' }}";
  EXPECT_THAT(message_of<DataError>([&] {
                learnt(
                    "{% if add_generation_prompt %}Asked of old"
                    "{% else %}Told{% endif %}" +
                        without,
                    conversation_of(kQuestions));
              }),
              HasSubstr("writes the conversation with it otherwise than up to there"));
}

TEST(LearntTexts, HaveNoOpeningOfATurnThatNobodyAskedFor) {
  const std::string source =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}"
      "{{ '<|im_start|>assistant\n' }}";
  const std::string first = "<|im_start|>user\nA<|im_end|><|im_start|>assistant\n{b<|im_end|>}",
                    next = "<|im_start|>user\nC<|im_end|><|im_start|>assistant\n{d<|im_end|>}";
  EXPECT_THAT(learnt(source, conversation_of(kQuestions)), ElementsAre(first + next));
}

// With an end by which a tool's answer begins, or another call of the assistant's.
TEST(LearntTexts, EndCallsWhereTheToolAnswers) {
  const std::string source =
      "{% for m in messages %}{{ {'user': '<|im_start|>', 'assistant': '<|im_end|>', 'tool': "
      "'<|endoftext|>'}[m.role] }}{{ m.content or 'call' }}{% endfor %}"
      "{% if add_generation_prompt %}<|im_end|>{% endif %}";
  Conversation conversation = conversation_of({{"user", "A"}, {"assistant", nullptr}});
  conversation.messages[1]["tool_calls"] = nlohmann::ordered_json::array({1});
  EXPECT_THAT(learnt(source, conversation),
              ElementsAre("<|im_start|>A<|im_end|>{call<|endoftext|>}"));
  conversation.messages.push_back({{"role", "tool"}, {"content", "1"}});
  conversation.messages.push_back({{"role", "assistant"}, {"content", "b"}});
  conversation.carries_loss = {0, 1, 0, 1};
  EXPECT_THAT(learnt(source, conversation),
              ElementsAre("<|im_start|>A<|im_end|>{call<|endoftext|>}1<|im_end|>{b<|im_start|>}"));
}

// OpenAI's null content beside a call, where a template wants a string, is an empty one.
TEST(ChatTemplate, ReadsCallsWithoutContent) {
  Conversation conversation = conversation_of({{"user", "A"}, {"assistant", nullptr}});
  conversation.messages[1]["tool_calls"] = nlohmann::ordered_json::array({1});
  const std::string strict = "{% for m in messages %}[{{ m.content.split('x')[0] }}]{% endfor %}",
                    tells = "{% for m in messages %}[{{ m.content is none }}]{% endfor %}";
  EXPECT_EQ(ChatTemplate("T", strict).text(conversation, 2).text, "[A][]");
  EXPECT_EQ(ChatTemplate("T", tells).text(conversation, 2).text, "[False][True]");
}

TEST(LearntTexts, AreBounded) {
  Turns turns;
  for (int i = 0; i < 3000; ++i)
    turns.push_back({i % 2 ? "assistant" : "user", std::string(100, 'a')});
  EXPECT_THAT(message_of<DataError>([&] { learnt(kChatml, conversation_of(turns)); }),
              HasSubstr("found 3000 messages, which are too long to find what the assistant"));
}

}  // namespace
}  // namespace longshore::data
