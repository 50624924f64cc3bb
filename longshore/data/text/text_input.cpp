#include "longshore/data/text/text_input.h"

#include <memory>
#include <string_view>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/data/files/conversion.h"
#include "longshore/data/files/text_format.h"
#include "longshore/data/text/document_reader.h"
#include "longshore/data/text/example.h"
#include "longshore/data/text/open_records.h"

namespace longshore::data {
namespace {

// Large enough that handing it to a thread takes no time compared with encoding it.
constexpr size_t kChunkBytes = size_t{256} << 10;
// Of lines that may have images, a handful takes as long.
constexpr size_t kMostLinesWithImages = 16;

// Such a file could be read as plain text, and a model would learn its brackets or worse.
void refuse_other_formats(const std::filesystem::path& path) {
  if (const std::string command = conversion_command(path); !command.empty())
    throw DataError(
        path_text(path) + ": found a " + printable(path.extension().string()) +
        " file, expected plain text (.txt), or examples (.jsonl, .json, .csv, .tsv, .parquet, "
        ".arrow); nearest: " +
        command);
}

ExampleOptions example_options(const TokenizeOptions& options) {
  return {.columns = options.columns,
          .has_template = options.encode.chat_template.has_value(),
          .kind = options.kind};
}

}  // namespace

FirstExample first_example(const std::filesystem::path& path, const TokenizeOptions& options) {
  const ExampleOptions how = example_options(options);
  const std::unique_ptr<RecordReader> reader = open_records(path, columns_read(how));
  for (std::string record; reader->next(record);) {
    try {
      const ReadExample first = read_example(record, how);
      return {.form = first.form,
              .is_text = std::holds_alternative<TextExample>(first.example),
              .takes_template = first.takes_template,
              .beside = first.beside,
              .line_number = reader->line_number()};
    } catch (const DataError& error) {
      if (!options.skip_bad_lines)
        throw DataError(at_line(path, reader->line_number(), error.what()));
    }
  }
  return {};
}

void EncodedTexts::add(Document document) {
  with_own_bos_eos += document.writes_bos_or_eos;
  if (!document.tokens.empty()) documents.push_back(std::move(document));
}

TextInput::TextInput(std::filesystem::path path, const Tokenizer& tokenizer,
                     const TokenizeOptions& options, std::filesystem::path tokens_folder)
    : path_(std::move(path)),
      tokenizer_(tokenizer),
      options_(options),
      folders_{path_.parent_path(), std::move(tokens_folder)} {
  refuse_other_formats(path_);
  const std::optional<ImageText>& image_text = options.encode.image_text;
  if (image_text &&
      (image_text->image_token < 0 || image_text->image_token >= tokenizer.vocab_size()))
    throw DataError(path_text(tokenizer.path()) + ": found " +
                    std::to_string(tokenizer.vocab_size()) + " tokens, expected one with the id " +
                    std::to_string(image_text->image_token) +
                    ", which stands for images: the tokenizer of another model?");
  if (options.kind != ExampleKind::text && !has_records(path_))
    throw DataError(path_text(path_) + ": found plain text, expected records with " +
                    (options.kind == ExampleKind::preference
                         ? "preferences, such as chosen and rejected"
                         : "rollouts, such as prompt_ids, completion_ids and advantages") +
                    " (.jsonl, .json, .csv, .tsv, .parquet, .arrow)");
  if (has_records(path_)) first_ = first_example(path_, options_);
}

LossMask TextInput::loss_mask() const {
  const bool all_is_trained = first_.form.empty() || first_.is_text;
  return all_is_trained ? LossMask::absent : LossMask::present;
}

void TextInput::read(const std::function<void(EncodeChunk, int64_t bytes)>& hand_over) const {
  Texts chunk;
  size_t chunk_bytes = 0;
  auto finish_chunk = [&] {
    hand_over(
        [this, texts = std::exchange(chunk, {})] {
          return has_records(path_) ? encode_records(texts) : encode_paragraphs(texts);
        },
        static_cast<int64_t>(chunk_bytes));
    chunk_bytes = 0;
  };
  auto add = [&](Text text) {
    chunk_bytes += text.text.size();
    chunk.push_back(std::move(text));
    const bool is_slow = options_.encode.image_text && chunk.size() >= kMostLinesWithImages;
    if (chunk_bytes >= kChunkBytes || (is_slow && has_records(path_))) finish_chunk();
  };
  if (has_records(path_)) {
    const std::unique_ptr<RecordReader> reader =
        open_records(path_, columns_read(example_options(options_)));
    for (std::string record; reader->next(record);) add({std::move(record), reader->line_number()});
  } else {
    DocumentReader reader(path_);
    for (std::string document; reader.next(document);) add({std::move(document)});
  }
  finish_chunk();
}

EncodedTexts TextInput::encode_paragraphs(const Texts& texts) const {
  EncodedTexts encoded;
  for (const Text& text : texts)
    encoded.add(encode_text(text.text, tokenizer_, options_.encode.add_bos_eos,
                            options_.encode.image_text));
  return encoded;
}

EncodedTexts TextInput::encode_records(const Texts& records) const {
  EncodedTexts encoded;
  for (const Text& record : records) {
    try {
      encode_record(record, encoded);
    } catch (const DataError& error) {
      const std::string fault = at_line(path_, record.line_number, error.what());
      if (!options_.skip_bad_lines) throw DataError(fault);
      if (++encoded.skipped_lines == 1) encoded.first_fault = fault;
    }
  }
  return encoded;
}

void TextInput::encode_record(const Text& record, EncodedTexts& encoded) const {
  const ReadExample read = read_example(record.text, example_options(options_));
  if (read.form != first_.form)
    throw DataError("found " + read.form + ", expected " + first_.form + " as on line " +
                    std::to_string(first_.line_number));
  std::vector<Document> documents = encode(read.example, tokenizer_, options_.encode);
  std::vector<ImageReference> images;
  for (const ImageSource& image : images_of(read.example))
    images.push_back(
        refer_to_image(image, record.line_number, folders_, options_.max_image_pixels));
  if (documents.size() > 1 && options_.kind == ExampleKind::text) {
    ++encoded.rewritten;
    encoded.made_of_these += std::ssize(documents);
  }
  for (Document& document : documents) {
    document.images.assign(images.begin(), images.begin() + document.image_count);
    encoded.add(std::move(document));
  }
}

}  // namespace longshore::data
