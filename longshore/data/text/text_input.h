// A TextInput reads a text file as the documents to tokenize.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "longshore/data/images/image_text.h"
#include "longshore/data/rows/referenced_image.h"
#include "longshore/data/rows/token_file.h"
#include "longshore/data/text/encode_example.h"
#include "longshore/data/text/line_reader.h"
#include "longshore/data/tokenizers/tokenizer.h"

namespace longshore::data {

struct TokenizeOptions {
  EncodeOptions encode = {};
  std::vector<std::string> columns = {};       // see ExampleOptions
  ExampleKind kind = ExampleKind::text;        // see ExampleOptions; of records, but for texts
  bool skip_bad_lines = false;                 // of records: leave them out, and count them
  int64_t max_image_pixels = kMaxImagePixels;  // width times height of one
  // Hears, once, what is worth saying of the text.
  std::function<void(const std::string&)> say = {};
  std::stop_token stop = {};  // ends tokenizing, as a StopSignal does
  bool shows_progress = true;
};

// What the first record that can be read of a file looks like.
struct FirstExample {
  std::string form;  // of its ReadExample; empty where there is none
  bool is_text = false;
  bool takes_template = false;           // see ReadExample
  std::vector<std::string> beside = {};  // see ReadExample
  int64_t line_number = 0;
};

// Throws a DataError, with file and line, on a bad one before it, unless such are skipped.
FirstExample first_example(const std::filesystem::path& path, const TokenizeOptions& options);

struct EncodedTexts {
  void add(Document document);  // leaves out one without tokens

  std::vector<Document> documents;
  int64_t rewritten = 0;  // conversations that are several documents: see learnt_texts()
  int64_t made_of_these = 0;
  int64_t skipped_lines = 0;
  std::string first_fault;       // why the first of these was skipped
  int64_t with_own_bos_eos = 0;  // documents: see Document
};

// Documents of a file with records (has_records()) are these, as encode() writes an Example; all
// have the form of the first. With preference two of them are one record's. Any other file is plain
// text: its documents (see DocumentReader) become tokens as a TextExample does, so that texts begin
// as prompts do.
//
// Images of records are opened and decoded, so that bad ones are bad lines; see
// refer_to_image().
//
// Throws a DataError with file and line on a bad input, and for a file whose name says that it is
// no text, or has none of the preferences or rollouts that are asked for. What a RecordReader
// refuses is an error even where bad lines are skipped: whoever wrote it hardly meant records.
class TextInput {
 public:
  // Looks at the file's first example. Tokenizer and options must outlive the input.
  // `tokens_folder` is where the token file will be. Throws a DataError where the tokenizer lacks
  // the token of images.
  TextInput(std::filesystem::path path, const Tokenizer& tokenizer, const TokenizeOptions& options,
            std::filesystem::path tokens_folder);
  TextInput(const TextInput&) = delete;
  TextInput& operator=(const TextInput&) = delete;

  // Present where a document may have something that is not trained on.
  LossMask loss_mask() const;
  // Names of the numbers beside each token.
  const std::vector<std::string>& beside() const { return first_.beside; }

  // Reads the file and hands it over chunk by chunk, in order, each with the bytes of its text. A
  // chunk is encoded where and when it is called, while the input is there.
  using EncodeChunk = std::function<EncodedTexts()>;
  void read(const std::function<void(EncodeChunk, int64_t bytes)>& hand_over) const;

 private:
  struct Text {
    std::string text;
    int64_t line_number = 0;  // of an example
  };
  using Texts = std::vector<Text>;

  EncodedTexts encode_paragraphs(const Texts& texts) const;
  EncodedTexts encode_records(const Texts& records) const;
  void encode_record(const Text& record, EncodedTexts& encoded) const;

  std::filesystem::path path_;
  const Tokenizer& tokenizer_;
  const TokenizeOptions& options_;
  ImageFolders folders_;
  FirstExample first_;  // nothing of plain text
};

}  // namespace longshore::data
