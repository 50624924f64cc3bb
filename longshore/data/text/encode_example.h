// encode() turns an Example into token ids, and says of each whether it carries loss.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "longshore/data/images/image_text.h"
#include "longshore/data/rows/image_table.h"
#include "longshore/data/text/chat_template.h"
#include "longshore/data/text/example.h"
#include "longshore/data/text/learnt_texts.h"
#include "longshore/data/tokenizers/add_bos_eos.h"
#include "longshore/data/tokenizers/tokenizer.h"

namespace longshore::data {

struct Document {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> carries_loss;        // 1 or 0 for each token
  bool writes_bos_or_eos = false;           // at its ends, by itself; of texts and pairs
  int64_t image_count = 0;                  // how many of the example's images it has, in order
  std::vector<ImageReference> images = {};  // which encode() leaves to those who know the files
  std::vector<float> beside = {};           // of rollouts: see beside_tokens()
};

struct EncodeOptions {
  std::optional<ChatTemplate> chat_template = {};  // without: conversations are errors
  TrainOn train_on = TrainOn::assistant;           // of conversations
  AddBosEos add_bos_eos = AddBosEos::missing;
  std::optional<ImageText> image_text = {};  // of a model that reads images
};

// An example is one document; a conversation may be several, or none (see learnt_texts()).
//
// A preference is two, of the chosen and of the rejected answer, each as its prompt with a
// completion or as its conversation; where such would be several, that of its last turn alone. An
// answer that is not there is a document of eos alone, which carries no loss.
//
// A rollout is one document: tokens that were drawn as they are; of a text as that by itself, or
// that of a conversation's last turn.
//
// Text and pairs start with bos and end with eos, which is trained on, as add_bos_eos says;
// conversations are as the template writes them, special tokens included. A token that holds
// characters of a prompt and of its completion is trained on. Since a sentencepiece model reads the
// names of bos and eos as text, AddBosEos::missing takes them from the ends before.
//
// With image_text the model reads images, and text is written around them as transformers'
// processors do. An image's tokens are never trained on.
//   before_text  pairs: the images' tokens, bos, prompt and "\n", completion, eos, also without
//                images; prompt and completion are tokenized apart
//   in_text      for each image "\n\n", <start_of_image>, its tokens, <end_of_image>, "\n\n", which
//                is one text with what stands around it. They stand where the prompt, or what the
//                template writes, has <start_of_image>; without such in a prompt before it
//
// Throws a DataError, without file and line, on conversations without a template or that the
// template does not allow, and where nothing would be trained on: a document's first token is
// nobody's target. So on answers that are the same, or of which one has nothing to learn. Further
// on images that the model does not read, and where a text itself spells one of their tokens, by
// which the places of images are found.
std::vector<Document> encode(const Example& example, const Tokenizer& tokenizer,
                             const EncodeOptions& options = {});

// Text alone, as encode() does it; it may be empty.
Document encode_text(const std::string& text, const Tokenizer& tokenizer,
                     AddBosEos add = AddBosEos::missing,
                     const std::optional<ImageText>& image_text = std::nullopt);

// A text to go on with, behind the token `opening` (-1 for none), which is put before it as
// AddBosEos::missing puts bos.
std::vector<int32_t> prompt_tokens(const std::string& text, int32_t opening,
                                   const Tokenizer& tokenizer);

// A prompt with so many images, up to where the completion is to begin, as encode() writes it for a
// model that reads images. Throws a DataError as it does.
std::vector<int32_t> prompt_tokens(const std::string& text, int64_t images,
                                   const ImageText& image_text, const Tokenizer& tokenizer,
                                   AddBosEos add = AddBosEos::missing);

// The conversation up to where the assistant is to write next, tokenized as encode() does it, with
// images only for a model that has them in its text. Throws what ChatTemplate::text throws.
std::vector<int32_t> prompt_tokens(const Conversation& conversation, const Tokenizer& tokenizer,
                                   const ChatTemplate& chat_template,
                                   const std::optional<ImageText>& image_text = std::nullopt);

}  // namespace longshore::data
