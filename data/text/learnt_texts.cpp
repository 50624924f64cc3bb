#include "data/text/learnt_texts.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "data/tokenizers/white_space.h"

namespace longshore::data {
namespace {

using Ending = ChatTemplate::Ending;

size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

bool is_white_space(std::string_view text) { return white_space_at_head(text) == text.size(); }

class Turns {
 public:
  Turns(const Conversation& conversation, const ChatTemplate& chat_template,
        const Tokenizer& tokenizer)
      : conversation_(conversation), template_(chat_template), tokenizer_(tokenizer) {}

  // The turns in one text, or nothing where the template writes them otherwise by themselves.
  std::optional<LearntText> together(const std::vector<size_t>& turns) {
    LearntText whole{text(conversation_.messages.size(), Ending::complete)};
    for (const size_t turn : turns) {
      const bool is_last = turn + 1 == conversation_.messages.size();
      const LearntText alone =
          by_itself(turn, is_last ? whole.text : text(turn + 1, Ending::complete));
      const JinjaSpan span = alone.learnt.front();
      const size_t common = common_prefix(alone.text, whole.text);
      // What is there only while the turn is the last, such as a second end, is no loss.
      const size_t end =
          common == alone.text.size() ? span.end : end_within(alone.text, span, common);
      if (end == 0) return std::nullopt;
      whole.learnt.push_back({span.begin, end_of_turn_behind(whole.text, {span.begin, end})});
      if (is_last) close(whole, turn);
    }
    return whole;
  }

  // The conversation up to the end of the turn, where that turn is learnt.
  LearntText by_itself(size_t turn) {
    LearntText alone = by_itself(turn, text(turn + 1, Ending::complete));
    close(alone, turn);
    return alone;
  }

 private:
  std::string text(size_t messages, Ending ending) { return text(conversation_, messages, ending); }

  std::string text(const Conversation& conversation, size_t messages, Ending ending) {
    // So that none takes more than a second or so.
    constexpr size_t kMostBytes = size_t{64} << 20, kMostMessages = 400'000;
    std::string written = template_.text(conversation, messages, ending).text;
    written_bytes_ += written.size();
    written_messages_ += messages;
    if (written_bytes_ > kMostBytes || written_messages_ > kMostMessages)
      throw DataError("found " + plural(std::ssize(conversation_.messages), "message") +
                      ", which are too long to find what the assistant writes in them: that takes "
                      "them up to each of its turns; expected fewer, or a template with "
                      "{% generation %}");
    return written;
  }

  LearntText by_itself(size_t turn, std::string whole) {
    const std::string asked = text(turn, Ending::assistant_opens);
    size_t begin = common_prefix(asked, whole);
    if (begin < asked.size()) begin = token_begin(whole, begin);
    const JinjaSpan span{begin, end_of_turn(whole, begin, whole.size())};
    return {std::move(whole), {span}};
  }

  // Adds the end to a turn, the last of the text, of which the next message would write the end.
  void close(LearntText& written, size_t turn) {
    JinjaSpan& span = written.learnt.back();
    if (ends_with_special(written.text, span)) return;
    Conversation longer = conversation_;
    longer.messages.erase(longer.messages.begin() + static_cast<ptrdiff_t>(turn) + 1,
                          longer.messages.end());
    longer.messages.push_back(user_says("Go on.").messages[0]);
    std::string next;
    try {
      next = text(longer, longer.messages.size(), Ending::complete);
    } catch (const DataError&) {
      return;  // the template allows no more
    }
    if (!next.starts_with(written.text)) return;
    const size_t end = end_of_turn_behind(next, {span.begin, written.text.size()});
    if (end == written.text.size()) return;
    next.resize(end);
    written.text = std::move(next);
    span.end = end;
  }

  bool ends_with_special(std::string_view text, JinjaSpan span) const {
    return end_of_last_special(text, span.begin, span.end) == span.end;
  }

  // Of a turn that has no end of its own, such as GLM's: the end of the special token that comes
  // next, if white space alone is between. Else the turn's end.
  size_t end_of_turn_behind(std::string_view text, JinjaSpan turn) const {
    if (ends_with_special(text, turn)) return turn.end;
    for (const TextPart& part : tokenizer_.split(text.substr(turn.end))) {
      if (is_white_space(part.text)) continue;
      const auto begin = static_cast<size_t>(part.text.data() - text.data());
      return part.id < 0 ? turn.end : begin + part.text.size() - white_space_at_end(part.text);
    }
    return turn.end;
  }

