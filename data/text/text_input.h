// A TextInput reads a text file as the documents to tokenize.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/rows/token_file.h"
#include "data/text/chat_template.h"
#include "data/text/encode_example.h"
#include "data/text/line_reader.h"
#include "data/tokenizers/tokenizer.h"

namespace longshore::data {

struct TokenizeOptions {
  std::string chat_template;    // one of kChatTemplates; empty: messages are errors
  bool skip_bad_lines = false;  // of a .jsonl file: leave them out, and count them
  AddBosEos add_bos_eos = AddBosEos::missing;
  // Hears, once, what is worth saying of the text.
  std::function<void(const std::string&)> say = {};
};

// What the first line that can be read of a .jsonl file looks like.
struct FirstExample {
  std::string form;  // form_of() it; empty where there is none
  int64_t line_number = 0;
};

// Throws a DataError, with file and line, on a bad line before it, unless such lines are skipped.
FirstExample first_example(const std::filesystem::path& path, bool skip_bad_lines);

struct EncodedTexts {
  void add(Document document);  // leaves out one without tokens

  std::vector<Document> documents;
  int64_t skipped_lines = 0;
  std::string first_fault;       // why the first of these was skipped
  int64_t with_own_bos_eos = 0;  // documents: see Document
};

// Documents of a .jsonl file are its lines, as encode() writes an Example; blank lines are none,
// and all have the form of the first. Any other file is plain text: its documents (see
// DocumentReader) become tokens as a TextExample does, so that texts begin as prompts do.
//
// Throws a DataError with file and line on a bad input, and for a file whose name says that it is
// compressed or no text. A line that is longer than LineReader allows is one even where bad lines
// are skipped: whoever wrote it hardly meant lines.
class TextInput {
 public:
  // Looks at the file's first example. Tokenizer and options must outlive the input. Throws a
  // ConfigError on an unknown template.
  TextInput(std::filesystem::path path, const Tokenizer& tokenizer, const TokenizeOptions& options);
  TextInput(const TextInput&) = delete;
  TextInput& operator=(const TextInput&) = delete;

  // Present where a document may have something that is not trained on.
  LossMask loss_mask() const;

  // Reads the file and hands it over chunk by chunk, in order. A chunk is encoded where and when it
  // is called, while the input is there.
  using EncodeChunk = std::function<EncodedTexts()>;
  void read(const std::function<void(EncodeChunk)>& hand_over) const;

 private:
  struct Text {
    std::string text;
    int64_t line_number = 0;  // of an example
  };
  using Texts = std::vector<Text>;

  EncodedTexts encode_paragraphs(const Texts& texts) const;
  EncodedTexts encode_lines(const Texts& lines) const;

  std::filesystem::path path_;
  const Tokenizer& tokenizer_;
  const TokenizeOptions& options_;
  std::optional<ChatTemplate> template_;
  FirstExample first_;  // nothing of plain text
};

}  // namespace longshore::data
