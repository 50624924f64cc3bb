// A Prompt holds the tokens that a model is to continue.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "longshore/data/rows/row_images.h"
#include "longshore/data/text/chat_template.h"
#include "longshore/data/tokenizers/add_bos_eos.h"
#include "longshore/data/tokenizers/tokenizer.h"

namespace longshore::trainer {

struct Prompt {
  std::vector<int32_t> tokens;
  // Of a model that reads images: one row, with the tokens and what else it reads of them.
  std::optional<data::Batch> row = {};
  std::vector<int32_t> end_tokens;  // that end what is written after it
};

// `text` as what the user says, up to where the assistant is to write. It ends with the assistant's
// turn, or with eos. Throws a ConfigError, which begins with `origin`, that of the template, when
// the tokenizer lacks a special token, or the template does not allow it.
Prompt chat_prompt(const std::string& text, const data::ChatTemplate& chat_template,
                   const data::Tokenizer& tokenizer, const std::string& origin);

// The same of a conversation, up to where the assistant is to write.
Prompt chat_prompt(const data::Conversation& conversation, const data::ChatTemplate& chat_template,
                   const data::Tokenizer& tokenizer, const std::string& origin);

// What a model that reads images does with a text: the folder's image processor, and how many
// images it takes (`images_per_row`).
struct ImagePrompt {
  data::RowImages how;
  std::vector<std::filesystem::path> files = {};
  data::Element element = data::Element::float32;  // of the pixel values: the model's dtype
};

// `text` behind the images, as data::encode() has prompts; with a chat template as what the user
// says, images first. Throws as chat_prompt() does, and a DataError, which names the file, for an
// image.
Prompt image_prompt(const std::string& text, const ImagePrompt& images,
                    const std::optional<data::ChatTemplate>& chat_template, data::AddBosEos add,
                    const data::Tokenizer& tokenizer, const std::string& origin);

}  // namespace longshore::trainer
