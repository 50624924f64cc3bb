#include "longshore/data/text/learnt_texts.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/text.h"
#include "longshore/data/tokenizers/white_space.h"

namespace longshore::data {
namespace {

using Ending = ChatTemplate::Ending;

size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

size_t common_suffix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first -
                             a.rbegin());
}

class Turns {
 public:
  Turns(const Conversation& conversation, const ChatTemplate& chat_template,
        const Tokenizer& tokenizer)
      : conversation_(conversation), template_(chat_template), tokenizer_(tokenizer) {}

  // The turns in one text, or nothing where the template writes them otherwise by themselves.
  std::optional<LearntText> together(const std::vector<size_t>& turns) {
    const size_t count = conversation_.messages.size();
    LearntText whole{complete_text(count)};
    for (const size_t turn : turns) {
      const bool is_last = turn + 1 == count;
      const LearntText alone = by_itself(turn, is_last ? whole.text : complete_text(turn + 1));
      const JinjaSpan span = alone.learnt.front();
      const size_t common = common_prefix(alone.text, whole.text);
      // What is there only while the turn is the last, such as a second end, is no loss.
      const size_t end =
          common == alone.text.size() ? span.end : end_within(alone.text, span, common);
      if (end == 0) return std::nullopt;
      whole.learnt.push_back({span.begin, end});
      if (is_last)
        close(whole, turn);
      else if (!is_assistant(turn + 1))
        whole.learnt.back().end = end_of_turn_behind(whole.text, whole.learnt.back());
    }
    return whole;
  }

  // The conversation up to the end of the turn, where that turn is learnt.
  LearntText by_itself(size_t turn) {
    LearntText alone = by_itself(turn, complete_text(turn + 1));
    close(alone, turn);
    return alone;
  }

 private:
  bool is_assistant(size_t message) const {
    return conversation_.messages[message]["role"] == kAssistant;
  }

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

  // Without the opening of another turn, which some templates write though none is asked for.
  std::string complete_text(size_t messages) {
    std::string written = text(conversation_, messages, Ending::complete);
    if (template_.opens_when_asked() || messages < 2 || !is_assistant(messages - 1)) return written;
    const std::string before = text(conversation_, messages - 1, Ending::complete);
    const size_t shared = common_suffix(before, written);
    const std::string_view ending = std::string_view(written).substr(written.size() - shared);
    size_t kept = ending.size();
    for (const TextPart& part : tokenizer_.split(ending)) {
      if (!part.special) continue;
      kept = static_cast<size_t>(part.text.data() - ending.data()) + part.text.size();
      break;
    }
    if (!is_white_space(ending.substr(kept))) written.resize(written.size() - shared + kept);
    return written;
  }

  // `whole` is the conversation up to the turn's end.
  LearntText by_itself(size_t turn, std::string whole) {
    std::string asked = text(conversation_, turn, Ending::assistant_opens);
    size_t begin = common_prefix(asked, whole);
    if (begin < asked.size()) {
      const std::string before = turn == 0 ? "" : text(conversation_, turn, Ending::complete);
      if (begin >= before.size() || is_of_tokens(asked, token_begin(asked, begin))) {
        begin = token_begin(whole, begin);
      } else {
        // What comes before is written otherwise: then as it is where the turn is asked for.
        const size_t turn_begin = place_behind(asked, whole, turn);
        begin = asked.size();
        whole = std::move(asked) + whole.substr(turn_begin);
      }
    }
    const JinjaSpan span{begin, end_of_turn(whole, begin, whole.size())};
    return {std::move(whole), {span}};
  }

  // Where in `whole` the end of `asked` ends, where they share most.
  size_t place_behind(std::string_view asked, std::string_view whole, size_t turn) const {
    constexpr size_t kLeast = 8, kMostPlaces = 1000;
    const std::string_view tail = asked.substr(asked.size() - std::min(asked.size(), kLeast));
    size_t best = 0, shared = 0, places = 0;
    for (size_t at = whole.rfind(tail); at != whole.npos && ++places <= kMostPlaces;
         at = at == 0 ? whole.npos : whole.rfind(tail, at - 1)) {
      const size_t end = at + tail.size(), same = common_suffix(asked, whole.substr(0, end));
      if (same > shared) std::tie(best, shared) = std::pair(end, same);
    }
    if (shared == 0)
      throw DataError("message " + std::to_string(turn) + ": the chat template " +
                      template_.name() +
                      " writes the conversation with it otherwise than up to there, so what the "
                      "assistant writes cannot be found; nearest: train_on=all");
    return best;
  }

  // Adds its end to a turn, the last of the text, that has none of its own.
  void close(LearntText& written, size_t turn) {
    JinjaSpan& span = written.learnt.back();
    if (ends_with_special(written.text, span)) return;
    const std::string ending = conversation_.messages[turn].contains("tool_calls")
                                   ? ending_before_answer(written.text, span, turn)
                                   : ending_of_plain_turn();
    if (ending.empty()) return;
    written.text.resize(span.end);
    written.text += ending;
    span.end = written.text.size();
  }

  // What stands behind a call up to the special token by which the tool's answer begins.
  std::string ending_before_answer(const std::string& written, JinjaSpan span, size_t turn) {
    Conversation longer = conversation_;
    longer.messages.erase(longer.messages.begin() + static_cast<std::ptrdiff_t>(turn) + 1,
                          longer.messages.end());
    longer.messages.push_back({{"role", "tool"}, {"content", "1"}});
    try {
      const std::string next = text(longer, longer.messages.size(), Ending::complete);
      if (next.starts_with(std::string_view(written).substr(0, span.end)))
        return next.substr(span.end, end_of_turn_behind(next, span) - span.end);
    } catch (const DataError&) {  // the template allows no more
    }
    return ending_of_plain_turn();
  }

  // What stands behind an answer up to the special token by which the next question begins.
  std::string ending_of_plain_turn() {
    constexpr std::string_view kAnswer = "quay";
    Conversation plain = user_says("Where?");
    plain.messages.push_back({{"role", kAssistant}, {"content", kAnswer}});
    plain.messages.push_back(plain.messages[0]);
    try {
      const std::string written = text(plain, plain.messages.size(), Ending::complete);
      const size_t answer = written.find(kAnswer);
      if (answer == written.npos) return "";
      const size_t end = answer + kAnswer.size();
      return written.substr(end, end_of_turn_behind(written, {answer, end}) - end);
    } catch (const DataError&) {
      return "";
    }
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
      return part.special ? begin + part.text.size() - white_space_at_end(part.text) : turn.end;
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
      if (part.special && !is_white_space(part.text)) {
        const auto part_begin = static_cast<size_t>(part.text.data() - text.data());
        last = part_begin + part.text.size() - white_space_at_end(part.text);
      }
    return last;
  }

  // Whether from there on there are but tokens and white space.
  bool is_of_tokens(std::string_view text, size_t begin) const {
    return std::ranges::all_of(tokenizer_.split(text.substr(begin)), [](const TextPart& part) {
      return part.id >= 0 || is_white_space(part.text);
    });
  }

  // The turn's end where all of `text` behind `common` is special tokens and white space, and a
  // special token ends the turn before; else 0.
  size_t end_within(std::string_view text, JinjaSpan span, size_t common) const {
    common = token_begin(text, common);
    if (common <= span.begin) return 0;
    if (!is_of_tokens(text, common)) return 0;
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
