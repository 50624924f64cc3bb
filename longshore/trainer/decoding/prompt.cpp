#include "longshore/trainer/decoding/prompt.h"

#include "longshore/base/error.h"
#include "longshore/data/images/pixel_values.h"
#include "longshore/data/rows/referenced_image.h"
#include "longshore/data/text/encode_example.h"

namespace longshore::trainer {

namespace {

// The prompt's tokens as inputs, with what the model reads of its images.
data::Batch row_of(const std::vector<int32_t>& tokens, const ImagePrompt& images) {
  const auto length = static_cast<int64_t>(tokens.size());
  const data::RowImages& how = images.how;
  const int64_t slots = how.images_per_row;
  data::Batch batch = data::padding({{1, length},
                                     {{.name = data::kTokens, .per_row = length},
                                      {.name = data::kBlocks, .per_row = length},
                                      {.name = data::kImagePlaces,
                                       .per_row = slots * how.text.tokens_per_image,
                                       .padding = data::kNoPlace},
                                      {.name = data::kPixelValues,
                                       .element = images.element,
                                       .per_row = slots * how.pixels.value_count()}}});
  const data::Row row(batch, 0);
  std::vector<int32_t> sequence = tokens;
  sequence.push_back(0);  // what is to come
  std::vector<uint8_t> carries_loss(sequence.size(), 0);
  carries_loss.back() = 1;
  row.put(0, 1, sequence, carries_loss);
  data::RowImageWriter writer(how, row, length);
  writer.put(0, sequence, carries_loss, std::ssize(images.files));
  std::vector<float> planes(static_cast<size_t>(how.pixels.value_count()));
  for (const std::filesystem::path& file : images.files) {
    const data::Image image = data::read_image(
        file, {.max_pixels = how.max_pixels, .transparent_color = how.transparent_color});
    write_pixel_values(image, how.pixels, planes);
    writer.write_pixels(planes);
  }
  return batch;
}

Prompt prompt_of(const data::Conversation& conversation, const data::ChatTemplate& chat_template,
                 const data::Tokenizer& tokenizer, const std::string& origin,
                 const std::optional<data::ImageText>& image_text) {
  try {
    return {.tokens = data::prompt_tokens(conversation, tokenizer, chat_template, image_text),
            .end_tokens = {chat_template.end_of_turn(tokenizer).value_or(tokenizer.eos_id()),
                           tokenizer.eos_id()}};
  } catch (const DataError& error) {
    throw ConfigError(origin + ": " + error.what());
  }
}

}  // namespace

Prompt chat_prompt(const std::string& text, const data::ChatTemplate& chat_template,
                   const data::Tokenizer& tokenizer, const std::string& origin) {
  return prompt_of(data::user_says(text), chat_template, tokenizer, origin, std::nullopt);
}

Prompt chat_prompt(const data::Conversation& conversation, const data::ChatTemplate& chat_template,
                   const data::Tokenizer& tokenizer, const std::string& origin) {
  return prompt_of(conversation, chat_template, tokenizer, origin, std::nullopt);
}

Prompt image_prompt(const std::string& text, const ImagePrompt& images,
                    const std::optional<data::ChatTemplate>& chat_template, data::AddBosEos add,
                    const data::Tokenizer& tokenizer, const std::string& origin) {
  const data::ImageText& image_text = images.how.text;
  const size_t count = images.files.size();
  Prompt prompt;
  if (chat_template)
    prompt = prompt_of(data::user_says(text, count), *chat_template, tokenizer, origin, image_text);
  else
    prompt = {.tokens = data::prompt_tokens(text, static_cast<int64_t>(count), image_text,
                                            tokenizer, add),
              .end_tokens = {tokenizer.eos_id()}};
  prompt.row = row_of(prompt.tokens, images);
  return prompt;
}

}  // namespace longshore::trainer
