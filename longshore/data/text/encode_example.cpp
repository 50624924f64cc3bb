#include "longshore/data/text/encode_example.h"

#include <algorithm>
#include <span>
#include <string>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"

namespace longshore::data {
namespace {

// The special tokens around an image's in a model that has them in its text.
constexpr const char *kStartOfImage = "<start_of_image>", *kEndOfImage = "<end_of_image>";

// A part of a document. Parts without a special token between them are one text to a tokenizer:
// their characters may share tokens.
struct Piece {
  std::string text;                   // a special token's name, where it is one
  std::optional<int32_t> special_id;  // its id
  bool is_completion = false;         // what is trained on
  bool is_image = false;              // the place of an image, by the name of what begins one
};
using Pieces = std::vector<Piece>;

int32_t special_id(const char* name, const Tokenizer& tokenizer) {
  const std::optional<int32_t> id = tokenizer.id_of(name);
  if (!id)
    throw DataError(path_text(tokenizer.path()) + ": images need the token " + in_quotes(name) +
                    ", which the tokenizer lacks");
  return *id;
}

void append(Document& document, std::span<const int32_t> tokens, bool carries_loss) {
  document.tokens.insert(document.tokens.end(), tokens.begin(), tokens.end());
  document.carries_loss.resize(document.tokens.size(), carries_loss ? 1 : 0);
}

// Pieces without a special token between them: one text to the tokenizer. A piece's tokens are
// those that end within it, counted in the bytes that tokens stand for.
void append_text(Document& document, std::span<const Piece> pieces, const Tokenizer& tokenizer,
                 TextPosition position) {
  std::string text;
  for (const Piece& piece : pieces) text += piece.text;
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

Document encode_pieces(std::span<const Piece> pieces, const Tokenizer& tokenizer) {
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

// Puts what stands for an image in text at each place of one.
Pieces with_images(const Pieces& pieces, const ImageText& image_text, const Tokenizer& tokenizer) {
  Pieces result;
  for (const Piece& piece : pieces) {
    if (!piece.is_image) {
      result.push_back(piece);
      continue;
    }
    const Piece line_breaks{.text = "\n\n"}, token{.special_id = image_text.image_token};
    result.push_back(line_breaks);
    result.push_back({.special_id = special_id(kStartOfImage, tokenizer)});
    result.insert(result.end(), static_cast<size_t>(image_text.tokens_per_image), token);
    result.push_back({.special_id = special_id(kEndOfImage, tokenizer)});
    result.push_back(line_breaks);
  }
  return result;
}

// A prompt with places of images: where it names them, or else at its beginning, but after a bos
// that it writes itself. The first piece is text.
Pieces prompt_with_places(std::string_view rest, int64_t images, const Tokenizer& tokenizer) {
  const Piece place{.text = kStartOfImage, .is_image = true};
  Pieces pieces;
  auto add_text = [&](size_t size) {
    pieces.push_back({.text = std::string(rest.substr(0, size))});
    rest.remove_prefix(size);
  };
  if (rest.find(kStartOfImage) == rest.npos) {
    const std::string bos = tokenizer.bos_id() < 0 ? "" : tokenizer.spelling(tokenizer.bos_id());
    add_text(rest.starts_with(bos) ? bos.size() : 0);
    pieces.insert(pieces.end(), static_cast<size_t>(images), place);
  }
  for (size_t at; (at = rest.find(kStartOfImage)) != rest.npos;) {
    add_text(at);
    pieces.push_back(place);
    rest.remove_prefix(std::string_view(kStartOfImage).size());
  }
  add_text(rest.size());
  return pieces;
}

int64_t places_in(const Pieces& pieces) {
  return std::ranges::count(pieces, true, &Piece::is_image);
}

// That as many tokens of images are there as images have: others would pass for places of theirs.
void expect_tokens_of_images(const Document& document, int64_t images, const ImageText& image_text,
                             const Tokenizer& tokenizer) {
  auto expect = [&](int32_t token, int64_t count) {
    if (std::ranges::count(document.tokens, token) != count)
      throw DataError("found " + in_quotes(tokenizer.spelling(token)) +
                      " in the text, expected none: it is put there for images");
  };
  expect(image_text.image_token, images * image_text.tokens_per_image);
  if (image_text.kind == ImageText::Kind::in_text)
    if (const std::optional<int32_t> start = tokenizer.id_of(kStartOfImage)) expect(*start, images);
}

Document framed_text(const std::string& text, const Tokenizer& tokenizer, AddBosEos add) {
  return framed({{text, std::nullopt, true}}, {tokenizer.bos_id(), tokenizer.eos_id()}, tokenizer,
                add);
}

// Of a model that has images in its text.
Pieces prompt_with_images(const std::string& prompt, int64_t images, const ImageText& image_text,
                          const Tokenizer& tokenizer) {
  const Pieces pieces = prompt_with_places(prompt, images, tokenizer);
  if (places_in(pieces) != images)
    throw DataError("prompt: found " + std::to_string(places_in(pieces)) + " times " +
                    kStartOfImage + ", expected one for each of " + plural(images, "image") +
                    ", or none");
  return with_images(pieces, image_text, tokenizer);
}

// Of one that has them before it.
Document prompt_behind_images(const std::string& prompt, int64_t images,
                              const ImageText& image_text, const Tokenizer& tokenizer,
                              AddBosEos add) {
  Document document;
  const std::vector<int32_t> tokens(static_cast<size_t>(images * image_text.tokens_per_image),
                                    image_text.image_token);
  append(document, tokens, false);
  const Document part = framed({{.text = prompt + "\n"}}, {tokenizer.bos_id(), -1}, tokenizer, add);
  append(document, part.tokens, false);
  document.writes_bos_or_eos = part.writes_bos_or_eos;
  return document;
}

// Appends text, cut where learnt spans begin and end.
void append_cut(Pieces& pieces, const LearntText& written, size_t begin, size_t end) {
  for (size_t at = begin; at < end;) {
    const auto span = std::ranges::find_if(written.learnt, [&](const JinjaSpan& each) {
      return at < each.end && each.begin < each.end;
    });
    const bool is_learnt = span != written.learnt.end() && span->begin <= at;
    const size_t next =
        span == written.learnt.end() ? end : std::min(end, is_learnt ? span->end : span->begin);
    pieces.push_back({.text = written.text.substr(at, next - at), .is_completion = is_learnt});
    at = next;
  }
}

// A special token is learnt where its first byte is.
bool is_learnt(const LearntText& written, size_t at) {
  return std::ranges::any_of(
      written.learnt, [&](const JinjaSpan& span) { return span.begin <= at && at < span.end; });
}

// `image_token` begins an image in the text; -1 for none.
Pieces pieces_of(const LearntText& written, int32_t image_token, const Tokenizer& tokenizer) {
  Pieces pieces;
  for (const TextPart& part : tokenizer.split(written.text)) {
    const auto begin = static_cast<size_t>(part.text.data() - written.text.data());
    if (part.id < 0)
      append_cut(pieces, written, begin, begin + part.text.size());
    else
      pieces.push_back({.text = std::string(part.text),
                        .special_id = part.id,
                        .is_completion = is_learnt(written, begin),
                        .is_image = part.id == image_token});
  }
  return pieces;
}

// A conversation as the template has written it, with its images.
Document written_document(const LearntText& written, const Tokenizer& tokenizer,
                          const std::optional<ImageText>& image_text) {
  const bool has_places = image_text && image_text->kind == ImageText::Kind::in_text;
  const int32_t image_token =
      has_places ? tokenizer.id_of(kStartOfImage).value_or(-1) : int32_t{-1};
  const Pieces pieces = pieces_of(written, image_token, tokenizer);
  const int64_t images = places_in(pieces);
  Document document =
      encode_pieces(images > 0 ? with_images(pieces, *image_text, tokenizer) : pieces, tokenizer);
  document.image_count = images;
  return document;
}

// A document's first token is nobody's target.
bool has_target(const Document& document) {
  const auto& marks = document.carries_loss;
  return !marks.empty() && std::find(marks.begin() + 1, marks.end(), 1) != marks.end();
}

struct Encoder {
  const Tokenizer& tokenizer;
  const EncodeOptions& options;

  std::vector<Document> operator()(const TextExample& example) const {
    return {framed_text(example.text, tokenizer, options.add_bos_eos)};
  }
  std::vector<Document> operator()(const CompletionExample& example) const {
    if (!options.image_text)
      return {
          framed({{example.prompt, std::nullopt, false}, {example.completion, std::nullopt, true}},
                 {tokenizer.bos_id(), tokenizer.eos_id()}, tokenizer, options.add_bos_eos)};
    Document document = options.image_text->kind == ImageText::Kind::before_text
                            ? behind_images(example)
                            : around_images(example);
    document.image_count = std::ssize(example.images);
    return {std::move(document)};
  }
  std::vector<Document> operator()(const PreferenceExample& example) const {
    std::vector<Document> documents{answer("chosen", example.chosen),
                                    answer("rejected", example.rejected)};
    if (documents[0].tokens == documents[1].tokens)
      throw DataError("found the same answer as chosen and as rejected, expected two");
    return documents;
  }
  std::vector<Document> operator()(const RolloutExample& example) const {
    std::vector<int64_t> places;
    Document document;
    if (const auto* drawn = std::get_if<DrawnTokens>(&example.drawn)) {
      document = of_drawn(*drawn);
      for (int64_t i = std::ssize(drawn->prompt); i < std::ssize(document.tokens); ++i)
        places.push_back(i);
    } else {
      const auto* text = std::get_if<CompletionExample>(&example.drawn);
      std::vector<Document> written =
          text ? (*this)(*text) : (*this)(std::get<ChatExample>(example.drawn));
      if (!written.empty()) document = std::move(written.back());
      for (int64_t i = 1; i < std::ssize(document.tokens); ++i)
        if (document.carries_loss[static_cast<size_t>(i)] == 1) places.push_back(i);
    }
    document.beside = beside_tokens(example.values, places, std::ssize(document.tokens));
    return {std::move(document)};
  }
  std::vector<Document> operator()(const ChatExample& example) const {
    if (!options.chat_template)
      throw DataError(
          "found messages, expected a chat template to write them with: none was asked for, or the "
          "tokenizer's folder has none without a name, so name one (chat_template, "
          "--chat-template): " +
          join(kChatTemplates) + ", or a .jinja file");
    if (!example.images.empty() && options.image_text->kind == ImageText::Kind::before_text)
      throw DataError(
          "found messages with images, expected prefix and suffix: the model reads images before "
          "its text alone");
    std::vector<Document> documents;
    for (const LearntText& written :
         learnt_texts(example.conversation, *options.chat_template, options.train_on, tokenizer))
      documents.push_back(written_document(written, tokenizer, options.image_text));
    return documents;
  }

 private:
  Document answer(const char* name, const std::optional<PreferenceExample::Answer>& answer) const {
    if (!answer) return {.tokens = {tokenizer.eos_id()}, .carries_loss = {0}};
    std::vector<Document> documents = std::visit(*this, *answer);
    if (documents.empty() || !has_target(documents.back()))
      throw DataError(std::string(name) + ": found nothing to learn");
    return std::move(documents.back());
  }

  Document of_drawn(const DrawnTokens& drawn) const {
    Document document;
    append(document, drawn.prompt, false);
    append(document, drawn.completion, true);
    std::ranges::copy(drawn.completion_mask,
                      document.carries_loss.end() - std::ssize(drawn.completion));
    for (const int32_t token : document.tokens)
      if (token >= tokenizer.vocab_size())
        throw DataError("found the token id " + std::to_string(token) + ", expected one below " +
                        std::to_string(tokenizer.vocab_size()) + ", as " +
                        path_text(tokenizer.path()) + " has them");
    return document;
  }

  Document behind_images(const CompletionExample& example) const {
    Document document = prompt_behind_images(example.prompt, std::ssize(example.images),
                                             *options.image_text, tokenizer, options.add_bos_eos);
    const Document completion = framed({{.text = example.completion, .is_completion = true}},
                                       {-1, tokenizer.eos_id()}, tokenizer, options.add_bos_eos);
    append(document, completion.tokens, false);
    std::ranges::copy(completion.carries_loss,
                      document.carries_loss.end() - std::ssize(completion.tokens));
    document.writes_bos_or_eos |= completion.writes_bos_or_eos;
    return document;
  }

  Document around_images(const CompletionExample& example) const {
    Pieces pieces = prompt_with_images(example.prompt, std::ssize(example.images),
                                       *options.image_text, tokenizer);
    pieces.push_back({.text = example.completion, .is_completion = true});
    return framed(std::move(pieces), {tokenizer.bos_id(), tokenizer.eos_id()}, tokenizer,
                  options.add_bos_eos);
  }
};

std::string no_images_text(const Example& example) {
  return "found " + plural(std::ssize(images_of(example)), "image") +
         ", but the model reads none; nearest: use_multimodal=true, for a model that does "
         "(tokenize: --model)";
}

}  // namespace

std::vector<Document> encode(const Example& example, const Tokenizer& tokenizer,
                             const EncodeOptions& options) {
  const int64_t images = std::ssize(images_of(example));
  if (images > 0 && !options.image_text) throw DataError(no_images_text(example));
  const bool is_preference = std::holds_alternative<PreferenceExample>(example);
  std::vector<Document> documents = std::visit(Encoder{tokenizer, options}, example);
  for (const Document& document : documents) {
    // A text that ends behind a turn has the images up to there.
    const bool is_whole = documents.size() == 1;
    if (options.image_text)
      expect_tokens_of_images(document, is_whole ? images : std::min(images, document.image_count),
                              *options.image_text, tokenizer);
    if (is_preference || has_target(document)) continue;
    const int64_t tokens = std::ssize(document.tokens);
    throw DataError("found nothing to learn: " + plural(tokens, "token") +
                    (tokens == 1 ? ", of which the first is predicted by none" : ""));
  }
  return documents;
}

Document encode_text(const std::string& text, const Tokenizer& tokenizer, AddBosEos add,
                     const std::optional<ImageText>& image_text) {
  Document document = framed_text(text, tokenizer, add);
  if (image_text) expect_tokens_of_images(document, 0, *image_text, tokenizer);
  return document;
}

std::vector<int32_t> prompt_tokens(const std::string& text, int32_t opening,
                                   const Tokenizer& tokenizer) {
  return framed({{text, std::nullopt, false}}, {opening, -1}, tokenizer, AddBosEos::missing).tokens;
}

std::vector<int32_t> prompt_tokens(const std::string& text, int64_t images,
                                   const ImageText& image_text, const Tokenizer& tokenizer,
                                   AddBosEos add) {
  const Document document = image_text.kind == ImageText::Kind::before_text
                                ? prompt_behind_images(text, images, image_text, tokenizer, add)
                                : framed(prompt_with_images(text, images, image_text, tokenizer),
                                         {tokenizer.bos_id(), -1}, tokenizer, add);
  expect_tokens_of_images(document, images, image_text, tokenizer);
  return document.tokens;
}

std::vector<int32_t> prompt_tokens(const Conversation& conversation, const Tokenizer& tokenizer,
                                   const ChatTemplate& chat_template,
                                   const std::optional<ImageText>& image_text) {
  chat_template.require_special_tokens(tokenizer);
  const Document document = written_document(
      {chat_template
           .text(conversation, conversation.messages.size(), ChatTemplate::Ending::assistant_opens)
           .text,
       {}},
      tokenizer, image_text);
  if (image_text)
    expect_tokens_of_images(document, image_count(conversation), *image_text, tokenizer);
  return document.tokens;
}

}  // namespace longshore::data
