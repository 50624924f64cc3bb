#include "data/text/encode_example.h"

#include <algorithm>
#include <span>
#include <string>

#include "base/error.h"
#include "base/text.h"

namespace longshore::data {
namespace {

using Pieces = std::vector<ChatPiece>;

void append(Document& document, std::span<const int32_t> tokens, bool carries_loss) {
  document.tokens.insert(document.tokens.end(), tokens.begin(), tokens.end());
  document.carries_loss.resize(document.tokens.size(), carries_loss ? 1 : 0);
}

// Pieces without a special token between them: one text to the tokenizer. A piece's tokens are
// those that end within it, counted in the bytes that tokens stand for.
void append_text(Document& document, std::span<const ChatPiece> pieces, const Tokenizer& tokenizer,
                 TextPosition position) {
  std::string text;
  for (const ChatPiece& piece : pieces) text += piece.text;
  const std::vector<int32_t> all = tokenizer.encode(text, position);
  size_t begin = 0, bytes = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    bytes += pieces[i].text.size();
    size_t end = all.size();
    if (i + 1 < pieces.size()) {
      const std::vector<int32_t> head =
          tokenizer.encode(std::string_view(text).substr(0, bytes), position);
      int64_t left = tokenizer.text_bytes(head) - tokenizer.text_bytes(std::span(all).first(begin));
      end = begin;
      while (end < all.size() &&
             (left -= tokenizer.text_bytes(std::span(all).subspan(end, 1))) >= 0)
        ++end;
    }
    append(document, std::span(all).subspan(begin, end - begin), pieces[i].is_completion);
    begin = end;
  }
}

Document encode_pieces(std::span<const ChatPiece> pieces, const Tokenizer& tokenizer) {
  Document document;
  for (size_t i = 0; i < pieces.size();) {
    if (pieces[i].special_id) {
      append(document, std::span(&*pieces[i].special_id, 1), pieces[i].is_completion);
      ++i;
      continue;
    }
    size_t end = i;
    while (end < pieces.size() && !pieces[end].special_id) ++end;
    append_text(document, pieces.subspan(i, end - i), tokenizer,
                i == 0 ? TextPosition::start : TextPosition::later);
    i = end;
  }
  return document;
}

// The tokens around a text; -1 for none.
struct Frame {
  int32_t bos, eos;
};

// The text's pieces with the frame around them, but for what they begin and end with themselves.
Document framed(Pieces pieces, Frame frame, const Tokenizer& tokenizer, AddBosEos add) {
  bool has_bos = false, has_eos = false;
  if (tokenizer.is_sentencepiece() && add == AddBosEos::missing) {
    auto spelled = [&](int32_t id) { return id < 0 ? "" : tokenizer.spelling(id); };
    const std::string bos = spelled(frame.bos), eos = spelled(frame.eos);
    std::string &head = pieces.front().text, &tail = pieces.back().text;
    has_bos = !bos.empty() && head.starts_with(bos);
    if (has_bos) head.erase(0, bos.size());
    has_eos = !eos.empty() && tail.ends_with(eos);
    if (has_eos) tail.resize(tail.size() - eos.size());
  }
  const bool is_cut = has_bos || has_eos;
  Document document = encode_pieces(pieces, tokenizer);
  std::vector<int32_t>& tokens = document.tokens;
  if (!is_cut && !tokens.empty()) {
    has_bos = frame.bos >= 0 && tokens.front() == frame.bos;
    has_eos = frame.eos >= 0 && tokens.back() == frame.eos && tokens.size() > (has_bos ? 1u : 0u);
  }
  document.writes_bos_or_eos = has_bos || has_eos;
  if (add == AddBosEos::never) return document;
  const bool puts_all = is_cut || add == AddBosEos::always;
  if (frame.bos >= 0 && (puts_all || !has_bos)) {
    tokens.insert(tokens.begin(), frame.bos);
    document.carries_loss.insert(document.carries_loss.begin(), pieces.front().is_completion);
  }
  if (frame.eos >= 0 && (puts_all || !has_eos)) append(document, std::span(&frame.eos, 1), true);
  return document;
}

Document framed_text(const std::string& text, const Tokenizer& tokenizer, AddBosEos add) {
  return framed({{text, std::nullopt, true}}, {tokenizer.bos_id(), tokenizer.eos_id()}, tokenizer,
                add);
}

struct Encoder {
  const Tokenizer& tokenizer;
  const std::optional<ChatTemplate>& chat_template;
  AddBosEos add;

  Document operator()(const TextExample& example) const {
    return framed_text(example.text, tokenizer, add);
  }
  Document operator()(const CompletionExample& example) const {
    return framed({{example.prompt, std::nullopt, false}, {example.completion, std::nullopt, true}},
                  {tokenizer.bos_id(), tokenizer.eos_id()}, tokenizer, add);
  }
  Document operator()(const ChatExample& example) const {
    if (!chat_template)
      throw DataError(
          "found messages, expected a chat template to write them with (chat_template, "
          "--chat-template): " +
          join(kChatTemplates));
    return encode_pieces(chat_template->pieces(example.messages, tokenizer), tokenizer);
  }
};

}  // namespace

Document encode(const Example& example, const Tokenizer& tokenizer,
                const std::optional<ChatTemplate>& chat_template, AddBosEos add) {
  Document document = std::visit(Encoder{tokenizer, chat_template, add}, example);
  const auto& marks = document.carries_loss;
  if (marks.empty() || std::find(marks.begin() + 1, marks.end(), 1) == marks.end())
    throw DataError("found nothing to learn: " + plural(std::ssize(marks), "token") +
                    (marks.size() == 1 ? ", of which the first is predicted by none" : ""));
  return document;
}

Document encode_text(const std::string& text, const Tokenizer& tokenizer, AddBosEos add) {
  return framed_text(text, tokenizer, add);
}

std::vector<int32_t> prompt_tokens(const std::string& text, int32_t opening,
                                   const Tokenizer& tokenizer) {
  return framed({{text, std::nullopt, false}}, {opening, -1}, tokenizer, AddBosEos::missing).tokens;
}

std::vector<int32_t> prompt_tokens(std::span<const ChatMessage> messages,
                                   const Tokenizer& tokenizer, const ChatTemplate& chat_template) {
  const Pieces pieces =
      chat_template.pieces(messages, tokenizer, ChatTemplate::Ending::assistant_opens);
  return encode_pieces(pieces, tokenizer).tokens;
}

}  // namespace longshore::data
