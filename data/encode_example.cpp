#include "data/encode_example.h"

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

// `before` is how many of the pieces, at most, are none of the text that is tokenized: the bos that
// is put before it.
Document encode_pieces(std::span<const ChatPiece> pieces, const Tokenizer& tokenizer,
                       size_t before) {
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
                i <= before ? TextPosition::start : TextPosition::later);
    i = end;
  }
  return document;
}

Pieces framed(Pieces text, const Tokenizer& tokenizer) {
  Pieces pieces;
  if (tokenizer.bos_id() >= 0) pieces.push_back({"", tokenizer.bos_id(), text[0].is_completion});
  std::ranges::move(text, std::back_inserter(pieces));
  pieces.push_back({"", tokenizer.eos_id(), true});
  return pieces;
}

struct PiecesOf {
  const Tokenizer& tokenizer;
  const std::optional<ChatTemplate>& chat_template;

  Pieces operator()(const TextExample& example) const {
    return framed({{example.text, std::nullopt, true}}, tokenizer);
  }
  Pieces operator()(const CompletionExample& example) const {
    return framed({{example.prompt, std::nullopt, false}, {example.completion, std::nullopt, true}},
                  tokenizer);
  }
  Pieces operator()(const ChatExample& example) const {
    if (!chat_template)
      throw DataError(
          "found messages, expected a chat template to write them with (chat_template, "
          "--chat-template): " +
          join(kChatTemplates));
    return chat_template->pieces(example.messages, tokenizer);
  }
};

}  // namespace

Document encode(const Example& example, const Tokenizer& tokenizer,
                const std::optional<ChatTemplate>& chat_template) {
  const bool is_chat = std::holds_alternative<ChatExample>(example);
  Document document = encode_pieces(std::visit(PiecesOf{tokenizer, chat_template}, example),
                                    tokenizer, is_chat || tokenizer.bos_id() < 0 ? 0 : 1);
  const auto& marks = document.carries_loss;
  if (marks.empty() || std::find(marks.begin() + 1, marks.end(), 1) == marks.end())
    throw DataError("found nothing to learn: " + plural(std::ssize(marks), "token") +
                    (marks.size() == 1 ? ", of which the first is predicted by none" : ""));
  return document;
}

Document encode_text(const std::string& text, const Tokenizer& tokenizer) {
  return encode_pieces(PiecesOf{tokenizer, std::nullopt}(TextExample{text}), tokenizer,
                       tokenizer.bos_id() < 0 ? 0 : 1);
}

std::vector<int32_t> prompt_tokens(std::span<const ChatMessage> messages,
                                   const Tokenizer& tokenizer, const ChatTemplate& chat_template) {
  const Pieces pieces =
      chat_template.pieces(messages, tokenizer, ChatTemplate::Ending::assistant_opens);
  return encode_pieces(pieces, tokenizer, 0).tokens;
}

}  // namespace longshore::data