  // Where the special token or the character begins within which `at` lies.
  size_t token_begin(std::string_view text, size_t at) const {
    while (at > 0 && at < text.size() && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80) --at;
    for (const TextPart& part : tokenizer_.split(text)) {
      const auto begin = static_cast<size_t>(part.text.data() - text.data());
      if (begin >= at) break;
      if (part.id >= 0 && at < begin + part.text.size()) return begin;
    }
    return at;
  }

  // The end of the last special token between them, if white space alone follows; else `end`.
  size_t end_of_turn(std::string_view text, size_t begin, size_t end) const {
    const size_t special = end_of_last_special(text, begin, end);
    return special > 0 && is_white_space(text.substr(special, end - special)) ? special : end;
  }

  // Behind the last special token in text[begin, end), without white space that it took along; 0
  // where there is none.
  size_t end_of_last_special(std::string_view text, size_t begin, size_t end) const {
    size_t last = 0;
    for (const TextPart& part : tokenizer_.split(text.substr(begin, end - begin)))
      if (part.id >= 0 && !is_white_space(part.text)) {
        const auto part_begin = static_cast<size_t>(part.text.data() - text.data());
        last = part_begin + part.text.size() - white_space_at_end(part.text);
      }
    return last;
  }

  // The turn's end where all of `text` behind `common` is special tokens and white space, and a
  // special token ends the turn before; else 0.
  size_t end_within(std::string_view text, JinjaSpan span, size_t common) const {
    common = token_begin(text, common);
    if (common <= span.begin) return 0;
    for (const TextPart& part : tokenizer_.split(text.substr(common)))
      if (part.id < 0 && !is_white_space(part.text)) return 0;
    const size_t special = end_of_last_special(text, span.begin, common);
    return special > 0 && is_white_space(text.substr(special, common - special)) ? special : 0;
  }

  const Conversation& conversation_;
  const ChatTemplate& template_;
  const Tokenizer& tokenizer_;
  size_t written_bytes_ = 0, written_messages_ = 0;
};

// The messages that are the assistant's, of which each is one span.
std::vector<size_t> assistants(const Conversation& conversation) {
  std::vector<size_t> turns;
  for (size_t i = 0; i < conversation.messages.size(); ++i)
    if (conversation.messages[i]["role"] == kAssistant) turns.push_back(i);
  return turns;
}

LearntText generated(const Conversation& conversation, const ChatTemplate& chat_template,
                     const std::vector<size_t>& turns, bool is_every_turn) {
  JinjaText written = chat_template.text(conversation, conversation.messages.size());
  if (is_every_turn) return {std::move(written.text), std::move(written.generated)};
  const std::vector<size_t> all = assistants(conversation);
  if (written.generated.size() != all.size())
    throw DataError("found " + plural(std::ssize(all), "message") +
                    " of the assistant, for which the chat template " + chat_template.name() +
                    " has " + std::to_string(written.generated.size()) +
                    " times {% generation %}; expected as many, to learn some of them alone");
  LearntText result{std::move(written.text), {}};
  for (size_t i = 0; i < all.size(); ++i)
    if (std::ranges::find(turns, all[i]) != turns.end())
      result.learnt.push_back(written.generated[i]);
  return result;
}

}  // namespace

std::vector<LearntText> learnt_texts(const Conversation& conversation,
                                     const ChatTemplate& chat_template, TrainOn train_on,
                                     const Tokenizer& tokenizer) {
  chat_template.require_special_tokens(tokenizer);
  const size_t count = conversation.messages.size();
  if (count == 0) throw DataError("expected a conversation, found no messages");
  if (train_on == TrainOn::all) {
    LearntText whole{chat_template.text(conversation, count).text, {}};
    whole.learnt.push_back({0, whole.text.size()});
    return {std::move(whole)};
  }
  std::vector<size_t> turns = assistants(conversation);
  if (train_on == TrainOn::last_assistant && turns.size() > 1)
    turns.erase(turns.begin(), turns.end() - 1);
  const bool is_every_turn =
      train_on == TrainOn::assistant &&
      std::ranges::all_of(turns, [&](size_t turn) { return conversation.carries_loss[turn] != 0; });
  std::erase_if(turns, [&](size_t turn) { return conversation.carries_loss[turn] == 0; });
  if (turns.empty()) return {};
  if (chat_template.has_generation(conversation))
    return {generated(conversation, chat_template, turns, is_every_turn)};
  Turns writer(conversation, chat_template, tokenizer);
  if (std::optional<LearntText> whole = writer.together(turns)) return {*std::move(whole)};
  std::vector<LearntText> texts;
  for (const size_t turn : turns) texts.push_back(writer.by_itself(turn));
  return texts;
}

}  // namespace longshore::data
